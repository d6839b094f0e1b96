//! Writing of one rank's units (rows or indices of the loop) to checkpoint files, concurrently with the computation.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::folder::{Attempt, Folder};
use super::io_error;
use super::manifest::Saved;
use crate::error::{Error, ErrorKind, Result};

/// Maximum time for which dropping a writer waits for each checkpoint that is being written. A slow disk can finish in this time; a disk that does
/// not respond delays the end of the job by no more.
const LAST: Duration = Duration::from_secs(30);

/// Contiguous units (rows or indices of a loop) to write to a checkpoint: the first unit, the number of units, and their data.
pub(crate) type CheckpointPiece = (u64, u64, Vec<u8>);

/// Writer of one rank's checkpoint files. It starts a thread for the first checkpoint, except in a simulation, whose ranks have no threads.
#[derive(Debug)]
pub(crate) struct SnapshotWriter {
    dir: PathBuf,
    attempt: Attempt,
    rank: usize,
    has_thread: bool,
    thread: Option<Thread>,
    /// Numbers of passes of the checkpoints whose writing has been started and whose result [`poll`](SnapshotWriter::poll) has not returned.
    outstanding: VecDeque<u64>,
    /// Results of checkpoints that were written synchronously, and that [`poll`](SnapshotWriter::poll) has not returned.
    done: VecDeque<WriteResult>,
}

type WriteResult = Result<Vec<Saved>>;

#[derive(Debug)]
struct Thread {
    jobs: Sender<(Folder, Vec<CheckpointPiece>)>,
    results: Receiver<WriteResult>,
    handle: JoinHandle<()>,
}

impl SnapshotWriter {
    pub(super) fn new(dir: &Path, attempt: Attempt, rank: usize, has_thread: bool) -> Self {
        let dir = dir.to_path_buf();
        let (outstanding, done) = (VecDeque::new(), VecDeque::new());
        SnapshotWriter { dir, attempt, rank, has_thread, thread: None, outstanding, done }
    }

    /// Returns a writer for tests with a disk that does not respond until the second returned value is dropped.
    #[cfg(test)]
    pub(crate) fn stuck(dir: &Path, rank: usize) -> (Self, impl Sized) {
        let (jobs, to_do) = channel();
        let (finished, results) = channel();
        let handle = std::thread::spawn(|| ());
        let mut writer = SnapshotWriter::new(dir, Attempt::new(), rank, true);
        writer.thread = Some(Thread { jobs, results, handle });
        (writer, (to_do, finished))
    }

    /// Starts to write the units (rows or indices) of this rank after `pass` passes of the loop, and returns at once.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn save(&mut self, pass: u64, pieces: Vec<CheckpointPiece>) -> Result<()> {
        self.outstanding.push_back(pass);
        let folder = Folder { pass, attempt: self.attempt.clone() };
        if !self.has_thread {
            self.done.push_back(save(&self.dir, &folder, self.rank, &pieces));
            return Ok(());
        }
        if self.thread.is_none() {
            self.thread = Some(start(self.dir.clone(), self.rank)?);
        }
        if let Some(Thread { jobs, .. }) = &self.thread {
            // An error in passing the rows or indices to the writing thread is ignored: the thread has ended, which the next call of `poll` reports.
            let _ = jobs.send((folder, pieces));
        }
        Ok(())
    }

    /// Returns the result of the oldest checkpoint that has not been returned yet, if that checkpoint has been written or cannot be written: its
    /// number of passes, and descriptions of the written data or an error of the file system. Never blocks.
    pub(crate) fn poll(&mut self) -> Option<(u64, Result<Vec<Saved>>)> {
        let pass = *self.outstanding.front()?;
        let result = match &self.thread {
            None => self.done.pop_front()?,
            Some(Thread { results, .. }) => match results.try_recv() {
                Ok(result) => result,
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => {
                    let text = "the thread that writes checkpoints has ended early";
                    Err(Error::new(ErrorKind::Io, text).at_rank(self.rank))
                }
            },
        };
        self.outstanding.pop_front();
        Some((pass, result))
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.outstanding.is_empty()
    }

    /// Abandons the checkpoints that are being written: no later call waits for them, nor does dropping the writer; the writing thread is detached.
    /// Returns the error that the disk has not completed the write within `waited`.
    pub(crate) fn timed_out(&mut self, waited: Duration) -> Error {
        self.thread = None;
        self.outstanding.clear();
        let text =
            format!("waited {} s for a checkpoint to be written to {}", waited.as_secs(), self.dir.display());
        Error::new(ErrorKind::Timeout, text).at_rank(self.rank)
    }
}

/// Ends the thread that writes checkpoints. The thread first completes unfinished checkpoints, unless they were abandoned or the disk does not
/// respond in time.
impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if let Some(Thread { jobs, results, handle }) = self.thread.take() {
            drop(jobs);
            // Receives results until the writing thread drops its end of the channel, which shows that it has written everything. The results
            // themselves are not used.
            loop {
                match results.recv_timeout(LAST) {
                    Ok(_) => {}
                    Err(RecvTimeoutError::Disconnected) => {
                        let _ = handle.join();
                        break;
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        let (rank, dir) = (self.rank, self.dir.display());
                        log::warn!(
                            "rank {rank}: abandoned a checkpoint in {dir} that was not written within {} s",
                            LAST.as_secs()
                        );
                        break;
                    }
                }
            }
        }
    }
}

fn start(dir: PathBuf, rank: usize) -> Result<Thread> {
    let (jobs, to_do) = channel::<(Folder, Vec<CheckpointPiece>)>();
    let (finished, results) = channel();
    let work = move || {
        for (folder, pieces) in to_do {
            if finished.send(save(&dir, &folder, rank, &pieces)).is_err() {
                break;
            }
        }
    };
    let handle =
        std::thread::Builder::new().name(format!("checkpoint {rank}")).spawn(work).map_err(|error| {
            let text = format!("cannot start the thread that writes checkpoints: {error}");
            Error::new(ErrorKind::Io, text).at_rank(rank)
        })?;
    Ok(Thread { jobs, results, handle })
}

fn save(dir: &Path, folder: &Folder, rank: usize, pieces: &[CheckpointPiece]) -> WriteResult {
    let path = folder.file(dir, rank);
    let io = |error| io_error("write", &path, &error).at_rank(rank);
    let (file, parent) = folder.create(dir, rank).map_err(io)?;
    let mut out = BufWriter::new(file);
    let (mut at, mut saved) = (0, Vec::with_capacity(pieces.len()));
    for (first, count, data) in pieces {
        out.write_all(data).map_err(io)?;
        let bytes = data.len() as u64;
        saved.push(Saved { first: *first, count: *count, at, bytes, sum: crc32fast::hash(data) });
        at += bytes;
    }
    let file = out.into_inner().map_err(|error| io(error.into_error()))?;
    file.sync_all().map_err(io)?;
    // The directories are synced so that the entry of the file is on the disk as well.
    parent.sync_all().and_then(|()| File::open(dir)?.sync_all()).map_err(io)?;
    Ok(saved)
}
