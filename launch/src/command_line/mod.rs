//! Chooses the command that starts a job, from the launchers and the batch job that were found on this machine.

mod label;
mod mpich;
mod openmpi;
mod smpirun;
mod srun;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::Mpi;
use crate::environment::{Batch, Environment};
use crate::error::LaunchError;
use crate::hostfile::Hostfile;
pub(crate) use label::rank_of;
pub(crate) use smpirun::Simulation;

/// Job (program, ranks, hosts and options) for which a launcher is started.
#[derive(Clone, Debug)]
pub struct Job {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Number of ranks; `None` for the number of slots.
    pub ranks: Option<usize>,
    /// Hosts, if the caller names them. They take precedence over the hosts of a batch job.
    pub hosts: Option<Hostfile>,
    /// Binding of ranks to cores that the user has asked for.
    pub bind: Bind,
    /// Launcher that the user has chosen, or [`Launcher::Auto`].
    pub launcher: Launcher,
    /// True if the other ranks continue when a rank dies.
    pub recover: bool,
    /// True if the launcher is to mark each line of the program's output with the rank that printed it.
    pub label: bool,
    /// True if the ranks get `ARMATURE_JOB_STATUS`, the path of the file to which rank 0 writes the result of the job.
    pub job_status: bool,
    /// True if rank 0 reads the standard input of the launcher.
    pub reads_stdin: bool,
}

impl Job {
    /// Returns a job with as many ranks as there are slots, and all other settings left to the environment.
    pub fn new<A: Into<OsString>>(program: impl Into<OsString>, args: impl IntoIterator<Item = A>) -> Job {
        let command = std::iter::once(program.into()).chain(args.into_iter().map(Into::into)).collect();
        Job {
            command,
            ranks: None,
            hosts: None,
            bind: Bind::Auto,
            launcher: Launcher::Auto,
            recover: false,
            label: false,
            job_status: false,
            reads_stdin: false,
        }
    }
}

/// Binding of ranks to cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Bind {
    /// Bind ranks, unless they outnumber slots
    #[default]
    Auto,
    /// Bind each rank to a core
    Core,
    /// Do not bind ranks
    None,
}

/// Launcher that starts the ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Launcher {
    /// `srun` inside a Slurm allocation, otherwise `mpirun`
    #[default]
    Auto,
    /// `mpirun` of the MPI
    Mpirun,
    /// `srun` of Slurm
    Srun,
}

impl Launcher {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Launcher::Auto => "auto",
            Launcher::Mpirun => "mpirun",
            Launcher::Srun => "srun",
        }
    }
}

/// A command that starts a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// Path of the launcher's program.
    pub program: PathBuf,
    /// Content of the hostfile in the launcher's format, if the [`args`](CommandLine::args) name a hostfile.
    pub hostfile: Option<String>,
    /// Environment variables for the launcher, in addition to those of this process.
    pub variables: Vec<(&'static str, Cow<'static, str>)>,
    /// Number of ranks that the command starts.
    pub ranks: usize,
    /// True if all ranks run on the machine of this process.
    pub all_here: bool,
    /// True if the launcher marks each line of the program's output with the rank that printed it.
    pub is_labelled: bool,
    /// True for a launcher (MPICH's) that may fail if its standard input ends at the same time as the job.
    pub minds_end_of_input: bool,
    /// Warning about the command, for the user.
    pub warning: Option<String>,
    words: Vec<Word>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    Text(OsString),
    Hostfile,
}

impl CommandLine {
    /// Returns the arguments of the launcher, the program and its arguments, with `hostfile` as the path of the hostfile.
    pub fn args(&self, hostfile: &Path) -> Vec<OsString> {
        let word = |word: &Word| match word {
            Word::Text(text) => text.clone(),
            Word::Hostfile => hostfile.into(),
        };
        self.words.iter().map(word).collect()
    }

    /// Returns the command as it would be typed into a shell.
    pub fn display(&self, hostfile: impl AsRef<Path>) -> String {
        let set = self.variables.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        let words =
            std::iter::once(self.program.clone().into_os_string()).chain(self.args(hostfile.as_ref()));
        let words = words.map(|word| quoted(&word.to_string_lossy()).into_owned());
        set.chain(words).collect::<Vec<_>>().join(" ")
    }
}

pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
    }
}

