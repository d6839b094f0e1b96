//! What follows a command: it is recorded, and where it was done, its files are looked for, handed on, and it is noted.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use armature::workflow::Ended;
use armature::{BoxError, Context};
use armature_files::regular::{self, Links};
use armature_workflow_files::{Description, Forward, Task};
use rustix::fs::{FlockOperation, flock};

use crate::record::{self, Record, Recorder};
use crate::rescue::Rescue;

/// Where the files of commands are.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory in which they run, and in which their files are.
    pub directory: PathBuf,
    /// Where output and records go.
    pub outputs: PathBuf,
    /// A task fails whose files are not there when it ends.
    pub check_outputs: bool,
}

/// Sees to what one rank's commands have done.
#[derive(Debug)]
pub struct Aftermath<'a> {
    description: &'a Description,
    settings: &'a Settings,
    rescue: &'a Rescue,
    recorder: Recorder,
}

impl<'a> Aftermath<'a> {
    /// For the commands of a rank.
    ///
    /// # Errors
    /// If its records cannot be written to.
    pub fn new(
        description: &'a Description,
        settings: &'a Settings,
        rescue: &'a Rescue,
        rank: usize,
    ) -> Result<Self, BoxError> {
        let recorder = Recorder::open(&record::file(&settings.outputs, rank))?;
        Ok(Aftermath { description, settings, rescue, recorder })
    }

    /// A try has ended.
    ///
    /// # Errors
    /// If a file is not there that it was to write, or something cannot be written.
    pub fn of(&mut self, ended: &Ended, cx: &Context) -> Result<(), BoxError> {
        let task = &self.description.tasks()[cx.number() as usize];
        self.recorder.add(&Record::of(&task.name, cx.attempt() + 1, ended, cx.rank()))?;
        if ended.is_success() { self.finish(task) } else { Ok(()) }
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

/// Appends a file to another as a whole, while nobody else does.
fn append(source: &Path, destination: &Path) -> io::Result<()> {
    let mut from = regular::open(source)?;
    let mut to =
        regular::open_with(destination, OpenOptions::new().append(true).create(true), Links::Followed)?;
    flock(&to, FlockOperation::LockExclusive)?;
    io::copy(&mut from, &mut to).map(|_| ())
}
