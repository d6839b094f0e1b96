//! Writing units beside the computing.

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

/// The time that a writer that is dropped waits for each checkpoint that is being written: a slow disk gets that, a dead one ends the job no later.
const LAST: Duration = Duration::from_secs(30);

/// Neighbouring units to be written: the first, how many, and their data.
pub(crate) type Piece = (u64, u64, Vec<u8>);

/// One rank's writer. It has a thread from its first job on, but under the simulator, whose ranks have none.
#[derive(Debug)]
pub(crate) struct SnapshotWriter {
    dir: PathBuf,
    attempt: Attempt,
    rank: usize,
    has_thread: bool,
    thread: Option<Thread>,
    /// Jobs whose outcome has not been fetched.
    outstanding: usize,
    /// Outcomes without a thread.
    done: Vec<Outcome>,
}

/// A pass, and what was written of it.
type Outcome = Result<(u64, Vec<Saved>)>;

#[derive(Debug)]
struct Thread {
    jobs: Sender<(Folder, Vec<Piece>)>,
    outcomes: Receiver<Outcome>,
    handle: JoinHandle<()>,
}

impl SnapshotWriter {
    /// A writer of this rank's files in this start of the job; without a thread it writes at once.
    pub(super) fn new(dir: &Path, attempt: Attempt, rank: usize, has_thread: bool) -> Self {
        let dir = dir.to_path_buf();
        SnapshotWriter { dir, attempt, rank, has_thread, thread: None, outstanding: 0, done: Vec::new() }
    }

    /// One whose disk does not answer, until what is returned is dropped.
    #[cfg(test)]
    pub(crate) fn stuck(dir: &Path, rank: usize) -> (Self, impl Sized) {
        let (jobs, to_do) = channel();
        let (finished, outcomes) = channel();
        let handle = std::thread::spawn(|| ());
        let mut writer = SnapshotWriter::new(dir, Attempt::new(), rank, true);
        writer.thread = Some(Thread { jobs, outcomes, handle });
        (writer, (to_do, finished))
    }

    /// Begins to write the units of this rank as they are after `pass` passes, and returns.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub(crate) fn save(&mut self, pass: u64, pieces: Vec<Piece>) -> Result<()> {
        self.outstanding += 1;
        let folder = Folder { pass, attempt: self.attempt.clone() };
        if !self.has_thread {
            self.done.push(save(&self.dir, &folder, self.rank, &pieces));
            return Ok(());
        }
        if self.thread.is_none() {
            self.thread = Some(start(self.dir.clone(), self.rank)?);
        }
        if let Some(Thread { jobs, .. }) = &self.thread {
            // If the thread is gone, its outcomes say so.
            let _ = jobs.send((folder, pieces));
        }
        Ok(())
    }

    /// What has been written since the last call, if anything has. Never waits.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn poll(&mut self) -> Result<Option<(u64, Vec<Saved>)>> {
        if self.outstanding == 0 {
            return Ok(None);
        }
        let outcome = match &self.thread {
            None => self.done.pop(),
            Some(Thread { outcomes, .. }) => match outcomes.try_recv() {
                Ok(outcome) => Some(outcome),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => {
                    let text = "the thread that writes checkpoints has ended early";
                    Some(Err(Error::new(ErrorKind::Io, text).at_rank(self.rank)))
                }
            },
        };
        self.outstanding -= usize::from(outcome.is_some());
        outcome.transpose()
    }

    /// Whether something is being written, or has been and was not fetched.
    pub(crate) fn is_busy(&self) -> bool {
        self.outstanding > 0
    }

    /// Waits no more for what is being written, also when it is dropped: the thread is left to itself. Returns the error that
    /// the disk has not taken it in `waited`.
    pub(crate) fn give_up(&mut self, waited: Duration) -> Error {
        self.thread = None;
        self.outstanding = 0;
        let text =
            format!("waited {} s for a checkpoint to be written to {}", waited.as_secs(), self.dir.display());
        Error::new(ErrorKind::Timeout, text).at_rank(self.rank)
    }
}

/// The thread ends with its writer: what it is writing is finished first, if that was not given up and the disk takes it.
impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if let Some(Thread { jobs, outcomes, handle }) = self.thread.take() {
            drop(jobs);
            // It drops its end when it is done, and what it reports till then is of no use any more.
            loop {
                match outcomes.recv_timeout(LAST) {
                    Ok(_) => {}
                    Err(RecvTimeoutError::Disconnected) => {
                        let _ = handle.join();
                        break;
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        let (rank, dir) = (self.rank, self.dir.display());
                        log::warn!(
                            "rank {rank}: gave up a checkpoint in {dir} that was not written in {} s",
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
    let (jobs, to_do) = channel::<(Folder, Vec<Piece>)>();
    let (finished, outcomes) = channel();
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
    Ok(Thread { jobs, outcomes, handle })
}

/// Writes a rank's units, and makes sure that they are on the disk.
fn save(dir: &Path, folder: &Folder, rank: usize, pieces: &[Piece]) -> Outcome {
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
    // The names, too.
    parent.sync_all().and_then(|()| File::open(dir)?.sync_all()).map_err(io)?;
    Ok((folder.pass, saved))
}