/// Returns the command that starts `job`, a program of `mpi`, in `environment`.
///
/// # Errors
/// [`LaunchError::InsideStep`] if this process is part of a Slurm job step; [`LaunchError::NoLauncher`] or [`LaunchError::NoSrun`] if the
/// launcher is missing; [`LaunchError::NoRecovery`] if the launcher cannot let ranks continue after a failure; [`LaunchError::Colon`] if
/// the launcher would see two programs; [`LaunchError::Variable`] if the number of ranks is not given and the batch job has no usable one.
pub fn command_line(job: &Job, mpi: Mpi, environment: &Environment) -> Result<CommandLine, LaunchError> {
    if job.command.iter().any(|word| word == ":") {
        return Err(LaunchError::Colon);
    }
    let in_slurm = matches!(environment.batch, Some(Batch::Slurm { .. }));
    if let Some(step) = environment.step.as_ref().filter(|_| in_slurm) {
        // With `--overlap`, a step shares the resources of the step in which this process runs. If the step of this process had several tasks, each
        // task would start the job once more.
        if job.launcher != Launcher::Srun || !environment.is_only_task {
            return Err(LaunchError::InsideStep(step.clone()));
        }
    }
    let hosts = job.hosts.as_ref().or(match &environment.batch {
        Some(Batch::Pbs(Ok(hosts))) => Some(hosts),
        _ => None,
    });
    let slots = match (hosts, &environment.batch) {
        (Some(hosts), _) => Ok(hosts.slots()),
        (None, Some(Batch::Slurm { tasks: slots, .. } | Batch::Sge { slots })) => slots.clone(),
        (None, Some(Batch::Pbs(Err(wrong)))) => Err(wrong.clone()),
        (None, _) => Ok(environment.cores.max(1)),
    };
    let (slots, warning) = match (slots, job.ranks, &environment.batch) {
        (Ok(slots), ..) => (slots, None),
        (Err(wrong), None, _) => return Err(LaunchError::Variable(wrong)),
        // Open MPI and MPICH do not read the hosts of a PBS job themselves, so that all ranks are started on this machine.
        (Err(wrong), Some(_), Some(Batch::Pbs(_))) => {
            (environment.cores.max(1), Some(format!("{wrong}; all ranks are on this machine")))
        }
        // A wrong number of slots is only a warning here, because the launcher of Slurm or Grid Engine knows the hosts itself and refuses too many
        // ranks.
        (Err(wrong), Some(ranks), _) => (ranks, Some(wrong.to_string())),
    };
    let ranks = job.ranks.unwrap_or(slots);
    let Job { bind, recover, label, job_status, reads_stdin, .. } = *job;
    if recover && mpi == Mpi::Mpich {
        return Err(LaunchError::NoRecovery(mpi));
    }
    let cores_per_task = match environment.batch {
        Some(Batch::Slurm { cores_per_task, .. }) => cores_per_task,
        _ => None,
    };
    let shared = ranks > slots;
    let needs = Needs { ranks, shared, cores_per_task, hosts, bind, recover, label, job_status, reads_stdin };
    let use_srun = match job.launcher {
        Launcher::Srun => true,
        Launcher::Mpirun => false,
        Launcher::Auto => in_slurm && environment.srun.is_some() && job.hosts.is_none(),
    };
    let mut variables: Vec<(&str, &str)> = Vec::new();
    let (program, mut words) = if use_srun {
        let program = environment.srun.as_ref().filter(|_| in_slurm).ok_or(LaunchError::NoSrun)?;
        variables.extend(srun::variables(mpi, environment));
        (program, srun::options(&needs, mpi, environment))
    } else {
        let missing = || LaunchError::NoLauncher(Some(mpi));
        match mpi {
            Mpi::OpenMpi => {
                variables.extend(openmpi::variables(&needs, environment));
                (environment.openmpi.as_ref().ok_or_else(missing)?, openmpi::options(&needs, environment))
            }
            Mpi::Mpich => {
                variables.extend(mpich::variables(&needs, environment, in_slurm));
                (environment.mpich.as_ref().ok_or_else(missing)?, mpich::options(&needs, environment))
            }
        }
    };
    let hostfile = words.contains(&Word::Hostfile).then_some(hosts).flatten().map(|hosts| match mpi {
        Mpi::OpenMpi => hosts.for_openmpi(),
        Mpi::Mpich => hosts.for_mpich(),
    });
    words.extend(job.command.iter().cloned().map(Word::Text));
    let all_here = !use_srun && hosts.is_none() && matches!(environment.batch, None | Some(Batch::Pbs(_)));
    Ok(CommandLine {
        program: program.clone(),
        hostfile,
        variables: variables.into_iter().map(|(name, value)| (name, value.into())).collect(),
        ranks,
        all_here,
        is_labelled: label,
        minds_end_of_input: !use_srun && mpi == Mpi::Mpich,
        warning,
        words,
    })
}

struct Needs<'a> {
    ranks: usize,
    shared: bool,
    cores_per_task: Option<usize>,
    hosts: Option<&'a Hostfile>,
    bind: Bind,
    recover: bool,
    label: bool,
    job_status: bool,
    reads_stdin: bool,
}

impl Needs<'_> {
    /// Returns the binding of ranks to cores, or `None` for the launcher's default.
    fn binding(&self) -> Option<Bind> {
        match self.bind {
            Bind::Auto => self.shared.then_some(Bind::None),
            text => Some(text),
        }
    }
}

fn words<const N: usize>(texts: [&str; N]) -> impl Iterator<Item = Word> {
    texts.map(|text| Word::Text(text.into())).into_iter()
}

#[cfg(test)]
mod tests;
