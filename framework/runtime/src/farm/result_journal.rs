//! Results of a farm's tasks that are kept in a journal, from which a restarted job reads them instead of computing them again.

use armature_text::shown;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use bytes::Bytes;

use super::death_records::{DeathRecord, recorded_from};
use super::task_set_digest::TaskSetDigest;
use crate::comm::Part;
use crate::comm::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::failed_task::FailedTask;
use crate::persist::journal::{FIRST_NOTE, Identity, Journal};
use crate::tasks::Attempts;
use crate::wire::erased::{Codec, Items};
use crate::wire::{self, packed};

/// A farm's journal, and its records when it was opened.
///
/// In a stream the number of a record is that of its task. Records with very high numbers describe tasks in which ranks may have died. In
/// iterations records are numbered consecutively: a [`TaskSetDigest`] precedes the results of each set of tasks, so that a changed job is
/// detected. In an exploration records are numbered in the order of arrival, and the remaining tasks follow from the results in that order.
#[derive(Debug)]
pub(crate) struct ResultJournal {
    journal: Journal,
    known: BTreeMap<u64, Bytes>,
    records_of_deaths: Vec<DeathRecord>,
    clock: Clock,
    kind: Kind,
    /// Numbers of the journal records of the current set of tasks. Empty in an exploration (tasks that create tasks), where tasks and records are
    /// numbered differently.
    records: Range<u64>,
    next: u64,
    replaying: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A stream of tasks. Failed tasks are not recorded, so they are tried again.
    Stream,
    /// Sets of tasks, each made from the results of the previous set. Failed tasks are recorded, because the next set depends on
    /// them.
    Iterations,
    /// Tasks that create tasks, which are numbered during the run. Failed tasks are not recorded, so they are tried again.
    Exploration,
}

impl Kind {
    /// Returns the version of the layout of the records. It contains the version of armature, because the encoding of results depends
    /// on it.
    fn layout(self) -> &'static str {
        match self {
            Kind::Stream => concat!("farm 1, armature ", env!("CARGO_PKG_VERSION")),
            Kind::Iterations => concat!("farm 1 iterated, armature ", env!("CARGO_PKG_VERSION")),
            Kind::Exploration => concat!("farm 1 explored, armature ", env!("CARGO_PKG_VERSION")),
        }
    }
}

/// Value that marks the journal record of a failed task, in the place where the record of a result has the number of its large data blocks.
const FAILED: u32 = u32::MAX;

impl ResultJournal {
    /// Opens the journal of the farm `name`. The `identity` names everything on which the results depend.
    ///
    /// # Errors
    /// The errors of [`Journal::open`].
    pub(crate) fn open(path: &Path, name: &str, kind: Kind, identity: &[u8], clock: Clock) -> Result<Self> {
        let (mut known, mut records_of_deaths) = (BTreeMap::new(), Vec::new());
        let identity = Identity::new(name, kind.layout(), identity);
        let (journal, recovery) = Journal::open(path, &identity, |task, payload| {
            if task >= FIRST_NOTE {
                records_of_deaths.push(wire::from_bytes(&payload).map_err(|_| strange(task, path))?);
            } else {
                known.insert(task, payload);
            }
            Ok(())
        })?;
        if recovery.tasks > 0 {
            log::info!(
                "farm {}: {} results were restored from {}",
                shown(name),
                known.len(),
                armature_text::path(path)
            );
        }
        let records = match kind {
            Kind::Stream => 0..FIRST_NOTE,
            Kind::Iterations | Kind::Exploration => 0..0,
        };
        let next = known.last_key_value().map_or(0, |(&record, _)| record + 1);
        let replaying = kind == Kind::Exploration && next > 0;
        Ok(ResultJournal { journal, known, records_of_deaths, clock, kind, records, next, replaying })
    }

