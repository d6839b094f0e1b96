//! A word about a start that does not get on: a rank in `MPI_Init` waits for all processes of the job, and says nothing.

use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::comm::Reminder;

/// How often the thread looks whether it is time for a word.
const LOOK: Duration = Duration::from_secs(1);

/// Dropped when MPI is up.
#[derive(Debug)]
pub(super) struct Start(#[expect(dead_code, reason = "it is dropped")] Sender<()>);

/// The ranks that say something: one of them is there unless both are late, and all of them would be many.
const WHO_TELLS: usize = 2;

impl Start {
    /// Says now and then on stderr that MPI does not come up, until it is dropped, if this is one of the first ranks. `None`
    /// if it is not, or no thread can be started.
    pub(super) fn of(rank: usize) -> Option<Self> {
        if rank >= WHO_TELLS {
            return None;
        }
        let (is_up, up) = channel::<()>();
        let tell = move || {
            let (begin, mut reminder) = (Instant::now(), Reminder::new());
            while up.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let waited = begin.elapsed();
                if reminder.is_due(waited) {
                    // The logger is set up when the rank's number is certain, which is later.
                    let text = format!("{}\n", word(rank, waited));
                    // Whether anybody reads it changes nothing.
                    let _ = std::io::stderr().write_all(text.as_bytes());
                }
            }
        };
        // With a stack of its own size, so that nobody reads the environment, which MPI writes into meanwhile.
        let thread = std::thread::Builder::new().name("start".into()).stack_size(1 << 18).spawn(tell);
        thread.is_ok().then_some(Start(is_up))
    }
}

fn word(rank: usize, waited: Duration) -> String {
    format!(
        "armature: rank {rank} has waited {:.0} s for MPI to start: processes of this job have not come to MPI_Init, or \
         cannot be reached. If one has died before, `armature run --recover` would end the job",
        waited.as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ranks_tell_and_the_thread_ends_with_the_start() {
        assert!(Start::of(WHO_TELLS).is_none());
        drop(Start::of(0).expect("a thread"));
        let text = word(1, Duration::from_secs(10));
        assert!(text.starts_with("armature: rank 1 has waited 10 s for MPI to start"), "{text}");
        assert!(text.contains("`armature run --recover`"), "{text}");
    }
}
