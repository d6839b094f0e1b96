//! Tasks that are commands: their start and their end.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use armature_commands::{Ended, Event, Input, Program, Request, Stopped};
use armature_workflow_files::{Action, Description, Task};

use super::messages::Reason;
use crate::error::{Error, ErrorKind, Result};
use crate::rank::protocol::Moment;
use crate::session::RankCommands;

/// Run time up to which a command counts as short. While commands are short, a rank passes the next command to the starter (the process that starts
/// commands) before a core is free, so that no core is idle until the rank notices the end of a command (up to a millisecond). After longer commands
/// the idle time is below 2 %, and a command that was passed early may wait although another rank could run it.
const SHORT: Duration = Duration::from_millis(50);

/// Commands of one rank's tasks, and the starter: the process that starts commands for the rank.
pub(super) struct Commands<'s> {
    rank: &'s mut Option<RankCommands>,
    number: usize,
    tasks: &'s [Task],
    directory: Option<PathBuf>,
    /// By task: commands that were passed to the process that starts commands and that have not ended.
    running: HashMap<usize, Dispatched>,
    /// True if the last command that ended was short: it ran for less than [`SHORT`].
    are_short: bool,
}

#[derive(Debug)]
struct Dispatched {
    attempt: u32,
    /// Time at which this rank noticed that the command's process had started.
    began: Option<Duration>,
}

#[derive(Debug)]
pub(super) enum Change {
    Began(usize),
    Ended(Try),
}

/// Limits of a command in one try: memory of all its processes in bytes, and run time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) memory: Option<u64>,
    pub(super) time: Option<Duration>,
}

/// Try of a command that is about to start: number of earlier failed tries, and limits.
pub(super) type Started = (u32, Limits);

#[derive(Debug)]
pub(super) struct Try {
    pub(super) task: usize,
    /// Number of earlier failed tries of the task.
    pub(super) attempt: u32,
    pub(super) ended: Ended,
    pub(super) rank: usize,
    /// Name of an output file that cannot be sent to rank 0, with the reason. `None` if all can be sent, or if files are not sent between ranks.
    pub(super) fault: Option<String>,
}

impl Try {
    pub(super) fn failure(&self) -> Option<(Reason, String)> {
        let reason = match self.ended.stopped {
            Some(Stopped::MemoryLimit | Stopped::OutOfMemory) => Reason::MemoryLimit,
            Some(Stopped::TimeLimit) => Reason::TimeLimit,
            _ => Reason::Error,
        };
        if self.ended.is_success() {
            return self.fault.clone().map(|fault| (Reason::Error, fault));
        }
        Some((reason, self.ended.to_string()))
    }
}

