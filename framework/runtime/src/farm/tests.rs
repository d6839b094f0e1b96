//! Tests of farms on ranks that are threads.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::error::{BoxError, ErrorKind};
use crate::session::{Balance, Config, Driver, run};

fn config(ranks: usize) -> Config {
    Config::new().ranks(ranks).progress(crate::Progress::Off)
}

const CHUNKINGS: [Chunking; 4] =
    [Chunking::Auto, Chunking::Static, Chunking::Policy(Published::SelfScheduling), Chunking::fixed(7)];

#[test]
fn results_equal_the_serial_program() {
    for ranks in [1, 2, 3, 5] {
        for chunking in CHUNKINGS {
            for tasks in [0u64, 1, 2, 100, 5_000] {
                for driver in [Driver::Auto, Driver::Inline, Driver::Threaded] {
                    let results = run(&config(ranks).driver(driver), |session| {
                        let mut farm = Farm::new("square", |x: u64| x * x).chunking(chunking);
                        Ok(farm.collect(session, 0..tasks)?)
                    });
                    let (results, summary) = results.unwrap().into_parts().unwrap();
                    assert!(results.into_iter().eq((0..tasks).map(|x| x * x)));
                    assert_eq!((summary.tasks, summary.failed), (tasks, 0));
                    assert_eq!(summary.ranks.iter().map(|r| r.tasks).sum::<u64>(), tasks);
                }
            }
        }
    }
}

/// Ranks start the farm at different times, and nevertheless run equal shares of the tasks.
#[test]
fn static_shares_are_equal_for_any_start_order() {
    for (ranks, driver) in [(2, Driver::Auto), (3, Driver::Threaded), (4, Driver::Auto)] {
        let config = config(ranks).balance(Balance::Off).driver(driver);
        let shares = run(&config, |session| {
            std::thread::sleep(Duration::from_millis(20) * session.rank() as u32);
            // Each rank has 50 tasks, which take 250 ms together. The last rank starts the farm less than 250 ms after the first rank.
            let work = |_: u64| std::thread::sleep(Duration::from_millis(5));
            let mut farm = Farm::new("slow", work).chunking(Chunking::Static);
            let summary = farm.collect(session, 0..50 * ranks as u64)?.into_summary();
            Ok(summary.map(|summary| summary.ranks.iter().map(|rank| rank.tasks).collect::<Vec<_>>()))
        });
        assert_eq!(shares.unwrap().unwrap(), vec![50; ranks], "{driver:?}");
    }
}

#[test]
fn unordered_farm_delivers_every_result_once() {
    let mut seen = run(&config(4), |session| {
        let mut seen = Vec::new();
        let mut farm = Farm::new("text", |x: u32| x.to_string()).unordered().dedicated_master();
        farm.for_each(session, 0..1_000, |number, text| seen.push((number, text)))?;
        Ok(seen)
    })
    .unwrap();
    seen.sort_unstable();
    assert!(seen.into_iter().eq((0..1_000).map(|n: u64| (n, n.to_string()))));
}

