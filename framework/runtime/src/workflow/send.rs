//! That files of commands are sent, as a caller says it.

use std::path::Path;
use std::sync::Arc;

use super::builder::Workflow;
use super::files::{FileTable, Files};
use crate::error::Result;

impl Workflow<'_> {
    /// Sends the files that commands name as inputs and outputs from rank to rank, for ranks that share no directory. All others are
    /// where they were made.
    ///
    /// Commands run on rank 0 in the [directory](Workflow::directory), on any other rank in a new one within its own directory of that name,
    /// which goes with the run. What a command reads is there before it begins, with its mode: it comes from the rank that made it,
    /// or from rank 0 if no task makes it. What an earlier run or try has left under the names of its outputs is removed before. What it writes is fetched to rank 0 before it is done; so nothing is lost with another rank,
    /// rank 0 has all results, and [`after_command`](Workflow::after_command) is called there, with the rank in its context that ran the
    /// command. A try of which a file is missing, or is no regular file, has failed, and is not told to it.
    ///
    /// Files go in pieces of 1 MiB, at most two at once between two ranks.
    ///
    /// A name that is not one file in each of the directories is an error before anything starts: an absolute one, one with `.` or `..` in
    /// it, one that the same command reads and writes, and one that a closure names, too. While a closure runs on rank 0, what has been
    /// written elsewhere waits for it before it counts as done.
    ///
    /// ```
    /// use armature::workflow::{Action, Description, File, Task, Workflow};
    ///
    /// let mut task = Task::new("say", Action::Shell("date > a/./now".into()));
    /// task.outputs.push(File { name: "a/./now".into(), size: None });
    /// let mut workflow = Description::builder("clock");
    /// workflow.task(task);
    /// let clock = workflow.build()?;
    /// let error = armature::run(&armature::Config::new(), |session| {
    ///     Ok(Workflow::new(clock.clone()).send_files().run(session)?)
    /// });
    /// assert!(error.unwrap_err().message().contains("expected a name within the directory"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn send_files(mut self) -> Self {
        self.options.sends_files = true;
        self
    }

    /// The files of this rank, where they are sent.
    ///
    /// # Errors
    /// Files that cannot be sent, or are not there on rank 0; a directory that cannot be used.
    pub(super) fn files(&self, rank: usize, ranks: usize) -> Result<Option<Files>> {
        if !self.options.sends_files {
            return Ok(None);
        }
        let table = Arc::new(FileTable::new(&self.description)?);
        let directory = self.options.directory.as_deref().unwrap_or(Path::new("."));
        let files = Files::new(table, directory, rank, ranks)?;
        if rank == 0 {
            files.check(&self.description)?;
        }
        Ok(Some(files))
    }
}