impl<'s> Commands<'s> {
    /// Prepares the commands of a workflow on the rank with number `number`. Commands run in `directory`.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if a task is a command and the session starts no commands, or if a task forwards data by a pipe or to another file.
    pub(super) fn new(
        (rank, number): (&'s mut Option<RankCommands>, usize),
        description: &'s Description,
        directory: Option<&Path>,
    ) -> Result<Self> {
        let tasks = description.tasks();
        if let Some(task) = tasks.iter().find(|task| is_command(task)) {
            let refuse = |why: &str| {
                Error::new(ErrorKind::Config, format!("task {:?} {why}", task.name))
                    .in_workflow(description.name())
            };
            if rank.is_none() {
                return Err(refuse("runs a command, but commands are not enabled: set Config::commands"));
            }
            if let Some(task) = tasks.iter().find(|task| !task.forwards.is_empty()) {
                let text = format!(
                    "task {:?} forwards data through a pipe or to another file, which this program does not support",
                    task.name
                );
                return Err(Error::new(ErrorKind::Config, text).in_workflow(description.name()));
            }
        }
        let directory = directory.map(Path::to_path_buf);
        Ok(Commands { rank, number, tasks, directory, running: HashMap::new(), are_short: false })
    }

    pub(super) fn cores(&self) -> usize {
        self.rank.as_ref().map_or(0, |rank| rank.cores as usize)
    }

    /// Returns true if the rank may pass another command to the process that starts commands, in addition to the commands that were passed and to
    /// `starting` commands that wait for their input files. While commands are short, twice as many commands as cores are passed, so that no core
    /// waits for the next command.
    pub(super) fn have_room(&self, starting: usize) -> bool {
        let ahead = if self.are_short { 2 } else { 1 };
        self.running.len() + starting < ahead * self.cores()
    }

    pub(super) fn none_runs(&self) -> bool {
        self.running.is_empty()
    }

    /// Redirects the standard output of commands to `file`, if the program has asked for their output to be collected.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the process that starts commands has died.
    pub(super) fn write_output_to(&mut self, file: PathBuf) -> Result<()> {
        match self.rank.as_mut().filter(|rank| rank.collected.is_some()) {
            Some(rank) => rank.starter.output(file).map_err(dead),
            None => Ok(()),
        }
    }

    pub(super) fn collected(&self) -> Option<&Path> {
        self.rank.as_ref()?.collected.as_deref()
    }

    /// Returns the computing time that a command of `task` which ran for `took` adds to the total of the rank: `took` times the fraction of the
    /// rank's cores that the command uses.
    pub(super) fn share(&self, task: usize, took: Duration) -> Duration {
        self.rank
            .as_ref()
            .map_or(took, |rank| took * self.tasks[task].cores.clamp(1, rank.cores) / rank.cores)
    }

    /// Returns how long the running commands have occupied this rank: the sum of their run times so far, each times the fraction of the rank's cores
    /// that the command uses.
    pub(super) fn running_time(&self, now: Duration) -> Duration {
        let began = self.running.iter().filter_map(|(task, command)| Some((*task, command.began?)));
        began.map(|(task, began)| self.share(task, now.saturating_sub(began))).sum()
    }

    /// Passes the command of a task to the process that starts commands.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the process that starts commands has died.
    pub(super) fn run(&mut self, task: usize, (attempt, limits): Started) -> Result<()> {
        let of = &self.tasks[task];
        let program = match &of.action {
            Action::Command { program, arguments } => Program::new(program, arguments.iter()),
            Action::Shell(line) => Program::shell(line),
            // Not reached: only tasks that are commands are passed to this function.
            _ => return Ok(()),
        };
        let mut request = Request::new(task as u64, program);
        request.attempt = attempt + 1;
        request.environment = environment(of, self.number, attempt, limits.memory);
        request.directory.clone_from(&self.directory);
        if let Some(text) = &of.stdin {
            request.stdin = Input::Bytes(text.clone().into_bytes());
        }
        request.time_limit = limits.time;
        request.memory_limit = limits.memory;
        request.cores = of.cores;
        self.running.insert(task, Dispatched { attempt, began: None });
        self.rank.as_mut().map_or(Ok(()), |rank| rank.starter.run(request)).map_err(dead)
    }

    /// Returns the commands that have started or ended since the last call.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the process that starts commands has died.
    pub(super) fn check(&mut self, at: &Moment) -> Result<Vec<Change>> {
        let Commands { rank, running, are_short, number, .. } = self;
        let here = *number;
        let Some(rank) = rank.as_mut().filter(|_| !running.is_empty()) else { return Ok(Vec::new()) };
        let events = rank.starter.events(Duration::ZERO).map_err(dead)?;
        let changes = events.into_iter().filter_map(|event| match event {
            Event::Ended { id, ended } => {
                let task = id as usize;
                let Dispatched { attempt, .. } = running.remove(&task)?;
                *are_short = ended.run_time < SHORT;
                Some(Change::Ended(Try { task, attempt, ended, rank: here, fault: None }))
            }
            Event::Started { id, .. } => {
                let task = id as usize;
                running.get_mut(&task)?.began = Some(at.now());
                Some(Change::Began(task))
            }
        });
        Ok(changes.collect())
    }
}

/// Returns the environment variables of a command in one try: variables that describe the try, then those of the task, which take precedence. The
/// variables `PMC_…` are those that pegasus-mpi-cluster sets.
fn environment(
    task: &Task,
    rank: usize,
    attempt: u32,
    memory_limit: Option<u64>,
) -> Vec<(OsString, OsString)> {
    /// Unit in bytes in which pegasus-mpi-cluster states memory.
    const MEGABYTE: u64 = 1 << 20;
    let megabytes = task.memory.unwrap_or(0).div_ceil(MEGABYTE);
    let mut about = vec![
        ("ARMATURE_TASK_NAME", task.name.clone()),
        ("ARMATURE_TASK_CPUS", task.cores.to_string()),
        ("ARMATURE_TASK_RANK", rank.to_string()),
        ("ARMATURE_TASK_TRY", (attempt + 1).to_string()),
        ("PMC_TASK", task.name.clone()),
        ("PMC_CPUS", task.cores.to_string()),
        ("PMC_RANK", rank.to_string()),
        ("PMC_MEMORY", megabytes.to_string()),
    ];
    about.extend(memory_limit.or(task.memory).map(|bytes| ("ARMATURE_TASK_MEMORY", bytes.to_string())));
    let own = task.environment.iter().map(|(name, value)| (name.into(), value.into()));
    about.into_iter().map(|(name, value)| (name.into(), value.into())).chain(own).collect()
}

pub(super) fn is_command(task: &Task) -> bool {
    matches!(task.action, Action::Command { .. } | Action::Shell(_))
}

fn dead(error: armature_commands::Error) -> Error {
    Error::new(ErrorKind::Io, error.to_string())
}
