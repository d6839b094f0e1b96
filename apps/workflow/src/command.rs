//! Steps after a command has ended: it is recorded; if it succeeded, its output files are checked, its parts are handed on, and it is
//! noted as done.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use armature::workflow::Ended;
use armature::{BoxError, Context};
use armature_workflow_files::{Description, Forward, Task};

use crate::ledger::{Handover, Ledger};
use crate::prepare;
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
    ledger: Ledger,
    recorder: Recorder,
    /// By rank: its host, where this sees to the commands of all.
    machines: Vec<String>,
}

impl<'a> Aftermath<'a> {
    /// For the commands of a rank.
    ///
    /// # Errors
    /// If its records cannot be written to.
    pub fn new(
        description: &'a Description,
        settings: &'a Settings,
        rescue: &Rescue,
        rank: usize,
    ) -> Result<Self, BoxError> {
        let recorder = Recorder::open(&record::file(&settings.outputs, rank))?;
        let (ledger, machines) = (Ledger::new(rescue), Vec::new());
        Ok(Aftermath { description, settings, ledger, recorder, machines })
    }

    /// The same for the commands of all ranks, of which these are the hosts.
    pub fn on(self, machines: Vec<String>) -> Self {
        Aftermath { machines, ..self }
    }

    /// A try has ended.
    ///
    /// # Errors
    /// If a file is not there that it was to write, or something cannot be written.
    pub fn of(&mut self, ended: &Ended, cx: &Context) -> Result<(), BoxError> {
        let number = cx.number() as usize;
        let task = &self.description.tasks()[number];
        let mut record = Record::of(&task.name, cx.attempt() + 1, ended, cx.rank());
        if let Some(machine) = self.machines.get(cx.rank()) {
            record.machine.clone_from(machine);
        }
        let recorded = self.recorder.add(&record);
        let finished = match ended.is_success() {
            true => recorded.and_then(|()| self.finish(number, task)),
            false => recorded,
        };
        self.remove_sources(number, task);
        finished
    }

    /// A command has ended well: its files are there, are handed on, and it is noted as done.
    fn finish(&mut self, number: usize, task: &Task) -> Result<(), BoxError> {
        let directory = &self.settings.directory;
        let is_missing = |name: &str| !directory.join(name).exists();
        if let Some(file) =
            task.outputs.iter().find(|file| self.settings.check_outputs && is_missing(&file.name))
        {
            return Err(format!("it ended with exit code 0, but has not written {:?}", file.name).into());
        }
        let handovers = self.handovers(number, task);
        self.ledger.note(&task.name, &handovers)
    }

    /// Returns the parts that a task hands on.
    fn handovers(&self, number: usize, task: &Task) -> Vec<Handover> {
        let Settings { directory, outputs, .. } = self.settings;
        let handover = |(at, forward): (usize, &Forward)| {
            let (source, destination) = match forward {
                Forward::File { source, destination } => (directory.join(source), destination),
                Forward::Pipe { file, .. } => (prepare::captured(outputs, number, at), file),
            };
            let is_optional = matches!(forward, Forward::File { .. });
            Handover { source, destination: directory.join(destination), is_optional }
        };
        task.forwards.iter().enumerate().map(handover).collect()
    }

    /// Removes what a try that has ended was to hand on: the next try, or the next task with a file of this name, begins without it.
    fn remove_sources(&self, number: usize, task: &Task) {
        for Handover { source, .. } in self.handovers(number, task) {
            // It is not there if it was handed on, or never written.
            let _ = fs::remove_file(source);
        }
    }
}

/// Returns the files to which tasks of a workflow append parts.
pub fn targets(description: &Description, directory: &Path) -> BTreeSet<PathBuf> {
    let forwards = description.tasks().iter().flat_map(|task| &task.forwards);
    let destination = |forward: &Forward| match forward {
        Forward::File { destination, .. } => directory.join(destination),
        Forward::Pipe { file, .. } => directory.join(file),
    };
    forwards.map(destination).collect()
}
