//! Runs commands as a user does and checks their output.

use std::fs::File;
use std::process::{Command, Output, Stdio};

use crate::account;

/// Output of a command that a test has run.
#[derive(Clone, Debug)]
pub struct ProgramOutput {
    /// Standard output of the command.
    pub printed: String,
    /// Standard error of the command.
    pub messages: String,
}

impl ProgramOutput {
    /// Returns the standard output of the command, followed by its standard error.
    pub fn all(&self) -> String {
        self.printed.clone() + &self.messages
    }
}

/// Returns the standard output of a program that must have succeeded.
///
/// # Panics
/// If the program failed, with its standard error as the message.
#[track_caller]
pub fn succeeded(output: Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Checks that a program failed with exit code 1 and printed each of `expected_texts` on standard error.
///
/// # Panics
/// If the program succeeded, returned another exit code, or did not print one of the texts.
#[track_caller]
pub fn failed(output: Output, expected_texts: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    for text in expected_texts {
        assert!(stderr.contains(text), "`{text}` is not printed: {stderr}");
    }
}

/// Runs a command that must succeed. If the command runs ranks, their event log must agree with the
/// summary that rank 0 logs.
///
/// # Panics
/// If the command fails, with its standard error as the message, or if the log and the summary disagree.
#[track_caller]
pub fn succeeds(command: &mut Command) -> ProgramOutput {
    const EVENTS: &str = "ARMATURE_EVENTS";
    let has_log = command.get_envs().any(|(name, _)| name == EVENTS);
    // The event log of a shell is not checked, because the shell may start several programs, each of which writes a log.
    let log = (!has_log && command.get_program() != "sh").then(|| tempfile::tempdir().expect("a directory"));
    if let Some(log) = &log {
        command.env(EVENTS, log.path());
    }
    let (success, output) = run(command);
    assert!(success, "{command:?}: {}", output.messages);
    if let Some(log) = log {
        account::check(log.path(), &format!("{command:?}"));
        command.env_remove(EVENTS);
    }
    output
}

/// Runs a command that must fail with an error message, and returns its standard error.
///
/// # Panics
/// If the command succeeds or panics.
#[track_caller]
pub fn fails(command: &mut Command) -> String {
    let (success, output) = run(command);
    assert!(!success && !output.messages.contains("panicked"), "{command:?}: {}", output.messages);
    output.messages
}

/// Returns the write end of a pipe whose read end is closed.
///
/// # Panics
/// If no pipe can be created.
pub fn closed_pipe() -> Stdio {
    let (_, writer) = std::io::pipe().expect("a pipe");
    writer.into()
}

/// Checks that a command survives a reader of its standard output or standard error that has closed the pipe, and fails with an error message if
/// standard output is a full disk. The command must write to standard output more than once.
///
/// # Panics
/// If the command behaves differently.
#[track_caller]
pub fn survives_closed_output(command: impl Fn() -> Command) {
    succeeds(command().stdout(closed_pipe()));
    succeeds(command().stderr(closed_pipe()));
    let full = File::options().write(true).open("/dev/full").expect("a device that is always full");
    let messages = fails(command().stdout(full));
    assert!(messages.contains("cannot write to standard output: No space left on device"), "{messages}");
}

#[track_caller]
fn run(command: &mut Command) -> (bool, ProgramOutput) {
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
    let text = |bytes| String::from_utf8(bytes).unwrap_or_else(|e| panic!("{command:?}: {e}"));
    (status.success(), ProgramOutput { printed: text(stdout), messages: text(stderr) })
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
    fn output_and_messages_of_a_program_are_returned() {
        let output = succeeds(&mut shell("echo out; echo err >&2"));
        assert_eq!((output.printed.as_str(), output.messages.as_str()), ("out\n", "err\n"));
        assert_eq!(output.all(), "out\nerr\n");
        assert_eq!(fails(&mut shell("echo no >&2; exit 3")), "no\n");
    }

    #[test]
    fn program_that_survives_closed_output_passes() {
        let complain = "echo cannot write to standard output: No space left on device >&2; exit 1";
        let line = format!("trap '' PIPE; echo out 2>/dev/null || [ -p /dev/stdout ] || {{ {complain}; }}");
        survives_closed_output(|| shell(&line));
    }

    #[test]
    #[should_panic(expected = "exit 1")]
    fn program_that_fails_with_closed_output_is_detected() {
        survives_closed_output(|| shell("trap '' PIPE; echo out || exit 1"));
    }

    #[test]
    #[should_panic(expected = "exit 0")]
    fn program_that_ignores_a_full_disk_is_detected() {
        survives_closed_output(|| shell("trap '' PIPE; echo out; exit 0"));
    }

    #[test]
    #[should_panic(expected = "something is wrong")]
    fn succeeds_panics_if_the_program_fails() {
        succeeds(&mut shell("echo something is wrong >&2; false"));
    }

    #[test]
    #[should_panic(expected = "true")]
    fn fails_panics_if_the_program_succeeds() {
        fails(&mut shell("true"));
    }

    #[test]
    #[should_panic(expected = "thread panicked")]
    fn fails_panics_if_the_program_panics() {
        fails(&mut shell("echo thread panicked >&2; false"));
    }
}
