//! The decision: which command starts this job at this place.
//!
//! [`command_line()`] is a pure function. One file for each launcher says how its options are spelt.

mod mpich;
mod openmpi;
mod srun;

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::Mpi;
use crate::environment::{Batch, Environment};
use crate::error::LaunchError;
use crate::hostfile::Hostfile;

/// What is to be started.
#[derive(Clone, Debug)]
pub struct Job {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// How many ranks; `None` for as many as there are slots.
    pub ranks: Option<usize>,
    /// The hosts, if the caller names them; they take precedence over those of a batch job.
    pub hosts: Option<Hostfile>,
    /// Whether ranks are tied to cores.
    pub bind: Bind,
    /// Whose launcher.
    pub launcher: Launcher,
    /// Whether ranks go on when one dies.
    pub recover: bool,
    /// Whether the launcher is started with `ARMATURE_JOB_STATUS` set, which the ranks need.
    pub job_status: bool,
}

impl Job {
    /// A job with as many ranks as there are slots, and everything else left to the place.
    pub fn new<A: Into<OsString>>(program: impl Into<OsString>, args: impl IntoIterator<Item = A>) -> Job {
        let command = std::iter::once(program.into()).chain(args.into_iter().map(Into::into)).collect();
        Job {
            command,
            ranks: None,
            hosts: None,
            bind: Bind::Auto,
            launcher: Launcher::Auto,
            recover: false,
            job_status: false,
        }
    }
}

/// Whether ranks are tied to cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Bind {
    /// Not where ranks share cores; else as the launcher has it.
    #[default]
    Auto,
    /// One core a rank.
    Core,
    /// Not at all.
    None,
}

/// Whose launcher starts the ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Launcher {
    /// `srun` inside a Slurm allocation, else `mpirun`.
    #[default]
    Auto,
    /// The MPI's own `mpirun`.
    Mpirun,
    /// Slurm's `srun`.
    Srun,
}

/// A command that starts a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The launcher.
    pub program: PathBuf,
    /// What the hostfile must contain for which [`args`](CommandLine::args) have a place, in the launcher's own form.
    pub hostfile: Option<String>,
    /// Variables that the launcher is started with, beside those of this process.
    pub variables: Vec<(&'static str, &'static str)>,
    /// How many ranks it starts.
    pub ranks: usize,
    /// Whether all of them are on this machine.
    pub all_here: bool,
    /// Whether it minds that its input, if it is empty, ends when the job does.
    pub minds_end_of_input: bool,
    /// What the user should know about it.
    pub warning: Option<String>,
    words: Vec<Word>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Word {
    Text(OsString),
    Hostfile,
}

impl CommandLine {
    /// The launcher's arguments, the program and its arguments, with the hostfile at `hostfile`.
    pub fn args(&self, hostfile: &Path) -> Vec<OsString> {
        let word = |word: &Word| match word {
            Word::Text(text) => text.clone(),
            Word::Hostfile => hostfile.into(),
        };
        self.words.iter().map(word).collect()
    }

    /// The command as one would type it into a shell.
    pub fn display(&self, hostfile: impl AsRef<Path>) -> String {
        let set = self.variables.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
        let words =
            std::iter::once(self.program.clone().into_os_string()).chain(self.args(hostfile.as_ref()));
        let words = words.map(|word| quoted(&word.to_string_lossy()).into_owned());
        set.chain(words).collect::<Vec<_>>().join(" ")
    }
}

fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        Cow::Borrowed(word)
    } else {
        Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
    }
}

/// The command that starts `job`, a program of `mpi`, at `site`.
///
/// # Errors
/// [`LaunchError::InsideStep`] when this process is part of a job step of Slurm; [`LaunchError::NoLauncher`] or [`LaunchError::NoSrun`] when the launcher is not there; [`LaunchError::NoRecovery`] when
/// it cannot let ranks go on; [`LaunchError::Colon`] when it would see two programs; [`LaunchError::Variable`] when the number
/// of ranks is not given and the batch job does not tell it either.
pub fn command_line(job: &Job, mpi: Mpi, environment: &Environment) -> Result<CommandLine, LaunchError> {
    if job.command.iter().any(|word| word == ":") {
        return Err(LaunchError::Colon);
    }
    let in_slurm = matches!(environment.batch, Some(Batch::Slurm { .. }));
    if let Some(step) = environment.step.as_ref().filter(|_| in_slurm) {
        return Err(LaunchError::InsideStep(step.clone()));
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
        // Open MPI and MPICH know nothing of PBS: without its hosts they start all ranks here.
        (Err(wrong), Some(_), Some(Batch::Pbs(_))) => {
            (environment.cores.max(1), Some(format!("{wrong}; all ranks are on this machine")))
        }
        // The launcher knows the hosts, and whether there are too many ranks for them.
        (Err(wrong), Some(ranks), _) => (ranks, Some(wrong.to_string())),
    };
    let ranks = job.ranks.unwrap_or(slots);
    let Job { bind, recover, job_status, .. } = *job;
    if recover && mpi == Mpi::Mpich {
        return Err(LaunchError::NoRecovery(mpi));
    }
    let cores_per_task = match environment.batch {
        Some(Batch::Slurm { cores_per_task, .. }) => cores_per_task,
        _ => None,
    };
    let needs = Needs { ranks, shared: ranks > slots, cores_per_task, hosts, bind, recover, job_status };
    let use_srun = match job.launcher {
        Launcher::Srun => true,
        Launcher::Mpirun => false,
        Launcher::Auto => in_slurm && environment.srun.is_some() && job.hosts.is_none(),
    };
    let mut variables = Vec::new();
    let (program, mut words) = if use_srun {
        let program = environment.srun.as_ref().filter(|_| in_slurm).ok_or(LaunchError::NoSrun)?;
        variables.extend(srun::variables(mpi, environment));
        (program, srun::options(&needs, mpi))
    } else {
        let missing = || LaunchError::NoLauncher(Some(mpi));
        match mpi {
            Mpi::OpenMpi => {
                variables.extend(openmpi::variables(hosts));
                (environment.openmpi.as_ref().ok_or_else(missing)?, openmpi::options(&needs, environment))
            }
            Mpi::Mpich => (environment.mpich.as_ref().ok_or_else(missing)?, mpich::options(&needs)),
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
        variables,
        ranks,
        all_here,
        minds_end_of_input: !use_srun && mpi == Mpi::Mpich,
        warning,
        words,
    })
}

/// What a launcher has to be told.
struct Needs<'a> {
    ranks: usize,
    /// More ranks than slots.
    shared: bool,
    /// What Slurm has promised to each task.
    cores_per_task: Option<usize>,
    hosts: Option<&'a Hostfile>,
    bind: Bind,
    recover: bool,
    job_status: bool,
}

impl Needs<'_> {
    /// What to say about binding; `None` for the launcher's own way.
    fn binding(&self) -> Option<Bind> {
        match self.bind {
            Bind::Auto => self.shared.then_some(Bind::None),
            said => Some(said),
        }
    }
}

fn words<const N: usize>(texts: [&str; N]) -> impl Iterator<Item = Word> {
    texts.map(|text| Word::Text(text.into())).into_iter()
}

#[cfg(test)]
mod tests;
