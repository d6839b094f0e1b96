//! Entry point at which a process of this program becomes a starter (a process that runs commands for its caller).

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, getpid, set_child_subreaper};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::role::{GUARD, THIS_PROGRAM, VARIABLE};
use crate::starter::{self, tree};

static CALLED: AtomicBool = AtomicBool::new(false);

/// Runs a starter (a process that runs commands for its caller) and does not return, if this process was started as
/// one. Otherwise it returns at once.
///
/// A program calls this function before it reads input, starts threads or joins an MPI job, because a starter runs
/// the same program with the same arguments. A test in Rust's test harness cannot call it, because the harness runs
/// first; the test uses [`Starter::spawn_program`](crate::Starter::spawn_program).
pub fn enter() {
    CALLED.store(true, Ordering::Relaxed);
    let Some(role) = std::env::var_os(VARIABLE) else { return };
    let code = match role.to_str() {
        Some(GUARD) => guard(),
        role => match role.and_then(|guard| guard.parse().ok()).and_then(Pid::from_raw) {
            Some(guard) => starter::run(guard),
            None => {
                eprintln!("armature: {VARIABLE} is set, but only armature may set it");
                2
            }
        },
    };
    std::process::exit(code)
}

pub(crate) fn has_been_called() -> bool {
    CALLED.load(Ordering::Relaxed)
}

/// Body of the guard, the process between the caller and the starter: runs the starter, waits for its end, and then
/// kills all processes that the starter has left running. Returns the exit code.
fn guard() -> i32 {
    // The guard (the process between caller and starter) catches SIGHUP, SIGINT and SIGTERM and continues: the caller
    // decides when commands end, even if a launcher signals all processes.
    let noticed = std::sync::Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        // Without a handler, the signal ends the guard, and the starter then ends its commands and itself.
        let _ = signal_hook::flag::register(signal, noticed.clone());
    }
    if let Err(error) = set_child_subreaper(Some(getpid())) {
        eprintln!("armature: commands may outlive their starter: {error}");
    }
    let mut command = Command::new(THIS_PROGRAM);
    let mut arguments = std::env::args_os();
    command.arg0(arguments.next().unwrap_or_default()).args(arguments).process_group(0);
    // The starter inherits the standard input of its parent, the guard, which is the socket to the caller. The guard
    // itself never reads from it.
    command.env(VARIABLE, getpid().as_raw_nonzero().to_string()).stdout(Stdio::null());
    let status = match command.spawn().and_then(|mut starter| starter.wait()) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("armature: cannot start the starter of commands: {error}");
            return 1;
        }
    };
    tree::end_all_descendants(Signal::KILL);
    status.code().unwrap_or(1)
}
