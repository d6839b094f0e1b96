//! Whether the others' processes are there, as far as that can be seen from here.

use super::Endpoint;
use crate::comm::message::Control;
use crate::comm::process::Process;
use crate::error::{Error, ErrorKind, Result};

impl Endpoint {
    /// `rank` is this process.
    pub(crate) fn know(&mut self, rank: usize, process: Process) {
        if self.is_process() && self.own.sees(&process) {
            self.seen.insert(rank, process);
        }
    }

    /// Tells `rank` that this one is alive.
    ///
    /// # Errors
    /// What the transport reports.
    pub(crate) fn give_sign(&mut self, rank: usize) -> Result<()> {
        self.send(rank, Control::Heartbeat, &())
    }

    /// Whether a rank's process has ended, as far as that can be seen: it is on this machine.
    pub(crate) fn has_ended(&self, rank: usize) -> bool {
        self.seen.get(&rank).is_some_and(Process::has_ended)
    }

    /// Whether a rank's process is seen to be stopped, so that it can do nothing.
    pub(crate) fn is_stopped(&self, rank: usize) -> bool {
        self.seen.get(&rank).is_some_and(Process::is_stopped)
    }

    /// Whether the end of a rank's process would be seen from here.
    pub(crate) fn is_seen(&self, rank: usize) -> bool {
        self.seen.contains_key(&rank)
    }

    /// Whoever can go on only with all ranks that are not lost looks whether they are there; `waiting` says what for.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] when the process of one is seen to have ended.
    pub(crate) fn check_alive(&self, waiting: impl FnOnce() -> String) -> Result<()> {
        let Some(rank) = (0..self.size()).find(|&rank| !self.is_lost(rank) && self.has_ended(rank)) else {
            return Ok(());
        };
        let text = format!("waited {}, but the process of rank {rank} has ended", waiting());
        Err(Error::new(ErrorKind::Timeout, text).at_rank(self.rank()))
    }
}