    /// # Errors
    /// If the journal contains a different set of tasks for this iteration, or the tasks cannot be encoded.
    pub(crate) fn begin_set(&mut self, iteration: usize, tasks: Items, codec: &dyn Codec) -> Result<Items> {
        let place = self.records.end;
        let (digest, tasks) = TaskSetDigest::of(tasks, codec)?;
        match self.known.remove(&place) {
            None => self.journal.append(self.clock.now(), place, &digest.to_bytes())?,
            Some(known) if known[..] == digest.to_bytes() => {}
            Some(_) => {
                let text = format!(
                    "{}: the tasks of iteration {iteration} differ from those in the journal; they may depend only on \
                     earlier results and on the identity",
                    self.journal.path().display()
                );
                return Err(Error::new(ErrorKind::Config, text));
            }
        }
        self.records = place + 1..place + 1 + tasks.len() as u64;
        Ok(tasks)
    }

    pub(crate) fn keeps_failures(&self) -> bool {
        self.kind == Kind::Iterations
    }

    pub(crate) fn next_known(&self, from: u64) -> Option<u64> {
        let Range { start, end } = self.records;
        let from = start.saturating_add(from).min(end);
        self.known.range(from..end).next().map(|(&record, _)| record - start)
    }

    /// Returns the number of tasks of the stream or of the current set whose results are in the journal and have not been delivered
    /// from there yet.
    pub(crate) fn known_tasks(&self) -> u64 {
        self.known.range(self.records.clone()).count() as u64
    }

    /// Removes and returns the known result or failure of a task, if the journal contains it.
    ///
    /// # Errors
    /// If the record is not a result of this farm. The identity then does not name everything that the results depend on.
    pub(crate) fn take(&mut self, task: u64, codec: &dyn Codec) -> Result<Option<Result<Items, FailedTask>>> {
        let payload = self.known.remove(&(self.records.start + task));
        payload.map(|payload| self.unpack(task, payload, codec)).transpose()
    }

    /// Returns the number of results in the journal that an earlier run has recorded and this run has not restored.
    pub(crate) fn untaken(&self) -> u64 {
        let mut results = self.known.len() as u64;
        // In the journal of iterations, a digest precedes the results of each set of tasks that this run has not begun.
        let mut place = self.records.end;
        while self.kind == Kind::Iterations
            && let Some(digest) = self.known.get(&place)
        {
            results -= 1;
            place = place.saturating_add(1).saturating_add(TaskSetDigest::tasks_in(digest));
        }
        results
    }

    pub(crate) fn is_replaying(&self) -> bool {
        self.replaying
    }

    /// Takes the next known result of an exploration (tasks that create tasks) from the journal, in the order in which results were
    /// recorded.
    ///
    /// # Errors
    /// The errors of [`take`](ResultJournal::take).
    pub(crate) fn take_next(&mut self, codec: &dyn Codec) -> Result<Option<Items>> {
        let Some((record, payload)) = self.known.pop_first() else { return Ok(None) };
        let known = self.unpack(record, payload, codec)?;
        known.map(Some).map_err(|_| strange(record, self.journal.path()))
    }

    /// Ends the replay of an exploration (tasks that create tasks) if the journal has no further result and the sink has received all of them
    /// (`is_idle`). Returns true if no replay is in progress.
    pub(crate) fn ends_replay(&mut self, is_idle: bool) -> bool {
        self.replaying &= !(is_idle && self.known.is_empty());
        !self.replaying
    }

    /// # Errors
    /// If the journal cannot be written.
    pub(crate) fn keep_failure(&mut self, failed: &FailedTask) -> Result<()> {
        let record = self.records.start + failed.task;
        let pieces = [&FAILED.to_le_bytes()[..], &wire::to_bytes(failed)?];
        self.journal.append_parts(self.clock.now(), record, &pieces)
    }

