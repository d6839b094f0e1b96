//! Where a program becomes a starter.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, getpid, set_child_subreaper};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::role::{GUARD, THIS_PROGRAM, VARIABLE};
use crate::starter::{self, tree};

static CALLED: AtomicBool = AtomicBool::new(false);

/// Becomes a starter of commands, if this process was started as one, and never returns then. Otherwise it returns at once.
///
/// Programs call it first, before they read input, start threads or become part of an MPI job: a starter comes by here, too. It
/// has the arguments of the process that started it. A test of Rust's harness cannot have a starter, as the harness comes first:
/// it uses [`Starter::spawn_program`](crate::Starter::spawn_program).
pub fn enter() {
    CALLED.store(true, Ordering::Relaxed);
    let Some(role) = std::env::var_os(VARIABLE) else { return };
    let code = match role.to_str() {
        Some(GUARD) => guard(),
        role => match role.and_then(|guard| guard.parse().ok()).and_then(Pid::from_raw) {
            Some(guard) => starter::run(guard),
            None => {
                eprintln!("armature: {VARIABLE} is not a variable to set by hand");
                2
            }
        },
    };
    std::process::exit(code)
}

/// Whether this program becomes a starter when it is started as one.
pub(crate) fn has_been_called() -> bool {
    CALLED.load(Ordering::Relaxed)
}

/// Stays until the starter has ended, and ends what that has left behind when it was killed. Returns the exit code.
fn guard() -> i32 {
    // They are for the ranks, which decide when commands are to end.
    let noticed = std::sync::Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        // Where that fails, the starter ends with us.
        let _ = signal_hook::flag::register(signal, noticed.clone());
    }
    if let Err(error) = set_child_subreaper(Some(getpid())) {
        eprintln!("armature: commands could outlive their starter: {error}");
    }
    let mut command = Command::new(THIS_PROGRAM);
    let mut arguments = std::env::args_os();
    command.arg0(arguments.next().unwrap_or_default()).args(arguments).process_group(0);
    // What it reads is the socket that we have been given, and never read ourselves.
    command.env(VARIABLE, getpid().as_raw_nonzero().to_string()).stdout(Stdio::null());
    let status = match command.spawn().and_then(|mut starter| starter.wait()) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("armature: cannot start a starter of commands: {error}");
            return 1;
        }
    };
    tree::end_all_descendants(Signal::KILL);
    status.code().unwrap_or(1)
}
