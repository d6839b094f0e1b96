//! Signals that ask the job to stop: SIGTERM, SIGUSR1 and SIGUSR2.
//!
//! The handler of `signal_hook` sets a flag and wakes a thread, which records the first signal. Ranks check for a recorded signal when they poll
//! for messages. The thread also ends the process at a second signal, because a rank that hangs in user code does not poll.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, signal_name};

use crate::error::{Error, ErrorKind, Result};

/// Time after the first signal in which further signals belong to the same request to stop. A batch system signals the ranks and their launcher at
/// the same moment, and the launcher forwards the signal to the ranks.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// Number of the first signal that asked the job to stop; 0 if there was none.
static FIRST: AtomicI32 = AtomicI32::new(0);
/// Number of calls of `armature::run` in progress in this process, during which signals ask the job to stop.
static RUNS: AtomicUsize = AtomicUsize::new(0);

/// Guard: while it exists, signals ask the job to stop. After the last guard of a process has been dropped, signals have their default action again.
#[derive(Debug)]
pub(crate) struct Handling(());

impl Handling {
    /// Makes signals ask the job to stop until the returned value is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if the handlers cannot be installed.
    pub(crate) fn start() -> Result<Self> {
        static THREAD: OnceLock<std::io::Result<()>> = OnceLock::new();
        RUNS.fetch_add(1, Ordering::Relaxed);
        let handling = Handling(());
        match THREAD.get_or_init(start_thread) {
            Ok(()) => Ok(handling),
            Err(error) => Err(Error::new(ErrorKind::Config, format!("cannot handle signals: {error}"))),
        }
    }
}

impl Drop for Handling {
    fn drop(&mut self) {
        RUNS.fetch_sub(1, Ordering::Relaxed);
    }
}

fn start_thread() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGUSR1, SIGUSR2])?;
    let handle = move || {
        let mut first = None;
        for signal in signals.forever() {
            let is_running = RUNS.load(Ordering::Relaxed) > 0;
            if ends_process(is_running, first.map(|first: Instant| first.elapsed())) {
                // An error is ignored: `emulate_default_handler` fails only for a signal that has no default action.
                let _ = emulate_default_handler(signal);
            }
            first.get_or_insert_with(Instant::now);
            let _ = FIRST.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
        }
    };
    std::thread::Builder::new().name("signals".to_string()).spawn(handle).map(drop)
}

/// Returns true if a signal must end the process (its default action), because no run handles signals or because it is a second request to stop.
/// `since_first` is the time since the first signal.
fn ends_process(is_running: bool, since_first: Option<Duration>) -> bool {
    !is_running || since_first.is_some_and(|since| since > SAME_REQUEST)
}

#[inline]
pub(crate) fn first() -> Option<&'static str> {
    match FIRST.load(Ordering::Relaxed) {
        0 => None,
        signal => Some(signal_name(signal).unwrap_or("a signal")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_request_ends_the_process_and_a_repeated_signal_does_not() {
        assert!(!ends_process(true, None));
        assert!(!ends_process(true, Some(Duration::from_millis(300))));
        assert!(ends_process(true, Some(Duration::from_millis(1_001))));
        assert!(ends_process(false, None));
    }
}
