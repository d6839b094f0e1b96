//! Starts MPI programs with the launcher line that the place asks for, and explains what they decided.
//!
//! `armature run APP …` finds out which MPI the program is linked to, where it runs (this machine, a hostfile,
//! a Slurm, PBS or SGE job) and starts it with `mpirun` or `srun` accordingly. The way from the command line to
//! a running job:
//!
//! 1. [`cli`] reads the arguments, [`hostfile`] the hostfile.
//! 2. [`environment`] looks at the machine: cores, launchers, the job that we are in. [`detect`] looks at the program.
//! 3. [`mod@command_line`] decides: a pure function from all of that to the command.
//! 4. [`execute`] runs it, hands signals and the exit code through and keeps the time limit. A job whose job status counts is
//!    run by [`mod@supervise`].
//!
//! `armature plan workflow FILE` plans a workflow for a platform, `armature workflow run FILE` runs one.
//!
//! `armature explain DIR` says what was decided in a run, from its event log: [`mod@explain`]. `armature report DIR` makes a page of it,
//! `armature events DIR` prints it, `armature trace DIR` writes a trace, `armature top DIR` shows it while the run goes on.
//!
//! ```
//! use armature_launch::{Mpi, command_line::{Job, command_line}, environment::Environment};
//!
//! let environment = Environment { cores: 4, openmpi: Some("mpirun".into()), ..Environment::default() };
//! let job = Job { ranks: Some(6), ..Job::new("ferret", ["query"]) };
//! let line = command_line(&job, Mpi::OpenMpi, &environment)?;
//! assert_eq!(line.display("hosts"), "mpirun -n 6 --oversubscribe --bind-to none ferret query");
//! # Ok::<(), armature_launch::LaunchError>(())
//! ```

pub mod cli;
pub mod command_line;
pub mod detect;
pub mod environment;
pub mod error;
pub mod execute;
pub mod explain;
pub mod hostfile;
mod plan;
mod report;
mod say;
mod stage;
mod standing;
pub mod supervise;
mod top;
mod workflow;

pub use error::LaunchError;

/// The two families of MPI libraries that we can start programs of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mpi {
    /// Open MPI.
    #[value(name = "openmpi")]
    OpenMpi,
    /// MPICH and what is compatible with it (Intel MPI, MVAPICH).
    #[value(name = "mpich")]
    Mpich,
}

impl std::fmt::Display for Mpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mpi::OpenMpi => "Open MPI",
            Mpi::Mpich => "MPICH",
        })
    }
}
