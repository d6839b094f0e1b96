//! Syncs (`fsync`) of a journal on a separate thread, because a disk may take seconds and the rank must answer other ranks meanwhile.

use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

/// Thread that syncs (`fsync`) a file on request.
///
/// Dropping a `Syncer` does not wait: the thread completes a sync that is running, and ends.
#[derive(Debug)]
pub(super) struct Syncer {
    request_sender: SyncSender<()>,
    answers: Receiver<io::Result<()>>,
}

impl Syncer {
    pub(super) fn start(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        // A capacity of one is enough for the channels to and from the syncing thread, because one sync runs at a time.
        let (request_sender, requests) = sync_channel(1);
        let (reply, answers) = sync_channel(1);
        std::thread::Builder::new().name("journal".into()).spawn(move || {
            while let Ok(()) = requests.recv() {
                if reply.send(file.sync_data()).is_err() {
                    break;
                }
            }
        })?;
        Ok(Syncer { request_sender, answers })
    }

    /// Starts a sync of the file on the syncing thread. The caller must have received the result of the previous sync.
    pub(super) fn begin(&self) {
        // Sending the request fails only if the syncing thread has ended after a panic. The next call of `answer` or `wait` reports that.
        let _ = self.request_sender.try_send(());
    }

    pub(super) fn answer(&self) -> Option<io::Result<()>> {
        match self.answers.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(disconnected())),
        }
    }

    pub(super) fn wait(&self, limit: Duration) -> io::Result<()> {
        match self.answers.recv_timeout(limit) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => {
                let text = format!("the disk has not answered within {} s", limit.as_secs_f64());
                Err(io::Error::new(io::ErrorKind::TimedOut, text))
            }
            Err(RecvTimeoutError::Disconnected) => Err(disconnected()),
        }
    }
}

fn disconnected() -> io::Error {
    io::Error::other("the thread that syncs the journal has ended")
}
