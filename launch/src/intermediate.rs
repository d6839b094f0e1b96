//! Intermediate process between the command `armature` and a launcher, so that the launcher ends when the command dies.
//!
//! A process that is killed by SIGKILL cannot end its children. The kernel can send a child a signal when its parent dies, but only if the
//! child has requested it (`PR_SET_PDEATHSIG`), and a launcher does not request it. This command therefore starts itself again with an
//! internal argument. The new process requests the signal and becomes the launcher by `exec`, which keeps the request.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

use crate::message::print_message;

/// First argument of an intermediate process, before the process number of its parent, the launcher and the launcher's arguments.
const WORD: &str = "--become-a-launcher";

/// Signal that the kernel sends to the launcher when the command `armature` has died. On SIGTERM, mpirun and srun end their ranks; on SIGKILL they
/// would leave them behind.
const SIGNAL: Signal = Signal::TERM;

/// Returns a command that becomes `launcher`, and ends when this process ends. `intermediate` is the file of this program.
pub(crate) fn command(intermediate: &Path, launcher: &Path) -> Command {
    let mut command = Command::new(intermediate);
    command.arg(WORD).arg(getpid().to_string()).arg(launcher);
    command
}

/// Becomes the launcher if `args` are those of an intermediate process. Returns the exit code if that fails, and `None` for other arguments.
pub(crate) fn enter(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut args = args.into_iter().skip(1);
    if args.next()? != OsStr::new(WORD) {
        return None;
    }
    let parent = args.next()?.to_str()?.parse().ok().and_then(Pid::from_raw)?;
    let launcher = args.next()?;
    if let Err(error) = set_parent_process_death_signal(Some(SIGNAL)) {
        // The job can run although the kernel refuses to send a signal at the parent's death, so that this is only a message.
        print_message(format_args!("the launcher will not end if this command is killed: {error}"));
    }
    // The parent is checked after the request, because the kernel sends no signal if the parent has died before it.
    if getppid() != Some(parent) {
        return Some(ExitCode::FAILURE);
    }
    let error = Command::new(&launcher).args(args).exec();
    print_message(format_args!("cannot start {}: {error}", launcher.display()));
    Some(ExitCode::FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(words: &[&str]) -> bool {
        enter(words.iter().map(OsString::from)).is_some()
    }

    #[test]
    fn process_stage_needs_its_keyword_and_the_named_parent() {
        assert!(!entered(&["armature"]) && !entered(&["armature", "run", WORD, "1", "mpirun"]));
        // According to these arguments, this process is its own parent. The function must detect the contradiction, and not replace this process by
        // `/bin/true`.
        assert!(entered(&["armature", WORD, &getpid().to_string(), "/bin/true"]));
        set_parent_process_death_signal(None).unwrap();
    }
}
