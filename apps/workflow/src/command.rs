//! Steps after the end of a command: its measurements are recorded and, if it succeeded, its output files are checked, the outputs that it
//! appends to other files are appended, and the task is noted as done.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use armature::workflow::Ended;
use armature::{BoxError, Context};
use armature_workflow_files::{Description, Forward, Task};

use crate::completion_log::{AppendedPart, CompletionLog};
use crate::prepare;
use crate::record::{self, Record, Recorder};
use crate::rescue::Rescue;

/// Directories for the commands of tasks, and the check of their output files.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Directory in which commands run, and to which the names of their files are relative.
    pub directory: PathBuf,
    /// Directory for the output and the records of commands.
    pub outputs: PathBuf,
    /// True if a task fails when its output files do not exist after its end.
    pub check_outputs: bool,
}

/// Handler of the ended commands of one rank, or of all ranks.
#[derive(Debug)]
pub struct CompletionHandler<'a> {
    description: &'a Description,
    settings: &'a Settings,
    completion_log: CompletionLog,
    recorder: Recorder,
    /// Names of the ranks' hosts, if the handler is responsible for the commands of all ranks; empty otherwise.
    machines: Vec<String>,
}

impl<'a> CompletionHandler<'a> {
    /// Creates the handler for the commands of a rank.
    ///
    /// # Errors
    /// The rank's records cannot be opened for writing.
    pub fn new(
        description: &'a Description,
        settings: &'a Settings,
        rescue: &Rescue,
        rank: usize,
    ) -> Result<Self, BoxError> {
        let recorder = Recorder::open(&record::file(&settings.outputs, rank))?;
        let (completion_log, machines) = (CompletionLog::new(rescue), Vec::new());
        Ok(CompletionHandler { description, settings, completion_log, recorder, machines })
    }

    /// Returns the handler for the commands of all ranks, whose hosts are `machines`.
    pub fn for_hosts(self, machines: Vec<String>) -> Self {
        CompletionHandler { machines, ..self }
    }

    /// Handles the end of one attempt to run a task's command: records its measurements and, if it succeeded, completes the task.
    ///
    /// # Errors
    /// A file that the task should have written does not exist, or a file cannot be written.
    pub fn handle(&mut self, ended: &Ended, cx: &Context) -> Result<(), BoxError> {
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

    /// Handles the success of a command: checks its output files, appends its outputs to other files, and records the task as done in the rescue
    /// file.
    fn finish(&mut self, number: usize, task: &Task) -> Result<(), BoxError> {
        let directory = &self.settings.directory;
        let is_missing = |name: &str| !directory.join(name).exists();
        if let Some(file) =
            task.outputs.iter().find(|file| self.settings.check_outputs && is_missing(&file.name))
        {
            return Err(
                format!("the command ended with exit code 0, but has not written {:?}", file.name).into()
            );
        }
        let parts = self.parts(number, task);
        self.completion_log.record(&task.name, &parts)
    }

    /// Returns the outputs that a task appends to other files.
    fn parts(&self, number: usize, task: &Task) -> Vec<AppendedPart> {
        let Settings { directory, outputs, .. } = self.settings;
        let part = |(at, forward): (usize, &Forward)| {
            let (source, destination) = match forward {
                Forward::File { source, destination } => (directory.join(source), destination),
                Forward::Pipe { file, .. } => (prepare::captured(outputs, number, at), file),
            };
            let is_optional = matches!(forward, Forward::File { .. });
            AppendedPart { source, destination: directory.join(destination), is_optional }
        };
        task.forwards.iter().enumerate().map(part).collect()
    }

    /// Removes the files whose content an ended attempt would append to other files, so that the next attempt, or the next task with a file
    /// of this name, begins without them.
    fn remove_sources(&self, number: usize, task: &Task) {
        for AppendedPart { source, .. } in self.parts(number, task) {
            // Removing fails if the file does not exist, because it was appended or never written.
            let _ = fs::remove_file(source);
        }
    }
}

/// Returns the files to which tasks of a workflow append outputs.
pub fn targets(description: &Description, directory: &Path) -> BTreeSet<PathBuf> {
    let forwards = description.tasks().iter().flat_map(|task| &task.forwards);
    let destination = |forward: &Forward| match forward {
        Forward::File { destination, .. } => directory.join(destination),
        Forward::Pipe { file, .. } => directory.join(file),
    };
    forwards.map(destination).collect()
}
