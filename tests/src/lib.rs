//! Whole programs, one body each, for every transport and every number of ranks.
//!
//! A [`Case`] is a body that every rank of a session runs; it checks on rank 0 what must hold whatever the
//! transport, the number of ranks and the settings are. The same cases run
//!
//! - as threads: `tests/local.rs`, by [`local::run`], under a watchdog;
//! - under `mpirun`: `tests/mpi.rs`, by [`mpirun::Job`], which starts the program `armature-cases`;
//! - on simulated hosts: `ci/smpi/test.sh`, with the same program.
//!
//! [`faults`] are programs that must fail, each in one place, with what the message has to say.
//!
//! `tests/restarts.rs` kills jobs that `armature run` has started (as `armature-run`), and looks what comes of them.
//!
//! [`programs`] are random ones, for ranks that agree on what they run and for such that do not.
//!
//! [`program`] runs a command as a user does, and [`loops`] has what the tests of the example programs check alike.
//!
//! [`account`] compares the log of events with the summary, also of all programs that [`program::succeeds`] starts.
//!
//! [`burner`] is a load that competes with ranks for a core, real or simulated.
//!
//! The unit tests of this crate do without the cases and the programs, which are most of its code, so that these are compiled once.
//!
//! To add a case, write a function in a file of [`cases`] and name it in that file's `CASES`: it then runs
//! everywhere.

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

/// A named program that must succeed on every transport and number of ranks.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its name on the command line of `armature-cases`.
    pub name: &'static str,
    /// The body; every rank runs it.
    pub run: fn(&mut Session) -> Result<(), BoxError>,
}

/// All cases, in the order in which they run.
#[cfg(not(test))]
pub fn all() -> Vec<Case> {
    cases::ALL.iter().flat_map(|part| part.iter().copied()).collect()
}

/// The case of this name: one of [`all`], of [`SEEDS`](cases::SEEDS), of the [`faults`], or of those whose ranks are to be
/// killed, whose memory is looked at, or that are slow.
#[cfg(not(test))]
pub fn find(name: &str) -> Option<Case> {
    let faults = faults::all().into_iter().map(|f| f.case);
    let slow = cases::SLOW.concat();
    let others = cases::SEEDS
        .iter()
        .chain(cases::MORTAL)
        .chain(cases::WORKFLOWS)
        .chain(cases::MEMORY)
        .copied()
        .chain(slow);
    all().into_iter().chain(faults).chain(others).find(|c| c.name == name)
}

/// Prints a line at once, also where stdout is a pipe.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody may be reading any more; the exit code tells the result.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
