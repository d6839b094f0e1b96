//! Files of commands that are sent between ranks which share no directory.
//!
//! Rank 0 has every file of a completed task, so that no file is lost with another rank. `README.md` in the workflow's module describes the
//! protocol.

mod folder;
mod pieces;
mod table;
mod transfers;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use armature_workflow_files::Description;

use super::commands::{Started, Try};
use crate::error::{Error, ErrorKind, Result};
pub(super) use folder::Folder;
pub(super) use pieces::{FilePiece, PieceHead, PieceRequest};
pub(super) use table::FileTable;
pub(super) use transfers::{Settled, Transfers};

/// State of file transfers on a rank: its files, and the tries of commands that wait for transfers.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) table: Arc<FileTable>,
    pub(super) folder: Folder,
    pub(super) transfers: Transfers,
    /// By task: tries of commands that wait until their input files are on this rank.
    pub(super) starting: BTreeMap<usize, Started>,
    /// By task: ended tries on this rank whose output files rank 0 is still fetching.
    pub(super) reported: BTreeMap<usize, Try>,
    /// On rank 0, by task: ended tries on other ranks whose output files rank 0 is fetching.
    pub(super) arriving: BTreeMap<usize, Try>,
    pub(super) has_requested_output: bool,
}

impl Files {
    /// Creates the state of file transfers on rank `rank`. Its commands run in `directory` or, unless it is rank 0, in a new directory within it.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the directory cannot be used.
    pub(super) fn new(table: Arc<FileTable>, directory: &Path, rank: usize, ranks: usize) -> Result<Self> {
        let folder = Folder::new(directory, rank).map_err(|text| Error::new(ErrorKind::Io, text))?;
        Ok(Files {
            transfers: Transfers::new(rank, table.len()),
            table,
            folder,
            starting: BTreeMap::new(),
            reported: BTreeMap::new(),
            arriving: BTreeMap::new(),
            has_requested_output: ranks == 1,
        })
    }

    /// Checks on rank 0 that all input files exist that no task of this run creates.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if an input file is missing, or is not a regular file.
    pub(super) fn check(&self, description: &Description) -> Result<()> {
        let tasks = description.tasks();
        for (number, task) in tasks.iter().enumerate().filter(|(_, task)| !task.done) {
            for input in self.table.inputs(number) {
                if input.maker.is_some_and(|maker| !tasks[maker].done) {
                    continue;
                }
                let name = self.table.name(input.file);
                if let Err(why) = self.folder.check(name) {
                    let source = match input.maker {
                        None => "no task writes".to_string(),
                        Some(maker) => format!("task {:?} should have written", tasks[maker].name),
                    };
                    let text = format!(
                        "task {:?} reads {name:?}, which {source}: {why}; expected a regular file in {}, which is sent to where it is read",
                        task.name,
                        self.folder.path().display()
                    );
                    return Err(Error::new(ErrorKind::Config, text).in_workflow(description.name()));
                }
            }
        }
        Ok(())
    }

    /// Returns a text for reports of a stalled run: the files that this rank is receiving, and the number of tasks whose output files rank 0 has not
    /// fetched yet. `None` if no file is transferred.
    pub(super) fn state(&self) -> Option<String> {
        let arriving = self.transfers.arriving().map(|(file, from)| match self.table.name_of(file) {
            Some(name) => format!("{name} from rank {from}"),
            None => format!("the output of commands on rank {from}"),
        });
        let arriving: Vec<String> = arriving.collect();
        let mut waits = Vec::new();
        if !arriving.is_empty() {
            waits.push(format!("fetches {}", arriving.join(", ")));
        }
        if !self.reported.is_empty() {
            waits.push(format!("waits for rank 0 to fetch the files of {} tasks", self.reported.len()));
        }
        (!waits.is_empty()).then(|| waits.join("; "))
    }
}
