//! What a starter tells of its commands.

use std::fmt;
use std::time::Duration;

/// Something that happened to a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// It has started.
    Started {
        /// The number of its request.
        id: u64,
        /// The number of its process, which is also that of its process group.
        process: u32,
    },
    /// It has ended, and so have all processes that it had started.
    Ended {
        /// The number of its request.
        id: u64,
        /// How, and what it used.
        ended: Ended,
    },
}

/// How a command ended, and what it used.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// How.
    pub outcome: Outcome,
    /// Why the starter ended it, if it did.
    pub stopped: Option<Stopped>,
    /// From its start to its end.
    pub run_time: Duration,
    /// What all its processes computed, those included whose end nobody waited for.
    pub cpu_time: Duration,
    /// Most memory that its processes held together, in bytes. The tree is looked at every now and then; of a process that ends
    /// before the first look it is what the system counted for the largest one, and never
    /// less than what the starter itself holds, some megabytes.
    pub peak_memory: u64,
    /// Bytes of output that could not be written.
    pub lost_output: u64,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// It could not be started: why.
    NotStarted(String),
}

/// Why a starter ends a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stopped {
    /// It ran longer than it may.
    TimeLimit,
    /// It held more memory than it may.
    MemoryLimit,
    /// The caller wanted it to end.
    Cancelled,
}

impl Ended {
    /// Whether it ended by itself with exit code 0.
    pub fn is_success(&self) -> bool {
        self.outcome == Outcome::Exited(0) && self.stopped.is_none()
    }

    pub(crate) fn not_started(why: String) -> Self {
        Ended {
            outcome: Outcome::NotStarted(why),
            stopped: None,
            run_time: Duration::ZERO,
            cpu_time: Duration::ZERO,
            peak_memory: 0,
            lost_output: 0,
        }
    }
}

/// As a sentence's end: "exit code 3 after 1.2 s", "ended after 60.0 s, its time limit".
impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.run_time.as_secs_f64();
        match (self.stopped, &self.outcome) {
            (Some(Stopped::TimeLimit), _) => write!(f, "ended at its time limit, after {seconds:.1} s"),
            (Some(Stopped::MemoryLimit), _) => {
                write!(f, "ended at its memory limit, with {} bytes after {seconds:.1} s", self.peak_memory)
            }
            (Some(Stopped::Cancelled), _) => write!(f, "cancelled after {seconds:.1} s"),
            (None, Outcome::Exited(code)) => write!(f, "exit code {code} after {seconds:.1} s"),
            (None, Outcome::Signalled(signal)) => write!(f, "signal {signal} after {seconds:.1} s"),
            (None, Outcome::NotStarted(why)) => write!(f, "not started: {why}"),
        }
    }
}