    /// # Errors
    /// If a result cannot be encoded, or the journal cannot be written. The error names the task.
    pub(crate) fn keep(&mut self, first: u64, results: Items, codec: &dyn Codec) -> Result<Items> {
        if self.kind != Kind::Exploration {
            self.next = self.records.start + first;
        }
        let mut kept = 0;
        let results = codec.encode_each(results, &mut kept, &mut |head, parts| {
            let lengths = packed::lengths(head, parts);
            let mut pieces = vec![&lengths[..], head];
            pieces.extend(parts.iter().map(Part::bytes));
            self.journal.append_parts(self.clock.now(), self.next, &pieces)?;
            self.next += 1;
            Ok(())
        });
        results.map_err(|e| e.on_item(first + kept))
    }

    fn unpack(&self, task: u64, payload: Bytes, codec: &dyn Codec) -> Result<Result<Items, FailedTask>> {
        let strange = || strange(task, self.journal.path());
        if payload.starts_with(&FAILED.to_le_bytes()) {
            return wire::from_bytes(&payload[4..]).map(Err);
        }
        let (head, parts) = packed::unpack(payload).ok_or_else(strange)?;
        let result = codec.decode(head, parts, 1).map_err(|e| {
            let text =
                format!("{}: result {task} cannot be read: {}", self.journal.path().display(), e.message());
            Error::new(ErrorKind::Config, text)
        });
        result.map(Ok)
    }

    /// Records the attempts of tasks in which a rank may have died.
    ///
    /// # Errors
    /// If the journal cannot be written.
    pub(crate) fn record_attempts(&mut self, tasks: Range<u64>, attempts: Attempts) -> Result<()> {
        // The next run of an exploration (whose tasks create tasks) numbers its tasks differently, so a record would name the wrong
        // tasks.
        if self.kind == Kind::Exploration {
            return Ok(());
        }
        let start = self.records.start;
        let record = DeathRecord { records: start + tasks.start..start + tasks.end, attempts };
        self.journal.annotate(self.clock.now(), &record)?;
        self.records_of_deaths.push(record);
        Ok(())
    }

    /// Returns an upper bound of the number of deaths of ranks that the journal records. Deaths in this run get higher numbers.
    pub(crate) fn deaths(&self) -> u32 {
        u32::try_from(self.records_of_deaths.len()).unwrap_or(u32::MAX)
    }

    /// Returns the end of the range of tasks, from number `from` on, for which the journal records the same failed attempts, and these attempts; they
    /// are `None` if no rank may have died in these tasks. Returns `None` if there is no entry about this or a later task.
    pub(crate) fn recorded(&self, from: u64) -> Option<(u64, Option<Attempts>)> {
        let start = self.records.start;
        recorded_from(&self.records_of_deaths, start.saturating_add(from))
            .map(|(records, known)| (records.end - start, known))
    }

    /// Writes buffered records to the journal, and starts to flush it to disk if enough time has passed since the last flush.
    pub(crate) fn tick(&mut self) -> Result<()> {
        let now = self.clock.now();
        self.journal.tick(now)
    }

    /// Waits until all records of the journal are on disk.
    pub(crate) fn close(self) -> Result<()> {
        self.journal.close()
    }
}

