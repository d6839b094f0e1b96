//! Events of commands that a starter (the process that runs the commands) reports to its caller.

use std::fmt;
use std::time::Duration;

/// Event in the run of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The command has started.
    Started {
        /// Number of the command's request.
        id: u64,
        /// Process id of the command's root process, which is also the id of its process group.
        process: u32,
    },
    /// The command and all processes that it had started have ended.
    Ended {
        /// Number of the command's request.
        id: u64,
        /// Result and resource usage of the command.
        ended: Ended,
    },
}

/// Result and resource usage of an ended command.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ended {
    /// Exit status.
    pub outcome: CommandStatus,
    /// Reason for which the command was ended early, if it was.
    pub stopped: Option<Stopped>,
    /// Time from the start to the end of the command.
    pub run_time: Duration,
    /// CPU time of all processes of the command, including those that were never waited for by their parents.
    pub cpu_time: Duration,
    /// Peak total memory of the command's processes, in bytes. The process tree is measured at intervals. For a
    /// command that ends before the first measurement, the kernel's value for the largest process is reported. That
    /// value is at least the memory of the starter, some megabytes.
    pub peak_memory: u64,
    /// Bytes of output that could not be written.
    pub lost_output: u64,
    /// Last line on standard error, if the command did not succeed and its standard error goes to the output file of
    /// all commands. The line is cut to 200 characters; control characters are replaced by U+FFFD.
    pub last_line: String,
}

/// Exit status of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandStatus {
    /// The command exited with this code.
    Exited(i32),
    /// The command was ended by this signal.
    Signalled(i32),
    /// The command could not be started, for this reason.
    NotStarted(String),
}

/// Reason for which a command was ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stopped {
    /// The command exceeded its time limit.
    TimeLimit,
    /// The command exceeded its memory limit.
    MemoryLimit,
    /// The caller cancelled the command.
    Cancelled,
    /// The kernel killed a process of the command, because the memory of the host or of a cgroup was short.
    OutOfMemory,
}

impl Ended {
    /// Returns true if the command exited with code 0, was not stopped, and lost no output.
    pub fn is_success(&self) -> bool {
        self.outcome == CommandStatus::Exited(0) && self.stopped.is_none() && self.lost_output == 0
    }

    /// Returns a result with this exit status, in which all measured values are 0.
    pub fn new(outcome: CommandStatus) -> Self {
        Ended {
            outcome,
            stopped: None,
            run_time: Duration::ZERO,
            cpu_time: Duration::ZERO,
            peak_memory: 0,
            lost_output: 0,
            last_line: String::new(),
        }
    }
}

/// Formats the end of a sentence about the command: "exit code 3 after 1.2 s: cannot open a", "ended at its time
/// limit, after 60.0 s".
impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.run_time.as_secs_f64();
        match (self.stopped, &self.outcome) {
            (Some(Stopped::TimeLimit), _) => write!(f, "ended at its time limit, after {seconds:.1} s"),
            (Some(Stopped::MemoryLimit), _) => {
                write!(f, "ended at its memory limit, with {} bytes after {seconds:.1} s", self.peak_memory)
            }
            (Some(Stopped::OutOfMemory), _) => {
                write!(
                    f,
                    "killed because memory was short, with {} bytes after {seconds:.1} s",
                    self.peak_memory
                )
            }
            (Some(Stopped::Cancelled), _) => write!(f, "cancelled after {seconds:.1} s"),
            (None, CommandStatus::Exited(code)) => write!(f, "exit code {code} after {seconds:.1} s"),
            (None, CommandStatus::Signalled(signal)) => write!(f, "signal {signal} after {seconds:.1} s"),
            (None, CommandStatus::NotStarted(why)) => write!(f, "not started: {why}"),
        }?;
        if self.lost_output > 0 {
            write!(f, ", but {} bytes of its output could not be written", self.lost_output)?;
        }
        if self.last_line.is_empty() { Ok(()) } else { write!(f, ": {}", self.last_line) }
    }
}

/// Returns the last line of `text` that is not blank. Control characters are replaced, and a long line is cut.
pub(crate) fn last_line(text: &[u8]) -> String {
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
    fn last_line_of_output_is_escaped_and_truncated() {
        assert_eq!(last_line(b"one\ntwo \n\n \n"), "two");
        assert_eq!(last_line(b""), "");
        assert_eq!(last_line(b"\x1b[31mred\xff\r\n"), "\u{fffd}[31mred\u{fffd}");
        assert_eq!(last_line("ä".repeat(300).as_bytes()), "ä".repeat(200) + "…");
    }

    #[test]
    fn command_whose_output_is_lost_fails() {
        let mut ended = Ended::new(CommandStatus::Exited(0));
        assert!(ended.is_success());
        ended.lost_output = 7;
        assert!(!ended.is_success());
        ended.last_line = "no room".into();
        let message = "exit code 0 after 0.0 s, but 7 bytes of its output could not be written: no room";
        assert_eq!(ended.to_string(), message);
    }
}
