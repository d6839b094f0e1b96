//! The executor: how busy it says that it is.

use super::*;

/// A task is a wait for word from outside.
struct Waits;

impl UserCode for Waits {
    type Task = Receiver<()>;
    type Outcome = ();

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
fn the_core_is_free_as_long_as_the_compute_thread_rests() {
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
