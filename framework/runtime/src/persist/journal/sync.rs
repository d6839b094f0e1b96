//! Syncs on a thread of their own: a disk may take seconds, and the rank has to answer others meanwhile.

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

/// A thread that syncs a file when it is asked to.
///
/// Dropping it does not wait: a sync that is under way goes on to its end, and then the thread ends.
#[derive(Debug)]
pub(super) struct Syncer {
    asked: SyncSender<()>,
    answers: Receiver<io::Result<()>>,
}

impl Syncer {
    /// Starts the thread for `file`.
    pub(super) fn start(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        // One sync at a time, so that neither end ever waits for room.
        let (asked, requests) = sync_channel(1);
        let (reply, answers) = sync_channel(1);
        std::thread::Builder::new().name("journal".into()).spawn(move || {
            while let Ok(()) = requests.recv() {
                if reply.send(file.sync_data()).is_err() {
                    break;
                }
            }
        })?;
        Ok(Syncer { asked, answers })
    }

    /// Begins a sync. The one before has been answered.
    pub(super) fn begin(&self) {
        // The thread is gone only after a panic, which the next answer tells.
        let _ = self.asked.try_send(());
    }

    /// What came of the sync, if it has ended.
    pub(super) fn answer(&self) -> Option<io::Result<()>> {
        match self.answers.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(gone())),
        }
    }

    /// Waits for the sync to end, for so long at most.
    pub(super) fn wait(&self, limit: Duration) -> io::Result<()> {
        match self.answers.recv_timeout(limit) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => {
                let text = format!("the disk has not answered within {} s", limit.as_secs_f64());
                Err(io::Error::new(io::ErrorKind::TimedOut, text))
            }
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that syncs it has ended")
}
