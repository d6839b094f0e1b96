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
    /// Last line that it wrote to standard error, if it has not succeeded and its output goes to the output file. Cut to 200
    /// characters; those that control a terminal are replaced by U+FFFD.
    pub last_line: String,
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
    /// Returns true if the command ended by itself with exit code 0 and none of its output is lost.
    pub fn is_success(&self) -> bool {
        self.outcome == Outcome::Exited(0) && self.stopped.is_none() && self.lost_output == 0
    }

    pub(crate) fn not_started(why: String) -> Self {
        Ended {
            outcome: Outcome::NotStarted(why),
            stopped: None,
            run_time: Duration::ZERO,
            cpu_time: Duration::ZERO,
            peak_memory: 0,
            lost_output: 0,
            last_line: String::new(),
        }
    }
}

/// The end of a sentence: "exit code 3 after 1.2 s: cannot open a", "ended at its time limit, after 60.0 s".
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
        }?;
        if self.lost_output > 0 {
            write!(f, ", but {} bytes of its output could not be written", self.lost_output)?;
        }
        if self.last_line.is_empty() { Ok(()) } else { write!(f, ": {}", self.last_line) }
    }
}

/// Returns the last line of a text that is not blank, fit for a message.
pub(crate) fn last_line(text: &[u8]) -> String {
    /// Characters of the longest line that is shown whole.
    const LONGEST: usize = 200;
    let text = String::from_utf8_lossy(text);
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    let mut shown: String = line.chars().map(shown).collect();
    if let Some((end, _)) = shown.char_indices().nth(LONGEST) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_one_line_and_short() {
        assert_eq!(last_line(b"one\ntwo \n\n \n"), "two");
        assert_eq!(last_line(b""), "");
        assert_eq!(last_line(b"\x1b[31mred\xff\r\n"), "\u{fffd}[31mred\u{fffd}");
        assert_eq!(last_line("ä".repeat(300).as_bytes()), "ä".repeat(200) + "…");
    }

    #[test]
    fn a_command_whose_output_is_lost_has_failed() {
        let mut ended = Ended { outcome: Outcome::Exited(0), ..Ended::not_started(String::new()) };
        assert!(ended.is_success());
        ended.lost_output = 7;
        assert!(!ended.is_success());
        ended.last_line = "no room".into();
        let said = "exit code 0 after 0.0 s, but 7 bytes of its output could not be written: no room";
        assert_eq!(ended.to_string(), said);
    }
}
