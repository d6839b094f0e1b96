//! Messages to the user about a slow start: in `MPI_Init` a rank waits silently for all processes of the job.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::comm::Reminder;

/// Period at which the thread that reports a slow start of MPI checks whether a message is due.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

/// Guard of the thread that reports a slow start of MPI. The guard is dropped when MPI is initialised.
#[derive(Debug)]
pub(super) struct StartReminder(#[expect(dead_code, reason = "it is dropped")] Sender<()>);

/// Number of ranks that report a slow start. With two reporting ranks, a message appears unless both start late; messages of all ranks would be
/// too many.
const REPORTING_RANKS: usize = 2;

impl StartReminder {
    /// Starts a thread that reports on stderr that MPI has not started, at increasing intervals, until the guard is dropped. Returns `None`
    /// if this is not one of the first ranks, or if no thread can be started.
    pub(super) fn of(rank: usize) -> Option<Self> {
        if rank >= REPORTING_RANKS {
            return None;
        }
        let (is_up, up) = channel::<()>();
        let remind = move || {
            let (begin, mut reminder) = (Instant::now(), Reminder::new());
            while up.recv_timeout(CHECK_PERIOD) == Err(RecvTimeoutError::Timeout) {
                let waited = begin.elapsed();
                if reminder.is_due(waited) {
                    print(rank, &message(waited));
                }
            }
        };
        // The stack size of the thread is explicit, so that the standard library does not read the environment, which MPI may write at the same
        // time.
        let thread = std::thread::Builder::new().name("start".into()).stack_size(1 << 18).spawn(remind);
        thread.is_ok().then_some(StartReminder(is_up))
    }
}

/// Prints a message about a slow start on the first ranks of a job. It is written directly to stderr: the logger is set up only after MPI has started,
/// because it prints the rank number.
pub(super) fn print(rank: usize, message: &str) {
    if rank < REPORTING_RANKS {
        // An error in writing is ignored: the message is only a hint to the user.
        let _ = std::io::stderr().write_all(format!("armature: rank {rank} {message}\n").as_bytes());
    }
}

fn message(waited: Duration) -> String {
    format!(
        "has waited {:.0} s for MPI to start: processes of this job have not called MPI_Init or cannot be reached. If a \
         process has died, `armature run --recover` ends the job",
        waited.as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_ranks_report_a_late_start_until_started() {
        assert!(StartReminder::of(REPORTING_RANKS).is_none());
        drop(StartReminder::of(0).expect("a thread"));
        let text = message(Duration::from_secs(10));
        assert!(text.starts_with("has waited 10 s for MPI to start"), "{text}");
        assert!(text.contains("`armature run --recover`"), "{text}");
    }
}
