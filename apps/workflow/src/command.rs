//! What follows a command: it is recorded, and where it was done, its files are looked for, handed on, and it is noted.

use std::fs;
use std::path::PathBuf;

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
        let (ledger, machines) = (Ledger::new(rescue.path()), Vec::new());
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
        self.recorder.add(&record)?;
        let finished = if ended.is_success() { self.finish(number, task) } else { Ok(()) };
        self.forget_pipes(number, task);
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

    /// What a task hands on, the content of its pipes included.
    fn handovers(&self, number: usize, task: &Task) -> Vec<Handover> {
        let Settings { directory, outputs, .. } = self.settings;
        let handover = |(at, forward): (usize, &Forward)| match forward {
            Forward::File { source, destination } => {
                Handover { source: directory.join(source), destination: directory.join(destination) }
            }
            Forward::Pipe { file, .. } => {
                Handover { source: prepare::captured(outputs, number, at), destination: directory.join(file) }
            }
        };
        task.forwards.iter().enumerate().map(handover).collect()
    }

    /// What has come out of the pipes of a task is kept no longer.
    fn forget_pipes(&self, number: usize, task: &Task) {
        for at in (0..task.forwards.len()).filter(|&at| matches!(task.forwards[at], Forward::Pipe { .. })) {
            // It is not there if the command could not be started.
            let _ = fs::remove_file(prepare::captured(&self.settings.outputs, number, at));
        }
    }
}
