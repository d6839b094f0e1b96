//! Tests of loops over indices and of closures on ranks that are threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::tests::{config, noise};
use crate::error::ErrorKind;
use crate::loops::{ParallelFor, Settings, map, reduce};
use crate::session::{Session, run};

#[test]
fn ranges_yield_every_index_once() {
    for ranks in [1, 2, 3, 8] {
        for (indices, seed) in
            [(5..5, None), (7..8, None), (3..6, Some(1)), (10..510, None), (0..300, Some(2))]
        {
            let done = Mutex::new(Vec::new());
            let settings = Settings::new();
            let settings = match seed {
                Some(seed) => settings.forced(seed).block_size(3),
                None => settings,
            };
            run(&config(ranks), |session| {
                let is_root = session.is_root();
                let mut ranges =
                    ParallelFor::new("ranges", indices.clone()).settings(settings.clone()).ranges(session)?;
                while let Some(range) = ranges.next()? {
                    done.lock().unwrap().extend(range);
                }
                assert_eq!(ranges.next()?, None, "it stays at its end");
                assert_eq!(ranges.summary().map(|s| s.units), is_root.then_some(indices.end - indices.start));
                Ok(())
            })
            .unwrap();
            let mut done = done.into_inner().unwrap();
            done.sort_unstable();
            assert_eq!(done, indices.collect::<Vec<_>>(), "{ranks} ranks");
        }
    }
}

/// Returns the indices that each rank has processed, in a loop in which each index takes longer on rank 0.
fn done_by(ranks: usize, settings: &Settings, has_hooks: bool) -> Vec<Vec<u64>> {
    let done = Mutex::new(vec![Vec::new(); ranks]);
    run(&config(ranks), |session| {
        let rank = session.rank();
        let mut ranges = ParallelFor::new("hooks", 100..200).settings(settings.clone()).ranges(session)?;
        while let Some(mut range) = ranges.next()? {
            while let Some(index) = range.next() {
                std::thread::sleep(Duration::from_micros(if rank == 0 { 4_000 } else { 300 }));
                done.lock().unwrap()[rank].push(index);
                if has_hooks {
                    range = ranges.hook(range)?;
                }
            }
        }
        Ok(())
    })
    .unwrap();
    done.into_inner().unwrap()
}

#[test]
fn hook_allows_dispatched_units_to_move() {
    let whole = Settings::new().block_size(100);
    let without = done_by(2, &whole, false);
    assert_eq!(without[0], (100..150).collect::<Vec<_>>());
    let with = done_by(2, &whole, true);
    assert!(with[0].len() < 35, "{with:?}");
}

#[test]
fn every_index_runs_once_with_hooks() {
    for ranks in [1, 2, 3, 8] {
        for seed in 0..6 {
            let settings = Settings::new().forced(seed).block_size(1 + 17 * seed);
            let mut all = done_by(ranks, &settings, true).concat();
            all.sort_unstable();
            assert_eq!(all, (100..200).collect::<Vec<_>>(), "{ranks} ranks, seed {seed}");
        }
    }
}

#[test]
fn hook_requires_the_rest_of_the_range() {
    let error = run(&config(1), |session| {
        let mut ranges = ParallelFor::new("hooks", 10..30).block_size(8).ranges(session)?;
        assert_eq!((ranges.next()?, ranges.hook(13..18)?), (Some(10..18), 13..18));
        assert_eq!(ranges.hook(18..18)?, 18..18, "all is done");
        assert_eq!(ranges.next()?, Some(18..26));
        ranges.hook(17..26)?;
        Ok(())
    });
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::User);
    assert!(
        error.to_string().contains(
            "loop hooks: the hook got 17..26 as the remaining range, expected an end part of 18..26"
        ),
        "{error}"
    );
}

#[test]
fn closure_results_equal_the_serial_loop() {
    let third = |n: u64| 1.0 / (3 * n + 1) as f64;
    let serial = (5..905).map(third).fold(0.5, |sum, x| sum + x);
    for ranks in [1, 2, 3, 7] {
        let (names, sum, most) = run(&config(ranks), |session| {
            let names = map(session, "names", 3..203, |n| n.to_string())?;
            let sum = ParallelFor::new("sum", 5..905).fold_in_order(session, third, 0.5, |sum, x| sum + x)?;
            let most = reduce(session, "most", 0..500, noise, 0, u64::max)?;
            assert!(map(session, "none", 3..3, |n| n)?.is_empty());
            Ok((names, sum, most))
        })
        .unwrap();
        assert_eq!(names, (3..203).map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!(sum.to_bits(), serial.to_bits());
        assert_eq!(Some(most), (0..500).map(noise).max());
    }
    let count = AtomicU64::new(0);
    let settings = Settings::new().forced(4).block_size(2);
    run(&config(4), |session| {
        let stopwatch = session.stopwatch();
        ParallelFor::new("count", 0..100).settings(settings.clone()).run(session, |range| {
            count.fetch_add(range.end - range.start, Ordering::Relaxed);
            assert!(stopwatch.elapsed() > Duration::ZERO, "it tells the time also while a loop runs");
            Ok(())
        })?;
        ParallelFor::new("count", 100..150).run(session, |range| {
            count.fetch_add(range.end - range.start, Ordering::Relaxed);
            Ok(())
        })?;
        Ok(())
    })
    .unwrap();
    assert_eq!(count.into_inner(), 150);
}

#[test]
fn failing_closure_names_its_indices() {
    // No indices move between ranks, so that it is known which rank processes which index.
    let still = Settings::new().balance(crate::Balance::Off);
    let error = run(&config(2), |session| {
        ParallelFor::new("odd", 30..40)
            .settings(still.clone())
            .run(session, |range| if range.contains(&38) { Err("odd".into()) } else { Ok(()) })?;
        Ok(())
    })
    .unwrap_err();
    assert_eq!((error.kind(), error.rank()), (ErrorKind::User, Some(1)), "{error}");
    assert!(error.to_string().contains("loop odd: odd (in unit"), "{error}");
}

#[test]
fn failing_index_is_named() {
    let body = |index: u64| {
        assert!(index != 137, "out of luck");
        index
    };
    type Loop = fn(&mut Session, fn(u64) -> u64) -> crate::Result<u64>;
    let loops: [Loop; 4] = [
        |session, body| {
            let all = ParallelFor::new("bad", 100..200).collect(session, body)?;
            Ok(all.on_root().map_or(0, |all| all.len() as u64))
        },
        |session, body| Ok(map(session, "bad", 100..200, body)?.len() as u64),
        |session, body| {
            ParallelFor::new("bad", 100..200).fold_in_order(session, body, 0, |sum, index| sum + index)
        },
        |session, body| reduce(session, "bad", 100..200, body, 0, u64::max),
    ];
    for ranks in [1, 3] {
        for bad in loops {
            let error = run(&config(ranks), |session| Ok(bad(session, body)?)).unwrap_err();
            assert!(error.to_string().contains("loop bad: panicked: out of luck (in unit 137"), "{error}");
        }
        let error = run(&config(ranks), |session| {
            ParallelFor::new("bad", 100..200).run(session, |range| {
                range.for_each(|index| assert!(body(index) == index));
                Ok(())
            })?;
            Ok(())
        });
        let error = error.unwrap_err();
        assert!(error.to_string().contains("out of luck (in unit"), "a range that has it: {error}");
    }
}
