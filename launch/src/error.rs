//! Errors of starting programs and of reading their event logs, with exit codes.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::Mpi;
use crate::hostfile::HostfileError;

/// Error of starting a program, or of reading or explaining the event log of its run.
#[derive(Debug)]
#[non_exhaustive]
pub enum LaunchError {
    /// The hostfile cannot be read or parsed.
    Hostfile(HostfileError),
    /// A required environment variable of the batch job has an invalid value.
    Variable(Variable),
    /// An argument is `:`, which launchers treat as the end of a program and its arguments.
    Colon,
    /// The program that the user wants to start does not exist.
    NoProgram(String),
    /// The program is not linked to a known MPI, and more than one MPI is installed.
    AmbiguousMpi(PathBuf),
    /// No launcher of this MPI was found; `None` means that no launcher of any MPI was found.
    NoLauncher(Option<Mpi>),
    /// SimGrid is not installed.
    NoSimulator,
    /// The user has asked for `srun` outside a Slurm allocation, or it is not installed.
    NoSrun,
    /// This process is part of a Slurm job step, and a launcher would wait for the resources of the step.
    InsideStep(String),
    /// Ranks cannot continue after the death of a rank, because the launcher of this MPI ends all of them.
    NoRecovery(Mpi),
    /// The file with the status of a job cannot be read or written.
    JobStatus(armature::Error),
    /// The event log cannot be read or parsed.
    Events(armature::Error),
    /// A file that the user has named on the command line cannot be read.
    Unreadable {
        /// Expected content of the unreadable file, such as "workflow".
        what: &'static str,
        /// Path of the unreadable file.
        file: PathBuf,
        /// Error that the operating system reported.
        source: io::Error,
    },
    /// The file of a workflow or platform cannot be parsed.
    Workflow(armature_workflow_files::Error),
    /// The output of a workflow's tasks cannot be read.
    Outputs(armature_commands::Error),
    /// The planner found no plan for a workflow.
    Plan(armature_planner::Error),
    /// A workflow has no task of this name.
    NoTask {
        /// Name of the task that the workflow does not have.
        name: String,
        /// File that describes the workflow.
        file: PathBuf,
    },
    /// The event log contains no parallel operation (such as a pipeline or a farm) that ran at the given time.
    NoMoment {
        /// Time that the user has asked for, in seconds since the beginning of the run.
        at: f64,
        /// Directory of the event log.
        directory: PathBuf,
    },
    /// A directory contains no event log of a run.
    NoRun {
        /// Directory that was expected to contain the event log of a run.
        directory: PathBuf,
    },
    /// The text by which the user has selected a run (on the command line) does not match any run.
    UnknownRun(String),
    /// A run has no attempt (start of its program) of this number.
    NoAttempt {
        /// Name of the run.
        run: String,
        /// Number of the attempt (start of the run's program) that does not exist.
        number: u32,
        /// Number of the run's newest attempt, if there is one.
        newest: Option<u32>,
    },
    /// A command of the batch system has failed.
    Batch {
        /// Name of the batch system's command that has failed.
        program: &'static str,
        /// Message that the command has printed.
        reply: String,
    },
    /// A command of the batch system is not installed.
    NoBatch {
        /// Name of the batch system's command that is not installed.
        program: &'static str,
    },
    /// The process `armature run` of a run is on another host, so that it cannot be signalled.
    Elsewhere {
        /// Name of the run.
        run: String,
        /// Host on which the process `armature run` is.
        host: String,
    },
    /// An option or a file that the user has named cannot be used.
    Usage(String),
    /// An event log does not contain the data that a requested figure shows.
    NoFigure {
        /// Name of the figure that the event log has no data for.
        figure: String,
        /// Directory of the event log.
        directory: PathBuf,
    },
    /// `armature doctor` has no check of this name.
    NoCheck(String),
    /// A hostfile does not contain the memory of a host.
    NoMemory {
        /// Name of the host whose memory is missing in the hostfile.
        host: String,
        /// Path of the hostfile.
        file: PathBuf,
    },
    /// A file could not be read or written, or a process could not be started.
    Io {
        /// The failed action, as in "start mpirun".
        doing: String,
        /// Error that the operating system reported.
        source: io::Error,
    },
}

