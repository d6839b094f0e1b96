//! Results that outlive the job: kept in a journal as they come, and taken from it instead of being computed again.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;

use super::workbench::caught;
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::journal::{Identity, Journal};
use crate::transport::Part;
use crate::wire::{Codec, Item};

/// A farm's journal, and what it held when it was opened.
#[derive(Debug)]
pub(crate) struct Store {
    journal: Journal,
    known: BTreeMap<u64, Bytes>,
    clock: Clock,
}

impl Store {
    /// Opens the journal of the farm `name`, whose results depend on what `fingerprint` says.
    ///
    /// # Errors
    /// Those of [`Journal::open`].
    pub(crate) fn open(path: &Path, name: &str, fingerprint: &[u8], clock: Clock) -> Result<Self> {
        let mut known = BTreeMap::new();
        let identity = Identity::new(name, LAYOUT, fingerprint);
        let (journal, recovery) = Journal::open(path, &identity, |task, payload| {
            known.insert(task, payload);
            Ok(())
        })?;
        if recovery.tasks > 0 {
            log::info!("farm {name}: {} results are in {}", recovery.tasks, path.display());
        }
        Ok(Store { journal, known, clock })
    }

    /// The first task from number `from` on that has a result.
    pub(crate) fn next_known(&self, from: u64) -> Option<u64> {
        self.known.range(from..).next().map(|(&task, _)| task)
    }

    /// The result of a task, if the journal had it.
    ///
    /// # Errors
    /// If it is not a result of this farm: the fingerprint does not say all that it should.
    pub(crate) fn take<O: Item>(&mut self, task: u64, codec: &Codec<O>) -> Result<Option<O>> {
        self.known.remove(&task).map(|payload| self.unpack(task, payload, codec)).transpose()
    }

    /// Keeps the result of a task.
    ///
    /// # Errors
    /// If the result cannot be encoded, or the file cannot be written.
    pub(crate) fn keep<O: Item>(&mut self, task: u64, result: O, codec: &Codec<O>) -> Result<O> {
        let (mut head, mut parts) = (Vec::new(), Vec::new());
        caught(|| codec.encode(vec![result], &mut head, &mut parts))?;
        // Lengths of the head and of all parts but the last, which ends where the record does.
        let mut lengths = (parts.len() as u32).to_le_bytes().to_vec();
        lengths.extend_from_slice(&(head.len() as u64).to_le_bytes());
        for part in &parts {
            lengths.extend_from_slice(&(part.len() as u64).to_le_bytes());
        }
        let mut pieces = vec![&lengths[..], &head[..]];
        pieces.extend(parts.iter().map(Part::bytes));
        self.journal.append_parts(self.clock.now(), task, &pieces)?;
        caught(|| codec.decode(head.into(), parts, 1))?
            .pop()
            .ok_or_else(|| strange(task, self.journal.path()))
    }

    fn unpack<O: Item>(&self, task: u64, mut payload: Bytes, codec: &Codec<O>) -> Result<O> {
        let strange = || strange(task, self.journal.path());
        let mut cut = |length: u64| {
            let length = usize::try_from(length).ok().filter(|&l| l <= payload.len()).ok_or_else(strange)?;
            Ok::<Bytes, Error>(payload.split_to(length))
        };
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b));
        let count = number(&cut(4)?);
        let head_length = number(&cut(8)?);
        let lengths = cut(count * 8)?;
        let head = cut(head_length)?;
        let parts: Result<Vec<Part>> = lengths.chunks(8).map(|l| cut(number(l)).map(Part::from)).collect();
        let parts = parts?;
        let mut results = caught(|| codec.decode(head, parts, 1)).map_err(|e| {
            let text =
                format!("{}: result {task} cannot be read: {}", self.journal.path().display(), e.message());
            Error::new(ErrorKind::Config, text)
        })?;
        results.pop().ok_or_else(strange)
    }

    /// What is to be done at every turn.
    pub(crate) fn tick(&mut self) -> Result<()> {
        let now = self.clock.now();
        self.journal.tick(now)
    }

    /// Waits until everything is on the disk.
    pub(crate) fn close(self) -> Result<()> {
        self.journal.close()
    }
}

/// How results are laid out in records, beside the version of the codecs.
const LAYOUT: &str = concat!("farm 1, armature ", env!("CARGO_PKG_VERSION"));

fn strange(task: u64, path: &Path) -> Error {
    Error::new(
        ErrorKind::Config,
        format!("{}: the record of task {task} is not a farm's result", path.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_back_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let codec = Codec::<Vec<f64>>::of_type();
        // Inline, and as a part of its own.
        let results = [vec![], vec![1.5; 3], vec![2.5; 9_000]];
        let mut store = Store::open(&path, "sums", b"1", Clock::wall()).unwrap();
        assert_eq!(store.next_known(0), None);
        for (task, result) in (0..).zip(&results) {
            assert_eq!(store.keep(task * 10, result.clone(), &codec).unwrap(), *result);
        }
        store.close().unwrap();

        let mut store = Store::open(&path, "sums", b"1", Clock::wall()).unwrap();
        assert_eq!(
            (store.next_known(0), store.next_known(1), store.next_known(21)),
            (Some(0), Some(10), None)
        );
        for (task, result) in (0..).zip(results) {
            assert_eq!(store.take(task * 10, &codec).unwrap(), Some(result));
        }
        assert_eq!((store.take(0, &codec).unwrap(), store.next_known(0)), (None, None));
        drop(store);
        let error = Store::open(&path, "sums", b"2", Clock::wall()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }

    #[test]
    fn a_result_of_another_type_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        let mut store = Store::open(&path, "sums", b"1", Clock::wall()).unwrap();
        store.keep(3, 7u64, &Codec::of_type()).unwrap();
        store.close().unwrap();
        let mut store = Store::open(&path, "sums", b"1", Clock::wall()).unwrap();
        let error = store.take::<String>(3, &Codec::of_type()).unwrap_err();
        assert!(error.message().contains("result 3 cannot be read"), "{error}");
    }
}
