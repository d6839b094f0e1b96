//! Option of workflows to send the files of commands between ranks.

use std::path::Path;
use std::sync::Arc;

use super::builder::Workflow;
use super::files::{FileTable, Files};
use crate::error::Result;

impl Workflow<'_> {
    /// Sends the files that commands name as inputs and outputs between ranks, for ranks that share no directory. All other files stay
    /// where they were created.
    ///
    /// Commands run on rank 0 in the [directory](Workflow::directory), and on any other rank in a new directory within the directory of that name on
    /// its host. The new directory is removed at the end of the run. The inputs of a command are in the directory before the command begins, with
    /// their modes: they come from the rank that created them, or from rank 0 if no task creates them. Before that, files of an earlier run or try
    /// with the names of the outputs are removed. Rank 0 fetches the outputs of a command before its task counts as done, so that no result is lost
    /// if another rank dies. Rank 0 has all results, and [`after_command`](Workflow::after_command) is called on rank 0, with the rank of the command
    /// in its context. A try has failed if one of its outputs is missing or is not a regular file; `after_command` is not called for it.
    ///
    /// Files are sent in pieces of 1 MiB, with at most two files at a time between two ranks.
    ///
    /// A file name that is not valid in every rank's directory is an error before any task starts: an absolute name, a name with `.` or `..` in it, a
    /// file that the same command reads and writes, and a file that a closure names as well. While a closure runs on rank 0, commands of other ranks
    /// may have to wait for it before they count as done.
    ///
    /// ```
    /// use armature::workflow::{Action, Description, File, Task, Workflow};
    ///
    /// let mut task = Task::new("say", Action::Shell("date > a/./now".into()));
    /// task.outputs.push(File::new("a/./now", None));
    /// let mut workflow = Description::builder("clock");
    /// workflow.task(task);
    /// let clock = workflow.build()?;
    /// let error = armature::run(&armature::Config::new(), |session| {
    ///     Ok(Workflow::from_description(clock.clone()).send_files().run(session)?)
    /// });
    /// assert!(error.unwrap_err().message().contains("expected a name within the directory"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn send_files(mut self) -> Self {
        self.options.sends_files = true;
        self
    }

    /// Returns the state of file transfers on this rank; `None` if files are not sent.
    ///
    /// # Errors
    /// A file cannot be sent, or is missing on rank 0; the directory cannot be used.
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
