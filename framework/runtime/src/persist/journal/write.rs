//! Appending of results to a journal (file of completed results).

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use armature_files::lock::{TRIES, unlock};
use bytes::Bytes;
use serde::Serialize;

use super::format::Head;
use super::sync::Syncer;
use super::sync_schedule::SyncSchedule;
use super::{FIRST_NOTE, Identity, Recovery, io_error, open};
use crate::error::{Error, ErrorKind, Result};
use crate::wire;

/// Size in bytes above which the buffered records are written even before the next call of [`tick`](Journal::tick).
const WRITE_ABOVE: usize = 64 << 10;
/// Default minimum time between two syncs (`fsync`) of a journal.
const PERIOD: Duration = Duration::from_millis(100);
/// Time limit for writing the records to the disk (`fsync`) when a journal is closed.
const CLOSE: Duration = Duration::from_secs(60);

/// An open journal: reads the results of earlier runs of the job, and appends new results.
///
/// A journal has one writer: rank 0 opens it, and a second process that tries to open it receives an error.
///
/// # Data loss
/// If the process dies, records that were appended since the last [`tick`](Journal::tick) may be lost. If the host dies, records that were
/// appended in the last [`sync_every`](Journal::sync_every) period and the duration of one sync may be lost.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Checksum of the last appended record. The checksum of the next record depends on it.
    chain: u32,
    buffer: Vec<u8>,
    sync_schedule: SyncSchedule,
    syncer: Syncer,
    failed: Option<Error>,
    annotations: u64,
}

impl Journal {
    /// Opens the journal of a job, or creates it if the file does not exist, and locks it until it is closed or dropped.
    ///
    /// The results in the journal are passed to `each` as task number and payload, in the order in which they were written. Each task is
    /// passed once: of several records of a task, the first counts. A torn or damaged end is moved to a file in the same directory,
    /// `NAME.cut-1` or the next unused number; this is logged as a warning and reported in the [`Recovery`]. No record after the damage is
    /// used.
    ///
    /// # Errors
    /// - [`ErrorKind::Config`] if the file is a journal of another job or in another version of the format, is not a journal, has a damaged
    ///   header, or has been in use by another process for ten seconds. The file is unchanged.
    /// - [`ErrorKind::Io`] if the file cannot be opened, read or created, is not a regular file (for example a FIFO), is on a file system
    ///   without locks, or if the damaged end cannot be copied. In the last case the file is unchanged.
    /// - An error returned by `each`; the file is unchanged.
    pub fn open(
        path: impl AsRef<Path>,
        identity: &Identity,
        each: impl FnMut(u64, Bytes) -> Result<()>,
    ) -> Result<(Journal, Recovery)> {
        Journal::open_within(path.as_ref(), identity, TRIES, each)
    }

    /// Reads the file of a journal that this process has open, and passes its results to `each`: of several records of a task only the first.
    pub(crate) fn read(
        path: &Path,
        identity: &Identity,
        each: impl FnMut(u64, Bytes) -> Result<()>,
    ) -> Result<()> {
        open::read(path, identity, each)
    }

    pub(super) fn open_within(
        path: &Path,
        identity: &Identity,
        tries: u32,
        mut each: impl FnMut(u64, Bytes) -> Result<()>,
    ) -> Result<(Journal, Recovery)> {
        let mut annotations = 0;
        let counted = |task, payload| {
            annotations += u64::from(task >= FIRST_NOTE);
            each(task, payload)
        };
        let (file, scan) = open::open(path, identity, tries, counted)?;
        let syncer = Syncer::start(&file).map_err(|e| io_error("start a thread for", path, &e))?;
        let (path, sync_schedule) = (path.to_path_buf(), SyncSchedule::new(PERIOD));
        let journal = Journal {
            path,
            file,
            chain: scan.chain,
            buffer: Vec::new(),
            sync_schedule,
            syncer,
            failed: None,
            annotations,
        };
        Ok((journal, scan.recovery))
    }

    /// Sets the minimum time between two syncs; the default is 100 ms. Syncs run one at a time on a separate thread, so that appending does not
    /// wait for the disk.
    pub fn sync_every(mut self, period: Duration) -> Self {
        self.sync_schedule.period = period;
        self
    }

    /// Returns the path of the journal.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends the result of a task at the time `now`, which may be on any clock, but always on the same clock. The record stays in memory until
    /// the next [`tick`](Journal::tick), or until the buffer exceeds 64 KiB.
    ///
    /// # Errors
    /// The errors of [`append_parts`](Journal::append_parts).
    pub fn append(&mut self, now: Duration, task: u64, payload: &[u8]) -> Result<()> {
        self.append_parts(now, task, &[payload])
    }

    /// Appends a result whose payload consists of several parts.
    ///
    /// # Errors
    /// If the file cannot be written or synced (for example because the disk is full), with its path; after that, every call returns this
    /// error. [`ErrorKind::Config`] for a payload of 4 GiB or more, which is not appended.
    pub fn append_parts(&mut self, now: Duration, task: u64, parts: &[&[u8]]) -> Result<()> {
        self.usable()?;
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        let length = u32::try_from(length).map_err(|_| {
            let text = format!(
                "the result of task {task} has {length} bytes, expected at most {} in a journal",
                u32::MAX
            );
            Error::new(ErrorKind::Config, text)
        })?;
        let head = Head::new(self.chain, task, length, parts);
        self.chain = head.sum;
        self.buffer.extend_from_slice(&head.to_bytes());
        parts.iter().for_each(|part| self.buffer.extend_from_slice(part));
        if self.buffer.len() > WRITE_ABOVE { self.tick(now) } else { Ok(()) }
    }

