//! Tests that the sink receives the first results early, and that ranks run few more tasks after the sink has ended the run. The
//! iterators of tasks give various size hints.

use std::sync::{Condvar, Mutex};

use super::*;

#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let wait = self.opened.wait_timeout_while(self.is_open.lock().unwrap(), LONG, |is_open| !*is_open);
        assert!(!wait.unwrap().1.timed_out(), "the sink has had nothing");
    }
}

const LONG: Duration = Duration::from_secs(60);

/// All tasks but the first wait until the sink has received a result.
fn first_result_comes_first(tasks: impl Iterator<Item = u64> + Clone + Send + Sync) {
    for ranks in [2, 3] {
        let gate = Gate::default();
        let first = run(&config(ranks), |session| {
            let work = |task: u64| {
                if task > 0 {
                    gate.pass();
                }
                task
            };
            let mut first = None;
            let mut farm = Farm::new("gated", work);
            farm.for_each(session, tasks.clone(), |number, result| {
                gate.open();
                first = Some((number, result));
                ControlFlow::Break(())
            })?;
            Ok(first)
        });
        assert_eq!(first.unwrap(), Some((0, 0)), "{ranks} ranks");
    }
}

#[test]
fn first_result_is_delivered_after_one_task() {
    first_result_comes_first(0..100_000);
    first_result_comes_first(0..);
    first_result_comes_first((0..100_000).filter(|_| true));
}

#[test]
fn long_chunk_is_delivered_in_ordered_parts() {
    for driver in [Driver::Auto, Driver::Inline] {
        let gate = Gate::default();
        let (results, summary) = run(&config(2).driver(driver), |session| {
            // The worker sends the first results of a chunk before it has run the rest. Otherwise task 40, which waits until the sink has received a
            // result, would wait forever.
            let work = |task: u64| {
                std::thread::sleep(Duration::from_millis(10));
                match task {
                    5 => return Err("torn".into()),
                    40 => gate.pass(),
                    _ => {}
                }
                Ok::<_, BoxError>(task * 10)
            };
            let mut results = Vec::new();
            let farm = Farm::try_new("long chunk", work).chunking(Chunking::fixed(50)).retries(1);
            let outcome = farm.dedicated_master().for_each_result(session, 0..50, |number, result| {
                gate.open();
                results.push((number, result.ok()));
            })?;
            Ok((results, outcome.into_summary()))
        })
        .unwrap();
        assert!(results.into_iter().eq((0..50).map(|n| (n, (n != 5).then_some(n * 10)))));
        let summary = summary.unwrap();
        // The first chunk consists of all 50 tasks, and the second one of task 5, which is run again because it has failed.
        assert_eq!((summary.tasks, summary.failed, summary.chunks), (50, 1, 2));
        assert_eq!((summary.ranks[1].tasks, summary.ranks[1].chunks), (51, 2));
    }
}

#[test]
fn workers_stop_within_a_chunk_after_break() {
    let begun = AtomicUsize::new(0);
    run(&config(3), |session| {
        let work = |_: u64| {
            begun.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(10));
        };
        // A chunk of 1,000 tasks takes ten seconds, so the test takes long if the run waits for the end of the chunk.
        let mut farm = Farm::new("stopped", work).chunking(Chunking::fixed(1_000));
        farm.for_each(session, 0..10_000, |_, _| ControlFlow::Break(()))?;
        Ok(())
    })
    .unwrap();
    let begun = begun.into_inner();
    assert!(begun < 1_000, "{begun} tasks were begun");
}
