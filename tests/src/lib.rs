//! Whole programs for tests. Each is one function, which runs on threads, under mpirun and on simulated hosts.
//!
//! A [`Case`] is a body that every rank of a session runs. The body checks on rank 0 the properties that must hold
//! for every transport, every number of ranks and all settings. The same cases run
//!
//! - as threads: `tests/local.rs`, with [`local::run`], under a watchdog;
//! - under `mpirun`: `tests/mpi.rs`, with [`mpirun::Job`], which starts the program `armature-cases`;
//! - on simulated hosts: `ci/smpi/test.sh`, with the program `armature-cases`.
//!
//! [`faults`] contains programs that must fail, each in one place, and the expected error messages.
//!
//! `tests/restarts.rs` kills jobs that were started by `armature run` (built here as `armature-run`) and checks
//! their outcome.
//!
//! [`programs`] generates random programs, both for ranks that run identical programs and for ranks that do not.
//!
//! [`program`] runs a command as a user does. [`loops`] contains the checks that the tests of the example programs
//! share.
//!
//! [`account`] compares the event log with the summary, also for every program that [`program::succeeds`] starts.
//!
//! [`burner`] is a load that competes with ranks for a core, real or simulated.
//!
//! The unit tests of this crate are compiled without the cases and the programs. That code is most of the crate and
//! is therefore compiled only once.
//!
//! To add a case, write a function in a file of [`cases`] and list the function in the `CASES` of that file. The
//! case then runs in all places listed above.

pub mod account;
pub mod burner;
#[cfg(not(test))]
pub mod cases;
pub mod check;
#[cfg(not(test))]
mod disagree;
#[cfg(not(test))]
pub mod faults;
pub mod local;
pub mod loops;
pub mod mappings;
pub mod mpirun;
pub mod phases;
pub mod process_memory;
pub mod program;
#[cfg(not(test))]
pub mod programs;

use std::io::Write;

use armature::{BoxError, Session};

/// Test program that must succeed on threads, under mpirun and on simulated hosts, with any number of ranks.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Name of the test program on the command line of `armature-cases`.
    pub name: &'static str,
    /// Function of the test program that every rank runs.
    pub run: fn(&mut Session) -> Result<(), BoxError>,
}

/// Returns the test programs (cases) that run in every way, in their order.
#[cfg(not(test))]
pub fn all() -> Vec<Case> {
    cases::ALL.iter().flat_map(|part| part.iter().copied()).collect()
}

/// Returns the test program (case) called `name`: one of [`all`], [`SEEDS`](cases::SEEDS) or the [`faults`], or one whose ranks are killed, whose
/// workflow runs commands, whose memory is measured, or that is slow.
#[cfg(not(test))]
pub fn find(name: &str) -> Option<Case> {
    let faults = faults::all().into_iter().map(|f| f.case);
    let slow = cases::SLOW.concat();
    let others = cases::SEEDS
        .iter()
        .chain(cases::DEATHS)
        .chain(cases::WORKFLOWS)
        .chain(cases::MEMORY)
        .copied()
        .chain(slow);
    all().into_iter().chain(faults).chain(others).find(|c| c.name == name)
}

/// Prints a line and flushes standard output, so that the line appears immediately even if standard output is a
/// pipe.
pub fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    // A failed write is ignored, because the reader may have closed the pipe. The exit code reports the result.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