    /// Appends a note about the death of a rank, and writes it to the file at once, because the job may end.
    pub(crate) fn annotate(&mut self, now: Duration, annotation: &impl Serialize) -> Result<()> {
        self.append(now, FIRST_NOTE + self.annotations, &wire::to_bytes(annotation)?)?;
        self.annotations += 1;
        self.tick(now)
    }

    /// Writes buffered records and starts a sync (`fsync`) if a sync is due. Call it often, and always before an operation that takes long.
    ///
    /// # Errors
    /// If the file cannot be written or an earlier sync has failed, with its path; after that, every call returns this error.
    #[inline]
    pub fn tick(&mut self, now: Duration) -> Result<()> {
        if self.buffer.is_empty()
            && !self.sync_schedule.running()
            && !self.sync_schedule.unsynced()
            && self.failed.is_none()
        {
            return Ok(());
        }
        self.turn(now)
    }

    fn turn(&mut self, now: Duration) -> Result<()> {
        self.write()?;
        if self.sync_schedule.running()
            && let Some(result) = self.syncer.answer()
        {
            self.sync_schedule.ended();
            self.check("sync", result)?;
        }
        if self.sync_schedule.begin(now) {
            self.syncer.begin();
        }
        Ok(())
    }

    /// Writes buffered records and waits until all records are on the disk, for at most a minute per sync.
    ///
    /// # Errors
    /// If the file cannot be written or synced, with its path.
    pub fn close(mut self) -> Result<()> {
        self.write()?;
        if self.sync_schedule.running() {
            let result = self.syncer.wait(CLOSE);
            self.sync_schedule.ended();
            self.check("sync", result)?;
        }
        if self.sync_schedule.unsynced() {
            self.syncer.begin();
            let result = self.syncer.wait(CLOSE);
            self.check("sync", result)?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        self.usable()?;
        if self.buffer.is_empty() {
            return Ok(());
        }
        let result = self.file.write_all(&self.buffer);
        self.buffer.clear();
        self.sync_schedule.wrote();
        self.check("write", result)
    }

    fn usable(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Stores the first error in writing or syncing the journal. After an error the contents of the file are unknown, so all later calls fail.
    fn check(&mut self, doing: &str, result: std::io::Result<()>) -> Result<()> {
        result.map_err(|error| {
            let error = io_error(doing, &self.path, &error);
            self.failed = Some(error.clone());
            error
        })
    }
}

impl Drop for Journal {
    /// Writes the records in memory to the journal's file, without waiting until they are on the disk.
    fn drop(&mut self) {
        if self.failed.is_none()
            && let Err(error) = self.write()
        {
            log::warn!("{error}");
        }
        // The lock of the journal is released explicitly, because the syncing thread may keep the file open for some time.
        unlock(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::fd::OwnedFd;

    use super::*;

    const NOW: Duration = Duration::ZERO;

    fn journal(dir: &tempfile::TempDir) -> Journal {
        let job = Identity::new("squares", "1", []);
        Journal::open(dir.path().join("j"), &job, |_, _| Ok(())).unwrap().0
    }

    #[test]
    fn full_disk_is_a_persistent_error_with_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = journal(&dir);
        journal.file = OpenOptions::new().append(true).open("/dev/full").unwrap();
        journal.append(NOW, 1, b"one").unwrap();
        let error = journal.tick(NOW).unwrap_err();
        let text = format!("cannot write the journal {}: No space left", journal.path().display());
        assert!(error.to_string().starts_with(&text), "{error}");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(journal.append(NOW, 2, b"two").unwrap_err().to_string(), error.to_string());
        assert_eq!(journal.tick(NOW).unwrap_err().to_string(), error.to_string());
        assert_eq!(journal.close().unwrap_err().to_string(), error.to_string());
    }

    /// Returns a journal whose calls of `fsync` fail, because its file is a pipe.
    fn with_a_broken_disk(dir: &tempfile::TempDir) -> Journal {
        let (reader, _) = std::io::pipe().unwrap();
        let mut journal = journal(dir);
        journal.syncer = Syncer::start(&File::from(OwnedFd::from(reader))).unwrap();
        journal
    }

    #[test]
    fn failed_sync_is_reported_at_a_later_tick_or_close() {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("cannot sync the journal {}: ", dir.path().join("j").display());
        let mut journal = with_a_broken_disk(&dir);
        journal.append(NOW, 1, b"one").unwrap();
        journal.tick(NOW).unwrap();
        let error = (0..1000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            journal.tick(NOW).err()
        });
        assert!(error.expect("an error").to_string().starts_with(&text));
        drop(journal);

        let mut journal = with_a_broken_disk(&dir);
        journal.append(NOW, 2, b"two").unwrap();
        assert!(journal.close().unwrap_err().to_string().starts_with(&text));
    }
}
