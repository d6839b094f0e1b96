//! Files of commands that go from rank to rank, where ranks share no directory.
//!
//! Rank 0 has every file of a task that is done, so that nothing is lost with another rank. `README.md` beside the workflow's module has
//! the protocol.

mod folder;
mod pieces;
mod table;
mod transfers;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use armature_workflow_files::Description;

use super::commands::Try;
use crate::error::{Error, ErrorKind, Result};
pub(super) use folder::Folder;
pub(super) use pieces::{Ask, Piece, PieceHead};
pub(super) use table::FileTable;
pub(super) use transfers::{Settled, Transfers};

/// The files of a rank, and what waits for some.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) table: Arc<FileTable>,
    pub(super) folder: Folder,
    pub(super) transfers: Transfers,
    /// Tries that have been begun and whose inputs come: attempt, and limit of memory.
    pub(super) starting: BTreeMap<usize, (u32, Option<u64>)>,
    /// Tries that have ended here, and of which rank 0 has not said yet that it has their files.
    pub(super) told: BTreeMap<usize, Try>,
    /// On rank 0: tries of other ranks whose files come.
    pub(super) coming: BTreeMap<usize, Try>,
    /// On rank 0: whether what commands have written elsewhere has been asked for.
    pub(super) has_asked_for_output: bool,
}

impl Files {
    /// For a rank's part in a run whose commands run in `directory`, or in a new one within it.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if it cannot be made.
    pub(super) fn new(table: Arc<FileTable>, directory: &Path, rank: usize, ranks: usize) -> Result<Self> {
        let folder = Folder::new(directory, rank).map_err(|text| Error::new(ErrorKind::Io, text))?;
        Ok(Files {
            transfers: Transfers::new(rank, table.len()),
            table,
            folder,
            starting: BTreeMap::new(),
            told: BTreeMap::new(),
            coming: BTreeMap::new(),
            has_asked_for_output: ranks == 1,
        })
    }

    /// Whether the files are there, on rank 0, that tasks which are to be run read and that none of them makes.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if one is not, or is no regular file.
    pub(super) fn check(&self, description: &Description) -> Result<()> {
        let tasks = description.tasks();
        for (number, task) in tasks.iter().enumerate().filter(|(_, task)| !task.done) {
            for input in self.table.inputs(number) {
                if input.maker.is_some_and(|maker| !tasks[maker].done) {
                    continue;
                }
                let name = self.table.name(input.file);
                if let Err(why) = self.folder.look(name) {
                    let who = match input.maker {
                        None => "no task writes".to_string(),
                        Some(maker) => format!("task {:?} is said to have written", tasks[maker].name),
                    };
                    let text = format!(
                        "task {:?} reads {name:?}, which {who}: {why}; expected a regular file in {}, which is sent to where it is read",
                        task.name,
                        self.folder.path().display()
                    );
                    return Err(Error::new(ErrorKind::Config, text).in_workflow(description.name()));
                }
            }
        }
        Ok(())
    }

    /// What the rank waits for, in words, if it does.
    pub(super) fn state(&self) -> Option<String> {
        let coming = self.transfers.coming().map(|(file, from)| match self.table.name_of(file) {
            Some(name) => format!("{name} from rank {from}"),
            None => format!("what commands have written on rank {from}"),
        });
        let coming: Vec<String> = coming.collect();
        let mut waits = Vec::new();
        if !coming.is_empty() {
            waits.push(format!("fetches {}", coming.join(", ")));
        }
        if !self.told.is_empty() {
            waits.push(format!("waits for rank 0 to fetch the files of {} tasks", self.told.len()));
        }
        (!waits.is_empty()).then(|| waits.join("; "))
    }
}
