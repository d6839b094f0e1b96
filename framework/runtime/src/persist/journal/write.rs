//! Adding results.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use armature_files::lock::{TRIES, unlock};
use bytes::Bytes;

use super::format::Head;
use super::pace::Pace;
use super::sync::Syncer;
use super::{Identity, Recovery, io_error, open};
use crate::error::{Error, ErrorKind, Result};

/// What is appended is written when there is so much of it, in bytes, even without a tick.
const WRITE_ABOVE: usize = 64 << 10;
/// How often the disk is asked to keep what was written, unless the caller says otherwise.
const PERIOD: Duration = Duration::from_millis(100);
/// How long closing waits for the disk.
const CLOSE: Duration = Duration::from_secs(60);

/// An open journal: reads what an earlier run of the job has left, and takes new results.
///
/// It has one writer. Rank 0 opens it; a second process that tries to is refused.
///
/// # What may be lost
/// Where the process dies, what was appended since the last [`tick`](Journal::tick). Where the host dies, what was
/// appended in the last [`sync_every`](Journal::sync_every) and the time that one sync takes.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// Checksum of the last record, in the buffer or in the file.
    chain: u32,
    buffer: Vec<u8>,
    pace: Pace,
    syncer: Syncer,
    failed: Option<Error>,
}

impl Journal {
    /// Opens the journal of a job, or begins one where there is no file, and locks it for as long as it is open.
    ///
    /// The results that it holds go to `each` as task number and payload, in the order in which they were written. Each
    /// task comes once: of several records of a task, the first counts. A torn or damaged end is moved to
    /// a file beside it, `NAME.cut-1` or the next number that is free, which is logged as a warning and told in the
    /// [`Recovery`]; nothing behind damage is believed.
    ///
    /// # Errors
    /// - [`ErrorKind::Config`] when the file is a journal of another job or in another version of the format, is no
    ///   journal, has a damaged header, or has been in use by another process for ten seconds. It is left as it is.
    /// - [`ErrorKind::Io`] when it cannot be opened, read or begun, is no regular file (a FIFO, say), is on a file system without
    ///   locks, or when what is to be cut off cannot be kept: then it is left as it is.
    /// - What `each` returns; the file is left as it is.
    pub fn open(
        path: impl AsRef<Path>,
        identity: &Identity,
        each: impl FnMut(u64, Bytes) -> Result<()>,
    ) -> Result<(Journal, Recovery)> {
        Journal::open_within(path.as_ref(), identity, TRIES, each)
    }

    /// Goes over the results in the file of a journal that this process has open, as [`open`](Journal::open) does; of several of a task
    /// only the first is handed out.
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
        each: impl FnMut(u64, Bytes) -> Result<()>,
    ) -> Result<(Journal, Recovery)> {
        let (file, scan) = open::open(path, identity, tries, each)?;
        let syncer = Syncer::start(&file).map_err(|e| io_error("start a thread for", path, &e))?;
        let (path, pace) = (path.to_path_buf(), Pace::new(PERIOD));
        let journal =
            Journal { path, file, chain: scan.chain, buffer: Vec::new(), pace, syncer, failed: None };
        Ok((journal, scan.recovery))
    }

    /// From now on the disk is asked at most once in this time to keep what was written; 100 ms unless said.
    /// Syncs run on a thread of their own, one at a time, so that nobody waits for them.
    pub fn sync_every(mut self, period: Duration) -> Self {
        self.pace.period = period;
        self
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds the result of a task at the time `now` (of any one clock). It is in memory until the next
    /// [`tick`](Journal::tick), unless there is much of it.
    ///
    /// # Errors
    /// As [`append_parts`](Journal::append_parts).
    pub fn append(&mut self, now: Duration, task: u64, payload: &[u8]) -> Result<()> {
        self.append_parts(now, task, &[payload])
    }

    /// Adds a result whose payload is in pieces.
    ///
    /// # Errors
    /// When the file cannot be written or synced (the disk is full, say), with its path; from then on every call
    /// returns this error. [`ErrorKind::Config`] for a payload of 4 GiB or more, which is not added.
    pub fn append_parts(&mut self, now: Duration, task: u64, parts: &[&[u8]]) -> Result<()> {
        self.usable()?;
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        let length = u32::try_from(length).map_err(|_| {
            let text =
                format!("the result of task {task} has {length} bytes, a journal takes {} at most", u32::MAX);
            Error::new(ErrorKind::Config, text)
        })?;
        let head = Head::new(self.chain, task, length, parts);
        self.chain = head.sum;
        self.buffer.extend_from_slice(&head.to_bytes());
        parts.iter().for_each(|part| self.buffer.extend_from_slice(part));
        if self.buffer.len() > WRITE_ABOVE { self.tick(now) } else { Ok(()) }
    }

    /// To be called often, and always before something that takes long: writes what is in memory and begins a sync
    /// if one is due.
    ///
    /// # Errors
    /// When the file cannot be written or an earlier sync has failed, with its path; from then on every call returns
    /// this error.
    #[inline]
    pub fn tick(&mut self, now: Duration) -> Result<()> {
        if self.buffer.is_empty() && !self.pace.running() && !self.pace.unsynced() && self.failed.is_none() {
            return Ok(());
        }
        self.turn(now)
    }

    fn turn(&mut self, now: Duration) -> Result<()> {
        self.write()?;
        if self.pace.running()
            && let Some(result) = self.syncer.answer()
        {
            self.pace.ended();
            self.check("sync", result)?;
        }
        if self.pace.begin(now) {
            self.syncer.begin();
        }
        Ok(())
    }

    /// Writes what is in memory and waits until all of it is on the disk, a minute at most.
    ///
    /// # Errors
    /// When the file cannot be written or synced, with its path.
    pub fn close(mut self) -> Result<()> {
        self.write()?;
        if self.pace.running() {
            let result = self.syncer.wait(CLOSE);
            self.pace.ended();
            self.check("sync", result)?;
        }
        if self.pace.unsynced() {
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
        self.pace.wrote();
        self.check("write", result)
    }

    fn usable(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// After an error nobody knows what is in the file: nothing more is added to it.
    fn check(&mut self, doing: &str, result: std::io::Result<()>) -> Result<()> {
        result.map_err(|error| {
            let error = io_error(doing, &self.path, &error);
            self.failed = Some(error.clone());
            error
        })
    }
}

impl Drop for Journal {
    /// Writes what is in memory, and does not wait for the disk.
    fn drop(&mut self) {
        if self.failed.is_none()
            && let Err(error) = self.write()
        {
            log::warn!("{error}");
        }
        // The thread that syncs may have the file open for a while yet.
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
    fn a_disk_that_fills_up_is_an_error_with_the_path_and_stays_one() {
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

    /// A journal whose disk cannot keep anything: a pipe cannot be synced.
    fn with_a_broken_disk(dir: &tempfile::TempDir) -> Journal {
        let (reader, _) = std::io::pipe().unwrap();
        let mut journal = journal(dir);
        journal.syncer = Syncer::start(&File::from(OwnedFd::from(reader))).unwrap();
        journal
    }

    #[test]
    fn a_sync_that_fails_is_told_at_a_later_tick_or_at_the_end() {
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