#[test]
fn endless_stream_is_stopped_by_the_sink() {
    for ranks in [1, 3] {
        let (sum, tasks) = run(&config(ranks), |session| {
            let mut sum = 0;
            let mut farm = Farm::new("same", |x: u64| x);
            let outcome = farm.for_each(session, 0.., |number, x| {
                sum += x;
                if number == 9_999 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            Ok((sum, outcome.summary().map(|s| s.tasks)))
        })
        .unwrap();
        assert_eq!(sum, 9_999 * 10_000 / 2);
        assert!(tasks.unwrap() >= 10_000);
    }
}

#[test]
fn failing_task_is_retried_and_then_reported() {
    for ranks in [1, 2, 4] {
        for chunking in CHUNKINGS {
            let tries = AtomicUsize::new(0);
            let (good, bad, summary) = run(&config(ranks), |session| {
                let (mut good, mut bad) = (Vec::new(), Vec::new());
                let work = |x: u64| -> Result<u64, BoxError> {
                    match x {
                        17 => {
                            tries.fetch_add(1, Ordering::Relaxed);
                            Err("torn".into())
                        }
                        40 => panic!("burst"),
                        _ => Ok(x),
                    }
                };
                let mut farm = Farm::try_new("try", work).chunking(chunking).retries(2);
                let outcome = farm.for_each_result(session, 0..100, |number, result| match result {
                    Ok(x) => good.push((number, x)),
                    Err(failed) => bad.push(failed),
                })?;
                Ok((good, bad, outcome.into_summary()))
            })
            .unwrap();
            assert!(good.into_iter().eq((0..100).filter(|x| ![17, 40].contains(x)).map(|x| (x, x))));
            let failures: Vec<_> = bad.iter().map(|f| (f.task(), f.tries(), f.message(), f.kind())).collect();
            assert_eq!(failures, [(17, 3, "torn", ErrorKind::User), (40, 3, "burst", ErrorKind::Panic)]);
            assert_eq!(tries.load(Ordering::Relaxed), 3, "once and two times again");
            let summary = summary.unwrap();
            assert_eq!((summary.tasks, summary.failed, summary.retried), (100, 2, 4));
        }
    }
}

#[test]
fn error_of_a_retried_task_contains_the_try_count() {
    for (retries, expected) in [(0, "task 17: torn"), (2, "task 17: torn (after 3 tries)")] {
        let error = run(&config(2), |session| {
            let work = |x: u64| if x == 17 { Err("torn".into()) } else { Ok(x) };
            Ok(Farm::try_new("try", work).retries(retries).collect(session, 0..100)?.on_root())
        });
        let error = error.unwrap_err().to_string();
        assert!(error.ends_with(expected), "{error}");
    }
}

struct Second;

impl Worker for Second {
    type In = u64;
    type Out = (u64, u32);

    fn work(&mut self, task: u64, cx: &mut Context) -> Result<(u64, u32), BoxError> {
        if cx.attempt() == 0 && task.is_multiple_of(10) {
            return Err("not yet".into());
        }
        Ok((cx.number(), cx.attempt()))
    }
}

#[test]
fn second_attempt_may_succeed() {
    for ranks in [1, 3] {
        let results = run(&config(ranks), |session| {
            let mut farm = Farm::worker("second", || Ok(Second)).retries(1);
            Ok(farm.collect(session, 0..200)?)
        });
        let (results, summary) = results.unwrap().into_parts().unwrap();
        assert!(results.into_iter().eq((0..200).map(|n: u64| (n, u32::from(n.is_multiple_of(10))))));
        assert_eq!((summary.failed, summary.retried), (0, 20));
    }
}

#[test]
fn fatal_errors_end_the_job_and_name_their_place() {
    let failing = |ranks: usize, what: &'static str| {
        run(&config(ranks), |session| {
            let make = move || if what == "make" { Err(BoxError::from("torn")) } else { Ok(Second) };
            let mut farm = Farm::worker("fragile", make);
            let tasks = (0..100u64).inspect(|&n| assert!(what != "iterator" || n != 20, "torn"));
            if what == "task" {
                farm.for_each(session, tasks, |_, _| ())?;
                return Ok(());
            }
            farm.for_each_result(session, tasks, |number, _| -> Result<(), BoxError> {
                assert!(what != "panic" || number != 20, "torn");
                if what == "sink" && number == 20 { Err("torn".into()) } else { Ok(()) }
            })?;
            Ok(())
        })
        .unwrap_err()
        .to_string()
    };
    for ranks in [1, 3] {
        assert!(failing(ranks, "make").ends_with("farm fragile: cannot create the worker: torn"));
        assert!(failing(ranks, "task").ends_with("0: not yet"));
        assert_eq!(failing(ranks, "iterator"), "rank 0: farm fragile: task 20: panicked: torn");
        assert_eq!(failing(ranks, "panic"), "rank 0: farm fragile: task 20: panicked: torn");
        assert_eq!(failing(ranks, "sink"), "rank 0: farm fragile: task 20: torn");
    }
}

#[test]
fn each_iteration_uses_the_previous_results() {
    for ranks in [1, 2, 4] {
        let (last, summary) = run(&config(ranks), |session| {
            let mut last = Vec::new();
            let mut farm = Farm::new("step", |x: u64| x + 1);
            let outcome = farm.iterate(session, 0..50u64, |results, iteration| {
                last.clone_from(&results);
                Ok((iteration < 19).then(|| results.into_iter().rev().collect()))
            })?;
            Ok((last, outcome.into_summary()))
        })
        .unwrap();
        assert!(last.into_iter().eq((0..50).rev().map(|x| x + 20)));
        let summary = summary.unwrap();
        assert_eq!((summary.iterations, summary.tasks), (20, 1_000));
    }
}

#[test]
fn repeated_runs_reuse_the_workers() {
    let made = AtomicUsize::new(0);
    run(&config(3), |session| {
        let make = || {
            made.fetch_add(1, Ordering::Relaxed);
            Ok(Second)
        };
        let mut farm = Farm::worker("kept", make).retries(1);
        for _ in 0..3 {
            farm.for_each(session, 0..50, |_, _| ())?;
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(made.load(Ordering::Relaxed), 3, "once on each rank");
}

/// A time limit for tasks is refused on thread ranks: a thread cannot be killed, so the run would not end if a task does not.
#[test]
fn task_limit_is_refused_on_thread_ranks() {
    for ranks in [1, 3] {
        let error = run(&config(ranks), |session| {
            let mut farm = Farm::new("slow", |x: u64| x).task_limit(Duration::from_millis(200));
            Ok(farm.collect(session, 0..100)?)
        })
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains("start the program with mpirun on two or more ranks"), "{error}");
    }
}

#[test]
fn long_task_with_heartbeats_is_not_lost() {
    let summary = run(&config(2), |session| {
        let mut farm = Farm::new("long", |x: u64| {
            if x == 3 {
                std::thread::sleep(Duration::from_millis(900));
            }
            x
        });
        farm = farm
            .chunking(Chunking::Policy(Published::SelfScheduling))
            .silence_limit(Duration::from_millis(300));
        Ok(farm.dedicated_master().collect(session, 0..10)?.into_summary())
    });
    assert!(summary.unwrap().unwrap().lost.is_empty());
}

#[test]
fn differing_farms_on_ranks_are_refused() {
    let error = run(&config(2), |session| {
        let name = if session.is_root() { "one" } else { "other" };
        Farm::new(name, |x: u64| x).dedicated_master().for_each(session, 0..10, |_, _| ())?;
        Ok(())
    })
    .unwrap_err();
    assert!(
        error.to_string().contains("runs the farm \"other\", but rank 0 runs the farm \"one\""),
        "{error}"
    );
}

/// One of the worker's short tasks takes twice as long as the worker may be silent, and the worker must not be declared dead.
#[test]
fn long_task_in_a_chunk_is_not_a_death() {
    const LONG: u64 = 4_000;
    let silence = Duration::from_secs(1);
    let (results, summary) = run(&config(3), |session| {
        let work = move |x: u64| {
            if x == LONG {
                std::thread::sleep(2 * silence);
            }
            x + 1
        };
        let farm = Farm::new("uneven", work).chunking(Chunking::fixed(8)).silence_limit(silence);
        Ok(farm.dedicated_master().collect(session, 0..5_000)?.into_parts())
    })
    .unwrap()
    .unwrap();
    assert!(results.into_iter().eq(1..=5_000));
    assert_eq!((summary.lost, summary.tasks, summary.retried), (vec![], 5_000, 0));
    assert!(summary.again > 0, "somebody else has done it beside the messages");
}

#[path = "journal_tests.rs"]
mod journal;
#[path = "parts_tests.rs"]
mod parts;
#[path = "second_copies_tests.rs"]
mod second_copies_tests;
#[path = "submasters_tests.rs"]
mod submasters;
#[path = "worker_count_tests.rs"]
mod worker_count;

/// The sink or the source takes longer than a rank may be silent; rank 0 and its workers must not declare each other dead meanwhile.
#[test]
fn slow_sink_or_source_does_not_silence_rank_0() {
    let config = config(3).peer_limit(Duration::from_millis(800));
    let nap = |number: u64| {
        // The sink or the source sleeps at each task: at task 3 longer than the limit for silent ranks, and at the other tasks together longer than
        // it, too.
        let naps = if number == 3 { 1_500 } else { 20 };
        std::thread::sleep(Duration::from_millis(naps));
    };
    for (slow_sink, ordered) in [(true, true), (true, false), (false, true)] {
        let seen = run(&config, |session| {
            let mut seen = Vec::new();
            let mut farm = Farm::new("same", |x: u64| x).chunking(Chunking::fixed(80)).dedicated_master();
            if !ordered {
                farm = farm.unordered();
            }
            let tasks = (0..80).inspect(|&x| {
                if !slow_sink {
                    nap(x);
                }
            });
            farm.for_each(session, tasks, |number, x| {
                if slow_sink {
                    nap(number);
                }
                seen.push((number, x));
            })?;
            Ok(seen)
        });
        let mut seen = seen.unwrap();
        assert!(!ordered || seen.is_sorted());
        seen.sort_unstable();
        assert!(seen.into_iter().eq((0..80).map(|x| (x, x))));
    }
}

#[test]
fn options_without_meaning_are_errors() {
    for ranks in [1, 3] {
        let refused = |option: &str| {
            let error = run(&config(ranks), |session| {
                let farm = Farm::new("square", |x: u64| x * x);
                let mut farm = match option {
                    "workers" => farm.workers(0),
                    _ => farm.task_limit(Duration::from_secs(9)).sub_masters(1),
                };
                Ok(farm.collect(session, 0..9)?)
            });
            let error = error.unwrap_err();
            assert_eq!((error.kind(), error.stage()), (ErrorKind::Config, Some("square")), "{error}");
            assert!(error.message().contains(option), "{error}");
        };
        ["workers", "sub_masters"].into_iter().for_each(refused);
    }
}

#[test]
fn farm_options_override_the_environment() {
    let config = config(4).balance(Balance::Live);
    let summary = run(&config, |session| {
        let mut farm = Farm::new("still", |x: u64| x).balance(Balance::Off).workers(2);
        Ok(farm.for_each(session, 0..3_000, |_, _| ())?.into_summary())
    });
    let summary = summary.unwrap().unwrap();
    assert_eq!((summary.started_with, summary.ended_with, summary.change), (2, 2, None));
}