fn strange(task: u64, path: &Path) -> Error {
    Error::new(
        ErrorKind::Config,
        format!("{}: the record of task {task} is not a farm's result", path.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::erased::typed;
    use crate::wire::{Codec, Item};

    impl ResultJournal {
        pub(in super::super) fn take_typed<O: Item>(
            &mut self,
            task: u64,
        ) -> Result<Option<Result<O, FailedTask>>> {
            let known = self.take(task, &Codec::<O>::of_type())?;
            Ok(known.map(|known| known.map(|result| typed(result).unwrap().remove(0))))
        }
    }

    fn open(path: &Path, kind: Kind, identity: &[u8]) -> Result<ResultJournal> {
        ResultJournal::open(path, "sums", kind, identity, Clock::wall())
    }

    #[test]
    fn results_round_trip_through_the_journal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let codec = Codec::<Vec<f64>>::of_type();
        // The first two results are small and stored in one block; the third is large, so its data is stored as a separate part.
        let results = [vec![], vec![1.5; 3], vec![2.5; 9_000]];
        let mut journal = open(&path, Kind::Stream, b"1").unwrap();
        assert_eq!(journal.next_known(0), None);
        for (task, result) in (0..).zip(&results) {
            let kept = journal.keep(task * 10, Box::new(vec![result.clone()]), &codec).unwrap();
            assert_eq!(typed::<Vec<f64>>(kept).unwrap(), std::slice::from_ref(result));
        }
        journal.close().unwrap();

        let mut journal = open(&path, Kind::Stream, b"1").unwrap();
        assert_eq!(
            (journal.next_known(0), journal.next_known(1), journal.next_known(21)),
            (Some(0), Some(10), None)
        );
        for (task, result) in (0..).zip(results) {
            assert_eq!(journal.take_typed(task * 10).unwrap(), Some(Ok(result)));
        }
        assert_eq!((journal.take_typed::<Vec<f64>>(0).unwrap(), journal.next_known(0)), (None, None));
        drop(journal);
        for (kind, fingerprint) in [(Kind::Stream, b"2"), (Kind::Iterations, b"1")] {
            let error = open(&path, kind, fingerprint).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        }
    }

    #[test]
    fn task_sets_are_separate_and_must_match_on_resume() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let codec = Codec::<u64>::of_type();
        let failed = FailedTask {
            task: 1,
            name: None,
            rank: 2,
            tries: 1,
            kind: ErrorKind::User,
            message: "no".to_string(),
        };
        let mut journal = open(&path, Kind::Iterations, b"1").unwrap();
        for iteration in 0..3 {
            journal.begin_set(iteration, Box::new(vec![7, 8, iteration as u64]), &codec).unwrap();
            assert_eq!(journal.next_known(0), None);
            journal.keep_failure(&failed).unwrap();
            if iteration < 2 {
                journal.keep(2, Box::new(vec![100 + iteration as u64]), &codec).unwrap();
            }
        }
        journal.close().unwrap();

        let mut journal = open(&path, Kind::Iterations, b"1").unwrap();
        for (iteration, untaken) in [5, 3, 1].into_iter().enumerate() {
            assert_eq!(journal.untaken(), untaken);
            journal.begin_set(iteration, Box::new(vec![7, 8, iteration as u64]), &codec).unwrap();
            assert_eq!(journal.untaken(), untaken, "digests are no results");
            assert_eq!(journal.next_known(0), Some(1));
            assert_eq!(journal.take_typed::<u64>(1).unwrap(), Some(Err(failed.clone())));
            let last = (iteration < 2).then_some(2);
            assert_eq!((journal.next_known(0), journal.next_known(99)), (last, None), "not of the next set");
            assert_eq!(journal.take_typed(2).unwrap(), last.map(|_| Ok(100 + iteration as u64)));
        }
        drop(journal);

        let mut journal = open(&path, Kind::Iterations, b"1").unwrap();
        journal.begin_set(0, Box::new(vec![7_u64, 8, 0]), &codec).unwrap();
        let error = journal.begin_set(1, Box::new(vec![7_u64, 8, 2]), &codec).unwrap_err();
        assert!(error.message().contains("the tasks of iteration 1 differ from those"), "{error}");
    }

    #[test]
    fn result_of_another_type_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut journal = open(&path, Kind::Stream, b"1").unwrap();
        journal.keep(3, Box::new(vec![7u64]), &Codec::<u64>::of_type()).unwrap();
        journal.close().unwrap();
        let mut journal = open(&path, Kind::Stream, b"1").unwrap();
        let error = journal.take_typed::<String>(3).unwrap_err();
        assert!(error.message().contains("result 3 cannot be read"), "{error}");
    }
}
