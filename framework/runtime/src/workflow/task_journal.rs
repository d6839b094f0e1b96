//! Journal of a workflow: the values of tasks in a file on the host of rank 0. A job that is started again runs only the missing tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;

use armature_text::shown;

use super::graph::Graph;
use super::master::Master;
use super::spill::SpillFolder;
use super::value::Value;
use crate::error::{Error, ErrorKind, Result};
use crate::persist::journal::{FIRST_NOTE, Identity, Journal};
use crate::tasks::Attempts;
use crate::wire;

/// Version of the layout of the records in a journal. A journal with another version is refused.
const LAYOUT: &str = concat!("workflow 3, armature ", env!("CARGO_PKG_VERSION"));

const NO_RESULT: &str = "contains a record that is not a result of a workflow's task";

/// Journal of a workflow. A record with a number below [`FIRST_NOTE`] contains the value of the task with that number. Other records are notes about
/// tasks in which ranks died; the last note about a task is valid.
#[derive(Debug)]
pub(super) struct TaskJournal {
    journal: Journal,
    place: JournalPlace,
}

/// Path of a journal, and its identity (which names the job whose results it holds), with which another thread can open it for reading.
#[derive(Clone, Debug)]
pub(super) struct JournalPlace {
    path: PathBuf,
    identity: Identity,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) tasks: u64,
    /// Values of final tasks (which no other task reads), by number of the task.
    pub(super) finals: Vec<(usize, Value)>,
    /// Tasks whose values this run needs. Their values were written to the directory for spilled values; the numbers are their sizes in bytes.
    pub(super) restored: Vec<(usize, u64)>,
}

impl TaskJournal {
    /// Opens the journal of a workflow. `identity` names everything besides the tasks on which the values depend. Tasks in the journal are marked as
    /// done in the master, and their values, where tasks of this run need them, are written to the directory for spilled values.
    ///
    /// # Errors
    /// The errors of [`Journal::open`]; the directory cannot be written; ranks died in tasks that no rank of this run may try.
    pub(super) fn open(
        path: &Path,
        identity: &[u8],
        graph: &Graph,
        master: &mut Master,
        spill: &mut SpillFolder,
    ) -> Result<(Self, Known)> {
        let whole = [&graph.structure().to_le_bytes(), identity].concat();
        let identity = Identity::new(graph.name.as_str(), LAYOUT, whole);
        let mut known = Known::default();
        let (mut needed, mut restored) = (BTreeMap::new(), BTreeMap::new());
        let (journal, _) = Journal::open(path, &identity, |number, payload| {
            if number >= FIRST_NOTE {
                let record = wire::from_bytes::<(u64, Attempts)>(&payload);
                let (task, attempts) =
                    record.map_err(|_| strange(path, "contains a damaged note about a death"))?;
                restored.insert(task_of(path, graph, task)?, attempts);
                return Ok(());
            }
            let (task, value) = opened(path, graph, number, payload)?;
            known.tasks += 1;
            for unneeded in master.known(task) {
                if needed.remove(&unneeded).is_some() {
                    spill.remove(unneeded);
                }
            }
            if graph.is_final(task) {
                known.finals.push((task, value));
            } else if master.is_needed(task) {
                needed.insert(task, value.bytes());
                spill.write(task, &value)?;
            }
            Ok(())
        })?;
        if known.tasks > 0 {
            log::info!(
                "workflow {}: {} tasks were restored from {}",
                shown(&graph.name),
                known.tasks,
                armature_text::path(path)
            );
        }
        master.restore_attempts(&restored)?;
        known.restored = needed.into_iter().collect();
        let place = JournalPlace { path: path.to_path_buf(), identity };
        Ok((TaskJournal { journal, place }, known))
    }

    pub(super) fn path(&self) -> &Path {
        &self.place.path
    }

    /// Appends the value of a task.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn keep(&mut self, task: usize, value: &Value, now: Duration) -> Result<()> {
        let (lengths, pieces) = value.pieces();
        let pieces: Vec<&[u8]> = std::iter::once(&lengths[..]).chain(pieces).collect();
        self.journal.append_parts(now, task as u64, &pieces)
    }

    /// Appends a note with the numbers of tries and deaths of a task in which ranks have died.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(super) fn record_attempts(&mut self, task: usize, attempts: Attempts, now: Duration) -> Result<()> {
        self.journal.annotate(now, &(task as u64, attempts))
    }

    /// Passes buffered records to the operating system. If enough time has passed, begins to write them to disk.
    pub(super) fn tick(&mut self, now: Duration) -> Result<()> {
        self.journal.tick(now)
    }

    /// Returns the location of the journal, after all records have been passed to the operating system, so that they can be read from the file.
    pub(super) fn place(&mut self, now: Duration) -> Result<JournalPlace> {
        self.journal.tick(now)?;
        Ok(self.place.clone())
    }

    /// Closes the journal, and waits until all records are on disk.
    pub(super) fn close(self) -> Result<()> {
        self.journal.close()
    }
}

impl JournalPlace {
    /// Copies the values of `tasks` from the journal to the directory for spilled values. Returns the size of each value in bytes.
    pub(super) fn restore(
        &self,
        tasks: &BTreeSet<usize>,
        graph: &Graph,
        spill: &mut SpillFolder,
    ) -> Result<Vec<(usize, u64)>> {
        let mut restored = Vec::new();
        Journal::read(&self.path, &self.identity, |number, payload| {
            if usize::try_from(number).is_ok_and(|task| tasks.contains(&task)) {
                let (task, value) = opened(&self.path, graph, number, payload)?;
                spill.write(task, &value)?;
                restored.push((task, value.bytes()));
            }
            Ok(())
        })?;
        match restored.len() == tasks.len() {
            true => Ok(restored),
            false => Err(strange(&self.path, "has lost results that it contained")),
        }
    }
}

fn opened(path: &Path, graph: &Graph, number: u64, payload: Bytes) -> Result<(usize, Value)> {
    let value = Value::unpack(payload).ok_or_else(|| strange(path, NO_RESULT))?;
    Ok((task_of(path, graph, number)?, value))
}

fn task_of(path: &Path, graph: &Graph, number: u64) -> Result<usize> {
    let task = usize::try_from(number).ok().filter(|&task| task < graph.len());
    task.ok_or_else(|| strange(path, NO_RESULT))
}

fn strange(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::Config, format!("the journal {} {what}", path.display()))
}
