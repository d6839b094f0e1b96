//! Tests of farms that keep their results in a journal.

use super::*;

#[test]
fn journalled_results_are_not_recomputed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("farm.journal");
    for ranks in [1, 3] {
        let path = path.with_extension(ranks.to_string());
        let attempt = |stop: Option<u64>| {
            let done = AtomicUsize::new(0);
            let (results, summary) = run(&config(ranks), |session| {
                let mut results = Vec::new();
                let work = |x: u64| -> Result<String, BoxError> {
                    done.fetch_add(1, Ordering::Relaxed);
                    if x == 50 { Err("torn".into()) } else { Ok(x.to_string()) }
                };
                let mut farm = Farm::try_new("texts", work).unordered().journal(&path, "v1");
                let mut fed = 0;
                let outcome = farm.for_each_result(session, 0..300, |number, text| {
                    results.push((number, text.ok()));
                    fed += 1;
                    if Some(fed) == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                Ok((results, outcome.into_summary()))
            })
            .unwrap();
            (results, summary.unwrap(), done.into_inner() as u64)
        };
        let (first, _, _) = attempt(Some(100));
        assert_eq!(first.len(), 100);
        let (mut all, summary, done) = attempt(None);
        assert!(summary.known >= 99 && done == 300 - summary.known, "{summary}");
        all.sort_unstable();
        let expected = (0..300).map(|n: u64| (n, (n != 50).then(|| n.to_string())));
        assert!(all.into_iter().eq(expected));
        let (_, summary, done) = attempt(None);
        assert_eq!((summary.known, done, summary.failed), (299, 1, 1), "only what failed is tried again");
    }
}

/// A result must be in the journal before the sink receives it: if the program is killed in the sink, the next run
/// finds every result that the sink has shown.
#[test]
fn results_are_journalled_before_the_sink_receives_them() {
    let dir = tempfile::tempdir().unwrap();
    for ranks in [1, 3] {
        let path = dir.path().join(format!("{ranks}.journal"));
        let missing = run(&config(ranks), |session| {
            let farm = Farm::new("texts", |x: u64| format!("<{x}>"));
            let mut farm = farm.chunking(Chunking::fixed(3)).journal(&path, "v1");
            let mut missing = Vec::new();
            farm.for_each(session, 0..60, |number, text| {
                let kept = std::fs::read(&path).unwrap();
                if !kept.windows(text.len()).any(|place| place == text.as_bytes()) {
                    missing.push(number);
                }
            })?;
            Ok(missing)
        });
        assert_eq!(missing.unwrap(), Vec::<u64>::new(), "{ranks} ranks");
    }
}

#[test]
fn iterations_resume_from_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    for ranks in [1, 3] {
        let path = dir.path().join(format!("{ranks}.journal"));
        // In each iteration each value becomes the sum of itself and the next value; one task of the second iteration fails.
        let attempt = |stop: Option<usize>, first: u64| {
            let done = AtomicUsize::new(0);
            let result = run(&config(ranks), |session| {
                let mut last = Vec::new();
                let work = |(iteration, a, b): (usize, u64, u64)| -> Result<u64, BoxError> {
                    done.fetch_add(1, Ordering::Relaxed);
                    if iteration == 1 && a > b { Err("torn".into()) } else { Ok(a + b) }
                };
                let set = |iteration: usize, v: &[u64]| -> Vec<_> {
                    (0..v.len()).map(|i| (iteration, v[i], v[(i + 1) % v.len()])).collect()
                };
                let mut farm = Farm::try_new("ring", work).journal(&path, "v1");
                let start: Vec<u64> = (first..first + 40).collect();
                let outcome = farm.iterate_results(session, set(0, &start), |sums, iteration| {
                    if Some(iteration) == stop {
                        return Err("killed".into());
                    }
                    last = sums.into_iter().map(|sum| sum.unwrap_or(1)).collect();
                    Ok((iteration < 4).then(|| set(iteration + 1, &last)))
                })?;
                Ok((last, outcome.into_summary()))
            });
            (result, done.into_inner() as u64)
        };
        let (error, done) = attempt(Some(2), 0);
        assert_eq!((error.unwrap_err().kind(), done), (ErrorKind::User, 120));
        let (result, done) = attempt(None, 0);
        let (values, summary) = result.unwrap();
        let summary = summary.unwrap();
        assert_eq!((done, summary.known, summary.tasks, summary.iterations), (80, 120, 200, 5), "{summary}");
        assert!(summary.failed > 0, "{summary}");
        let (result, done) = attempt(None, 0);
        let (again, summary) = result.unwrap();
        assert_eq!((again, done, summary.unwrap().known), (values, 0, 200));
        let (error, _) = attempt(None, 1);
        let error = error.unwrap_err();
        assert!(error.to_string().contains("the tasks of iteration 0 differ from those"), "{error}");
    }
}

#[test]
fn journal_belongs_to_one_run() {
    let dir = tempfile::tempdir().unwrap();
    for is_same_farm in [true, false] {
        let path = dir.path().join(format!("journal-{is_same_farm}"));
        let error = run(&config(2), |session| {
            let add = |n: u64| Farm::new("step", move |x: u64| x + n).journal(&path, "");
            let mut farm = add(0);
            farm.for_each(session, 0..5, |_, _| ())?;
            if !is_same_farm {
                // This farm has the name and the identity of the first farm, but computes other results.
                farm = add(100);
            }
            farm.for_each(session, 0..5, |_, _| ())?;
            Ok(())
        })
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("was used by an earlier run of this job"), "{error}");
    }
}

/// Tests that, if each rank gets an equal share of the tasks, only tasks without a known result are shared: after a restart, each of the two ranks
/// runs five of the ten remaining tasks.
#[test]
fn known_results_are_excluded_from_shares() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shares.journal");
    let attempt = |tasks: u64| {
        let shares = run(&config(2).balance(Balance::Off), |session| {
            // The five tasks of a rank take longer than the other rank needs to start, so no rank runs tasks of the other's share.
            let work = |x: u64| {
                if x >= 90 {
                    std::thread::sleep(Duration::from_millis(20));
                }
                x
            };
            let farm = Farm::new("shares", work).chunking(Chunking::Static).journal(&path, "v1");
            let summary = { farm }.collect(session, 0..tasks)?.into_summary();
            Ok(summary.map(|summary| summary.ranks.iter().map(|rank| rank.tasks).collect::<Vec<_>>()))
        });
        shares.unwrap().unwrap()
    };
    assert_eq!(attempt(90).iter().sum::<u64>(), 90);
    assert_eq!(attempt(100), [5, 5]);
}
