//! Tasks that are commands.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use armature::BoxError;
use armature_apps::terminal::tell;
use armature_commands::{Ended, Event, Input, Program, Request, Starter, Stopped};
use armature_files::regular::{self, Links};
use armature_workflow_files::{Action, Description, Forward, Task};
use rustix::fs::{FlockOperation, flock};

use crate::record::{Record, Recorder, files};
use crate::rescue::Rescue;

/// How commands are run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory in which they run, and in which their files are.
    pub directory: PathBuf,
    /// Where output and records go.
    pub outputs: PathBuf,
    /// Commands are ended that hold more memory than their task says.
    pub enforce_memory: bool,
    /// Commands are tried with no more memory than this.
    pub memory: Option<u64>,
    /// A task fails whose files are not there when it ends.
    pub check_outputs: bool,
}

/// A rank that runs commands.
#[derive(Debug)]
pub struct Commands<'a> {
    description: &'a Description,
    settings: &'a Settings,
    rescue: &'a Rescue,
    starter: Starter,
    recorder: Recorder,
    rank: usize,
    /// Of requests: two tries of a task have different ones.
    next: u64,
}

impl<'a> Commands<'a> {
    /// From now on `starter` runs the commands of this rank.
    ///
    /// # Errors
    /// If the files of its output cannot be written to.
    pub fn new(
        description: &'a Description,
        settings: &'a Settings,
        rescue: &'a Rescue,
        mut starter: Starter,
        rank: usize,
    ) -> Result<Self, BoxError> {
        let (output, records) = files(&settings.outputs, rank);
        starter.output(output)?;
        let recorder = Recorder::open(&records)?;
        Ok(Commands { description, settings, rescue, starter, recorder, rank, next: 0 })
    }

    /// Runs a task that has failed so often before; with a memory limit it is tried again with twice as much, as often as its
    /// description says.
    ///
    /// # Errors
    /// How it ended, if that is no success.
    pub fn run(&mut self, number: usize, failed: u32) -> Result<(), BoxError> {
        let task = &self.description.tasks()[number];
        if task.done || task.action == Action::Nothing {
            return Ok(());
        }
        let most = self.settings.memory.unwrap_or(u64::MAX);
        let mut limit = task.memory.filter(|_| self.settings.enforce_memory);
        let mut attempt = failed + 1;
        let ended = loop {
            let ended = self.attempt(number, task, attempt, limit)?;
            let Some(held) = limit.filter(|_| ended.stopped == Some(Stopped::MemoryLimit)) else {
                break ended;
            };
            if attempt >= task.tries.unwrap_or(1) || held >= most {
                break ended;
            }
            limit = Some(held.saturating_mul(2).min(most));
            attempt += 1;
        };
        if !ended.is_success() {
            return Err(ended.to_string().into());
        }
        self.finish(task)
    }

    fn attempt(
        &mut self,
        number: usize,
        task: &Task,
        attempt: u32,
        limit: Option<u64>,
    ) -> Result<Ended, BoxError> {
        let mut request = request(number, task, &self.settings.directory);
        request.attempt = attempt;
        request.memory_limit = limit;
        self.next += 1;
        let id = request.id;
        self.starter.run(request).unwrap_or_else(|error| give_up(&error));
        /// A wait that is over is begun again; an hour less or more makes no difference.
        const PATIENCE: Duration = Duration::from_secs(3600);
        loop {
            for event in self.starter.events(PATIENCE).unwrap_or_else(|error| give_up(&error)) {
                match event {
                    Event::Ended { id: of, ended } if of == id => {
                        self.recorder.add(&Record::of(&task.name, attempt, &ended, self.rank))?;
                        return Ok(ended);
                    }
                    _ => {}
                }
            }
        }
    }

    /// A command has ended well: its files are there, are handed on, and it is noted as done.
    fn finish(&self, task: &Task) -> Result<(), BoxError> {
        let directory = &self.settings.directory;
        let is_missing = |name: &str| !directory.join(name).exists();
        if let Some(file) =
            task.outputs.iter().find(|file| self.settings.check_outputs && is_missing(&file.name))
        {
            return Err(format!("it ended with exit code 0, but has not written {:?}", file.name).into());
        }
        for forward in &task.forwards {
            if let Forward::File { source, destination } = forward {
                let appended = append(&directory.join(source), &directory.join(destination));
                appended.map_err(|error| format!("cannot append {source:?} to {destination:?}: {error}"))?;
            }
        }
        self.rescue.add(&task.name)
    }
}

/// Ends this process: a rank without a starter would fail at every task, faster than others do them.
fn give_up(error: &armature_commands::Error) -> ! {
    tell(format_args!("armature-workflow: {error}"));
    std::process::exit(1)
}

fn request(number: usize, task: &Task, directory: &Path) -> Request {
    let program = match &task.action {
        Action::Command { program, arguments } => {
            Program::new(program.as_str(), arguments.iter().map(String::as_str))
        }
        Action::Shell(line) => Program::shell(line.as_str()),
        // Not here: they are refused before.
        Action::Nothing | Action::Closure(_) => Program::new("true", [""; 0]),
    };
    let mut request = Request::new(number as u64, program);
    request.directory = Some(directory.into());
    request.environment = task.environment.iter().map(|(name, value)| (name.into(), value.into())).collect();
    request.time_limit = task.time_limit;
    request.cores = task.cores;
    if let Some(text) = &task.stdin {
        request.stdin = Input::Bytes(text.clone().into_bytes());
    }
    request
}

/// Appends a file to another as a whole, while nobody else does.
fn append(source: &Path, destination: &Path) -> io::Result<()> {
    let mut from = regular::open(source)?;
    let mut to =
        regular::open_with(destination, OpenOptions::new().append(true).create(true), Links::Followed)?;
    flock(&to, FlockOperation::LockExclusive)?;
    io::copy(&mut from, &mut to).map(|_| ())
}
