//! Steps after the end of a task's command: its measurements are recorded and, if it succeeded, its output files are checked, its forwarded outputs
//! are appended to other files, and the task is recorded as done.

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
    /// Directory for the output of commands, and for the files with their measurements.
    pub outputs: PathBuf,
    /// True if a task counts as failed when an output file is missing after the end of its command.
    pub check_outputs: bool,
}

/// Handler of commands that have ended, on one rank or on all ranks.
#[derive(Debug)]
pub struct CompletionHandler<'a> {
    description: &'a Description,
    settings: &'a Settings,
    completion_log: CompletionLog,
    recorder: Recorder,
    /// Host names of the ranks, if the handler handles the commands of all ranks; empty otherwise.
    machines: Vec<String>,
}

impl<'a> CompletionHandler<'a> {
    /// Creates the handler for the commands of a rank.
    ///
    /// # Errors
    /// The file for the rank's measurements cannot be opened for writing.
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

    /// Makes this handler handle the commands of all ranks. `machines` has the host name of each rank.
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

    /// Removes the files whose content a failed attempt would have appended to other files, so that neither the next attempt nor another task with a
    /// file of this name appends old content.
    fn remove_sources(&self, number: usize, task: &Task) {
        for AppendedPart { source, .. } in self.parts(number, task) {
            // An error is ignored: the file is missing if the task never wrote it, or if it has been appended.
            let _ = fs::remove_file(source);
        }
    }
}

/// Returns the paths in `directory` of the files to which tasks of a workflow append outputs.
pub fn targets(description: &Description, directory: &Path) -> BTreeSet<PathBuf> {
    let forwards = description.tasks().iter().flat_map(|task| &task.forwards);
    let destination = |forward: &Forward| match forward {
        Forward::File { destination, .. } => directory.join(destination),
        Forward::Pipe { file, .. } => directory.join(file),
    };
    forwards.map(destination).collect()
}
