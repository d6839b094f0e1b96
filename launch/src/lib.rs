//! Starts MPI programs with the launcher command for the environment, and explains the decisions of their runs.
//!
//! `armature run APP …` detects the MPI library of the program and the environment (this machine, a hostfile, a Slurm, PBS or SGE job), and
//! starts the program with `mpirun` or `srun`. The steps from the command line to a running job:
//!
//! 1. [`cli`] reads the arguments, [`hostfile`] the hostfile.
//! 2. [`environment`] examines the machine: cores, launchers, the batch job. [`detect`] examines the program.
//! 3. [`mod@command_line`] decides: a pure function from these inputs to the command.
//! 4. [`execute`] runs the command, forwards signals and the exit code, and enforces the time limit. A job with a job status is run by
//!    [`mod@supervise`].
//!
//! With `--run NAME` the run has a record in a run directory, which `armature status`, `logs`, `stop` and `cancel` read. `armature submit`
//! writes a job script that starts `armature run`, and submits it.
//!
//! `armature plan workflow FILE` plans a workflow for a platform, `armature workflow run FILE` runs one.
//!
//! `armature explain DIR` explains the decisions of a run from its event log: [`mod@explain`]. `armature report DIR` creates a page about
//! the run, `armature events DIR` prints its events, `armature trace DIR` writes a trace, and `armature top DIR` shows a running job.
//!
//! `armature completions SHELL` and `armature man` print what shells and `man` need to know about the command.
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

mod batch;
pub mod cli;
pub mod command_line;
pub mod detect;
mod doctor;
pub mod environment;
pub mod error;
pub mod execute;
pub mod explain;
mod help_files;
pub mod hostfile;
mod intermediate;
mod job_state;
mod logs;
mod message;
mod plan;
mod platform;
mod report;
mod requeue;
mod run_directory;
mod simulate;
mod start;
mod status;
mod stop;
mod submit;
pub mod supervise;
mod top;
mod version;
mod workflow;

pub use error::LaunchError;

/// Families of MPI libraries whose programs can be started.
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
