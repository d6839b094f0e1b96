//! Running a command as a user does, and looking at what it says.

use std::process::{Command, Output};

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

/// Runs a command that must succeed.
///
/// # Panics
/// If it does not, with what it complained about.
#[track_caller]
pub fn succeeds(command: &mut Command) -> Said {
    let (success, said) = run(command);
    assert!(success, "{command:?}: {}", said.messages);
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
