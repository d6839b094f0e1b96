//! Tests that farms with sub-masters return the same results as farms without sub-masters.

use super::worker_count::counted;
use super::*;

#[test]
fn sub_masters_do_not_change_results() {
    for (ranks, leaders) in [(3, 1), (5, 2), (9, 3), (4, 9), (2, 1), (1, 2)] {
        for chunking in CHUNKINGS {
            for ordered in [true, false] {
                let (mut seen, summary) = run(&config(ranks), |session| {
                    let mut seen = Vec::new();
                    let mut farm =
                        Farm::new("text", |x: u32| x.to_string()).sub_masters(leaders).chunking(chunking);
                    if !ordered {
                        farm = farm.unordered();
                    }
                    let outcome =
                        farm.for_each(session, 0..2_000, |number, text| seen.push((number, text)))?;
                    Ok((seen, outcome.into_summary()))
                })
                .unwrap();
                assert!(!ordered || seen.is_sorted_by_key(|&(number, _)| number));
                seen.sort_unstable();
                assert!(seen.into_iter().eq((0..2_000).map(|n: u64| (n, n.to_string()))));
                let summary = summary.unwrap();
                let expected = leaders.min(ranks.saturating_sub(1) / 2);
                assert_eq!(summary.sub_masters.len(), expected, "{ranks} ranks, {leaders} wanted");
                assert_eq!(summary.ranks.iter().map(|r| r.tasks).sum::<u64>(), 2_000, "{summary}");
                assert!(summary.sub_masters.iter().all(|&r| summary.ranks[r].tasks == 0), "{summary}");
            }
        }
    }
}

#[test]
fn failed_tasks_are_retried_under_sub_masters() {
    for leaders in [1, 2] {
        let results = run(&config(6), |session| {
            let mut farm = Farm::worker("second", || Ok(Second)).sub_masters(leaders).retries(1);
            let first = farm.collect(session, 0..300)?.into_parts();
            Ok(first.zip(farm.collect(session, 0..300)?.on_root()))
        });
        let ((results, summary), again) = results.unwrap().unwrap();
        assert_eq!(results, again, "a second run is like the first");
        assert!(results.into_iter().eq((0..300).map(|n: u64| (n, u32::from(n.is_multiple_of(10))))));
        assert_eq!((summary.failed, summary.retried, summary.sub_masters.len()), (0, 30, leaders));
    }
}

#[test]
fn iterations_and_endless_streams_run_under_sub_masters() {
    let farm = || Farm::new("same", |x: u64| x).sub_masters(2);
    let summary = counted(&config(7), farm, 30);
    assert_eq!((summary.iterations, summary.tasks, summary.sub_masters), (30, 30 * 64, vec![1, 4]));
    let last = run(&config(7), |session| {
        let mut last = 0;
        farm().for_each(session, 0.., |number, x| {
            last = x;
            if number == 9_999 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(last)
    });
    assert_eq!(last.unwrap(), 9_999);
}
