//! Tests of the executor, which runs user code: the load that it reports, and the times that it records for the event log.

use std::sync::mpsc::{Receiver, channel};

use super::*;

struct Waits;

impl UserCode for Waits {
    type Job = Receiver<()>;
    type Done = ();

    fn run(&mut self, word: Receiver<()>) -> Result<Option<()>> {
        Ok(word.recv().ok())
    }

    fn answers(_: &Receiver<()>) -> bool {
        true
    }

    fn may_block(&self, _: &Receiver<()>) -> bool {
        false
    }

    fn took((): &()) -> Option<Duration> {
        None
    }
}

#[test]
fn core_is_free_while_the_compute_thread_waits() {
    std::thread::scope(|scope| {
        let waker = Waker::for_this_thread();
        let mut executor =
            Executor::new(scope, 0, Driver::Threaded, waker, Clock::wall(), Waits).expect("a thread");
        assert!(!executor.is_inline() && executor.leaves_the_core());
        let (word, waits) = channel();
        executor.submit(waits).expect("the thread is there");
        assert!(!executor.leaves_the_core());
        word.send(()).expect("it is waited for");
        while executor.fetch().expect("it is done").is_none() {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        assert!(executor.leaves_the_core());
        executor.finish().map(drop).expect("it ends");
    });
}

#[test]
fn job_counts_as_work_from_start_to_end() {
    const LONG: Duration = Duration::from_millis(30);
    std::thread::scope(|scope| {
        let (waker, clock) = (Waker::for_this_thread(), Clock::wall());
        let mut executor = Executor::new(scope, 0, Driver::Threaded, waker, clock, Waits).expect("a thread");
        let tally = executor.tally();
        tally.begin(1);
        let work = || tally.with(|tally| tally.time(clock.now())).expect("it has begun");
        let (first, waits) = channel();
        let submitted = clock.now();
        executor.submit(waits).expect("the thread is there");
        let within_10_s = |is_so: &dyn Fn() -> bool| {
            while !is_so() {
                assert!(
                    clock.now().saturating_sub(submitted) < Duration::from_secs(10),
                    "still {:?}",
                    work()
                );
                std::thread::yield_now();
            }
        };
        within_10_s(&|| work() >= LONG);
        assert!(clock.now().saturating_sub(submitted) >= LONG, "it runs for longer than it is there");
        first.send(()).expect("it is waited for");
        // The call of user code has ended if the work time that is recorded for it no longer grows.
        within_10_s(&|| {
            let before = work();
            std::thread::sleep(Duration::from_millis(5));
            work() == before
        });
        assert!(work() >= LONG, "its outcome has not been fetched");
        assert!(executor.fetch().expect("it is done").is_some());
        assert!(work().is_zero(), "its outcome has measured nothing");
        executor.finish().map(drop).expect("it ends");
    });
}

/// User code whose calls only report that they took the time of the job.
struct Reports;

impl UserCode for Reports {
    type Job = Duration;
    type Done = Duration;

    fn run(&mut self, took: Duration) -> Result<Option<Duration>> {
        Ok(Some(took))
    }

    fn answers(_: &Duration) -> bool {
        true
    }

    fn may_block(&self, _: &Duration) -> bool {
        false
    }

    fn took(took: &Duration) -> Option<Duration> {
        Some(*took)
    }
}

#[test]
fn few_short_calls_move_to_the_communicating_thread_and_long_ones_back() {
    std::thread::scope(|scope| {
        let waker = Waker::for_this_thread();
        let mut executor =
            Executor::new(scope, 0, Driver::Auto, waker, Clock::wall(), Reports).expect("a thread");
        let mut calls_until_change = |took: Duration| {
            let before = executor.is_inline();
            (1..1000).find(|_| {
                executor.submit(took).expect("the user code is there");
                while executor.fetch().expect("it is done").is_none() {
                    std::thread::park_timeout(Duration::from_millis(10));
                }
                executor.is_inline() != before
            })
        };
        let (short, long) = (Duration::ZERO, 2 * Reports::THREADED_ABOVE);
        assert_eq!(calls_until_change(short), Some(JOBS_BEFORE_CHANGE), "to the communicating thread");
        assert_eq!(calls_until_change(long), Some(JOBS_BEFORE_CHANGE), "to the compute thread");
        let back = calls_until_change(short).expect("the mean falls");
        assert!(back >= JOBS_BEFORE_CHANGE, "{back}");
        executor.finish().map(drop).expect("it ends");
    });
}
