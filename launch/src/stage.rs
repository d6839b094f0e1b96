//! The stage between this command and a launcher, which sees to it that the launcher does not outlive the command.
//!
//! Whoever is killed by SIGKILL can do nothing any more for those that it has started. The kernel can: it sends a process a
//! signal when its parent dies, if the process has asked for that itself. A launcher does not ask. So this command starts
//! itself once more with a word that no user types; that process asks, and becomes the launcher by `exec`, which keeps what
//! was asked for.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

use crate::say::say;

/// The first argument of a process that is a stage. Behind it come the process number of the parent, the launcher and its
/// arguments.
const WORD: &str = "--become-a-launcher";

/// What the launcher gets when this command has died. By SIGTERM mpirun of both MPIs and srun end their ranks and then
/// themselves; by SIGKILL they would leave the ranks alone.
const SIGNAL: Signal = Signal::TERM;

/// A command that becomes `launcher` and ends when this process does; `stage` is the file of this program.
pub(crate) fn command(stage: &Path, launcher: &Path) -> Command {
    let mut command = Command::new(stage);
    command.arg(WORD).arg(getpid().to_string()).arg(launcher);
    command
}

/// Becomes the launcher, if `args` are those of a stage; returns the exit code if it cannot, and `None` if they are not.
pub(crate) fn enter(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    if args.next()? != OsStr::new(WORD) {
        return None;
    }
    let parent = args.next()?.to_str()?.parse().ok().and_then(Pid::from_raw)?;
    let launcher = args.next()?;
    if let Err(error) = set_parent_process_death_signal(Some(SIGNAL)) {
        // The job can run all the same.
        say(format_args!("the launcher would outlive this command: {error}"));
    }
    // The parent may have died before that, and nobody would say so any more.
    if getppid() != Some(parent) {
        return Some(ExitCode::FAILURE);
    }
    let error = Command::new(&launcher).args(args).exec();
    say(format_args!("cannot start {}: {error}", launcher.display()));
    Some(ExitCode::FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(words: &[&str]) -> bool {
        enter(words.iter().map(OsString::from)).is_some()
    }

    #[test]
    fn only_the_word_makes_a_stage_and_only_for_the_parent_that_it_names() {
        assert!(!entered(&["armature"]) && !entered(&["armature", "run", WORD, "1", "mpirun"]));
        // This process is not its own parent. Taken for that, it would be another program now.
        assert!(entered(&["armature", WORD, &getpid().to_string(), "/bin/true"]));
        set_parent_process_death_signal(None).unwrap();
    }
}
