//! Running a command as a user does, and looking at what it says.

use std::fs::File;
use std::process::{Command, Output, Stdio};

use crate::account;

/// What a program has said.
#[derive(Clone, Debug)]
pub struct Said {
    /// On stdout.
    pub printed: String,
    /// On stderr.
    pub messages: String,
}

impl Said {
    /// Both.
    pub fn all(&self) -> String {
        self.printed.clone() + &self.messages
    }
}

/// What was printed by a program that must have succeeded.
///
/// # Panics
/// If it has not, with what it complained about.
#[track_caller]
pub fn succeeded(output: Output) -> String {
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{complaints}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A program must have failed, with exit code 1 and each of these texts on standard error.
///
/// # Panics
/// If it has not.
#[track_caller]
pub fn failed(output: Output, said: &[&str]) {
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{complaints}");
    for text in said {
        assert!(complaints.contains(text), "`{text}` is not said: {complaints}");
    }
}

/// Runs a command that must succeed. Where it runs ranks, their log of events must agree with the summary.
///
/// # Panics
/// If it does not, with what it complained about.
#[track_caller]
pub fn succeeds(command: &mut Command) -> Said {
    const EVENTS: &str = "ARMATURE_EVENTS";
    let has_log = command.get_envs().any(|(name, _)| name == EVENTS);
    // A shell may start several programs, each with a log of its own.
    let log = (!has_log && command.get_program() != "sh").then(|| tempfile::tempdir().expect("a directory"));
    if let Some(log) = &log {
        command.env(EVENTS, log.path());
    }
    let (success, said) = run(command);
    assert!(success, "{command:?}: {}", said.messages);
    if let Some(log) = log {
        account::check(log.path(), &format!("{command:?}"));
        command.env_remove(EVENTS);
    }
    said
}

/// Runs a command that must fail, by an error that it tells; returns its messages.
///
/// # Panics
/// If it succeeds, or panics itself.
#[track_caller]
pub fn fails(command: &mut Command) -> String {
    let (success, said) = run(command);
    assert!(!success && !said.messages.contains("panicked"), "{command:?}: {}", said.messages);
    said.messages
}

/// A pipe whose reader has left.
///
/// # Panics
/// If there can be no pipe.
pub fn left_pipe() -> Stdio {
    let (_, writer) = std::io::pipe().expect("a pipe");
    writer.into()
}

/// Runs a command that writes to standard output, more than once. It must succeed although nobody reads what it prints, or what
/// it complains about; where it prints to a disk that is full, it must fail and say so.
///
/// # Panics
/// If it does anything else.
#[track_caller]
pub fn outlives_its_reader(command: impl Fn() -> Command) {
    succeeds(command().stdout(left_pipe()));
    succeeds(command().stderr(left_pipe()));
    let full = File::options().write(true).open("/dev/full").expect("a device that is always full");
    let messages = fails(command().stdout(full));
    assert!(messages.contains("cannot write to standard output: No space left on device"), "{messages}");
}

#[track_caller]
fn run(command: &mut Command) -> (bool, Said) {
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
    let text = |bytes| String::from_utf8(bytes).unwrap_or_else(|e| panic!("{command:?}: {e}"));
    (status.success(), Said { printed: text(stdout), messages: text(stderr) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(line: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        command
    }

    #[test]
    fn what_is_said_comes_back() {
        let said = succeeds(&mut shell("echo out; echo err >&2"));
        assert_eq!((said.printed.as_str(), said.messages.as_str()), ("out\n", "err\n"));
        assert_eq!(said.all(), "out\nerr\n");
        assert_eq!(fails(&mut shell("echo no >&2; exit 3")), "no\n");
    }

    #[test]
    fn readers_leave_pipes() {
        let complain = "echo cannot write to standard output: No space left on device >&2; exit 1";
        let line = format!("trap '' PIPE; echo out 2>/dev/null || [ -p /dev/stdout ] || {{ {complain}; }}");
        outlives_its_reader(|| shell(&line));
    }

    #[test]
    #[should_panic(expected = "exit 1")]
    fn a_program_that_fails_without_its_reader_is_found() {
        outlives_its_reader(|| shell("trap '' PIPE; echo out || exit 1"));
    }

    #[test]
    #[should_panic(expected = "exit 0")]
    fn a_program_that_does_not_notice_a_full_disk_is_found() {
        outlives_its_reader(|| shell("trap '' PIPE; echo out; exit 0"));
    }

    #[test]
    #[should_panic(expected = "something is wrong")]
    fn a_failure_is_no_success() {
        succeeds(&mut shell("echo something is wrong >&2; false"));
    }

    #[test]
    #[should_panic(expected = "true")]
    fn a_success_is_no_failure() {
        fails(&mut shell("true"));
    }

    #[test]
    #[should_panic(expected = "thread panicked")]
    fn a_panic_is_no_way_to_fail() {
        fails(&mut shell("echo thread panicked >&2; false"));
    }
}