impl LaunchError {
    /// Returns the exit code for this error: 2 for errors that the user can correct on the command line or in an input file, 127 if a program is
    /// missing, 3 if no plan fits or the batch system refuses a request, 4 if there is no batch system, and 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            LaunchError::Hostfile(_)
            | LaunchError::Variable(_)
            | LaunchError::Colon
            | LaunchError::InsideStep(_)
            | LaunchError::AmbiguousMpi(_)
            | LaunchError::Events(_)
            | LaunchError::Workflow(_)
            | LaunchError::Outputs(_)
            | LaunchError::Unreadable { .. }
            | LaunchError::NoTask { .. }
            | LaunchError::NoFigure { .. }
            | LaunchError::NoRun { .. }
            | LaunchError::UnknownRun(_)
            | LaunchError::NoAttempt { .. }
            | LaunchError::Usage(_)
            | LaunchError::NoMoment { .. }
            | LaunchError::NoMemory { .. }
            | LaunchError::NoCheck(_)
            | LaunchError::NoRecovery(_) => 2,
            LaunchError::Plan(error) if error.kind() == armature_planner::ErrorKind::Infeasible => 3,
            LaunchError::Plan(_) => 2,
            LaunchError::NoProgram(_)
            | LaunchError::NoLauncher(_)
            | LaunchError::NoSimulator
            | LaunchError::NoSrun => 127,
            LaunchError::Batch { .. } => 3,
            LaunchError::NoBatch { .. } => 4,
            LaunchError::Io { .. } | LaunchError::JobStatus(_) | LaunchError::Elsewhere { .. } => 1,
        }
    }

    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> LaunchError {
        let doing = doing.into();
        move |source| LaunchError::Io { doing, source }
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaunchError::Hostfile(error) => error.fmt(f),
            LaunchError::Events(error) | LaunchError::JobStatus(error) => error.fmt(f),
            LaunchError::Workflow(error) => error.fmt(f),
            LaunchError::Outputs(error) => error.fmt(f),
            LaunchError::Unreadable { what, file, source } => {
                write!(f, "cannot read the {what} {}: {source}", file.display())
            }
            LaunchError::Plan(error) => write!(f, "there is no plan: {}", error.message()),
            LaunchError::NoTask { name, file } => {
                let name = armature_text::quoted(name);
                write!(f, "{}: there is no task {name}: expected the name of a task", file.display())
            }
            LaunchError::NoFigure { figure, directory } => {
                write!(f, "{}: the log has no data for the figure {figure}", directory.display())
            }
            LaunchError::NoMoment { at, directory } => write!(
                f,
                "{}: no run lasted {at} s: expected a time within a run",
                directory.display()
            ),
            LaunchError::NoRun { directory } => write!(
                f,
                "there is no run in {}: expected rank-0.jsonl, … or job-status.json, which a program writes if \
                 ARMATURE_EVENTS names this directory",
                directory.display()
            ),
            LaunchError::NoCheck(id) => {
                let id = armature_text::quoted(id);
                write!(f, "there is no check {id}: `armature doctor` prints the names of all checks")
            }
            LaunchError::UnknownRun(text) => write!(
                f,
                "there is no run {}: expected a directory, `last`, the name of a run in armature-runs or the number of a batch job, \
                 and optionally @K for attempt K",
                armature_text::quoted(text)
            ),
            LaunchError::NoAttempt { run, number, newest: None } => {
                write!(f, "{run} has no attempt {number}: it has not started yet")
            }
            LaunchError::NoAttempt { run, number, newest: Some(newest) } => {
                write!(f, "{run} has no attempt {number}: the newest is {newest}")
            }
            LaunchError::Batch { program, reply } => {
                write!(f, "{program} has refused: {}", reply.trim().replace('\n', "; "))
            }
            LaunchError::NoBatch { program } => {
                write!(f, "there is no {program} in the PATH: run this command on a login node of the cluster")
            }
            LaunchError::Elsewhere { run, host } => {
                write!(f, "{run} was started on {host}: run this command there")
            }
            LaunchError::Usage(text) => f.write_str(text),
            LaunchError::NoMemory { host, file } => write!(
                f,
                "{}: host {host} has no memory=: expected memory=M, such as memory=64GiB, as the limit for the tasks",
                file.display()
            ),
            LaunchError::Variable(variable) => variable.fmt(f),
            LaunchError::Colon => f.write_str(
                "an argument is `:`, which launchers take for the beginning of another program, even after `--` and among the \
                 program's own arguments. If the program needs this argument, start it from a script that adds it",
            ),
            LaunchError::InsideStep(step) => write!(
                f,
                "armature was started by srun (SLURM_STEP_ID={step}): its launcher would wait for the resources that this job step \
                 holds. Start armature from the batch script or from a shell of salloc, without srun"
            ),
            LaunchError::NoRecovery(mpi) => write!(
                f,
                "--recover needs Open MPI: the launchers of {mpi} end all ranks when one dies. \
                 Use --restarts N to restart the job"
            ),
            LaunchError::NoProgram(name) => {
                let name = armature_text::shown(name);
                write!(f, "there is no program `{name}`, neither in the PATH nor as a file from here")
            }
            LaunchError::AmbiguousMpi(path) => write!(
                f,
                "{} is not linked to a known MPI, and both Open MPI and MPICH are installed: \
                 use --mpi openmpi or --mpi mpich",
                path.display()
            ),
            LaunchError::NoLauncher(Some(mpi)) => write!(
                f,
                "there is no mpirun of {mpi} in the PATH: load its module, or install it (Debian: {})",
                match mpi {
                    Mpi::OpenMpi => "openmpi-bin",
                    Mpi::Mpich => "mpich",
                }
            ),
            LaunchError::NoLauncher(None) => {
                f.write_str("there is no mpirun in the PATH: load an MPI module, or install one (Debian: openmpi-bin)")
            }
            LaunchError::NoSimulator => f.write_str(
                "SimGrid SMPI is not installed: smpirun or smpicc is not in the PATH; on Debian, as root: apt install libsimgrid-dev",
            ),
            LaunchError::NoSrun => {
                f.write_str("--launcher srun works inside a Slurm allocation only (sbatch or salloc), with srun in the PATH")
            }
            LaunchError::Io { doing, source } => write!(f, "cannot {doing}: {source}"),
        }
    }
}

impl std::error::Error for LaunchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LaunchError::Hostfile(error) => Some(error),
            LaunchError::Events(error) | LaunchError::JobStatus(error) => Some(error),
            LaunchError::Workflow(error) => Some(error),
            LaunchError::Outputs(error) => Some(error),
            LaunchError::Plan(error) => Some(error),
            LaunchError::Io { source, .. } | LaunchError::Unreadable { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Environment variable of a batch job whose value is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name of the variable, for example `PBS_NODEFILE`.
    pub name: &'static str,
    /// Description of the fault, and of the values that are expected.
    pub wrong: String,
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the batch job: {}", self.name, self.wrong)
    }
}

impl From<HostfileError> for LaunchError {
    fn from(error: HostfileError) -> Self {
        LaunchError::Hostfile(error)
    }
}
