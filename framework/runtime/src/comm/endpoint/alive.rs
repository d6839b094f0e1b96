//! Checks whether the processes of other ranks are alive. A rank can observe only the processes on its own machine.

use super::Endpoint;
use crate::comm::message::Control;
use crate::comm::process::Process;
use crate::error::{Error, ErrorKind, Result};

impl Endpoint {
    /// Stores the process handle of `rank`, if this rank can observe the end of that process.
    pub(crate) fn know(&mut self, rank: usize, process: Process) {
        if self.is_process() && self.own.sees(&process) {
            self.seen.insert(rank, process);
        }
    }

    pub(crate) fn send_heartbeat(&mut self, rank: usize) -> Result<()> {
        self.send(rank, Control::Heartbeat, &())
    }

    /// Returns true if the process of `rank` has ended. The end is detected only for ranks on this machine.
    pub(crate) fn has_ended(&self, rank: usize) -> bool {
        self.seen.get(&rank).is_some_and(Process::has_ended)
    }

    /// Returns true if the process of `rank` is observed to be stopped, by a signal or a debugger.
    pub(crate) fn is_stopped(&self, rank: usize) -> bool {
        self.seen.get(&rank).is_some_and(Process::is_stopped)
    }

    /// Returns true if this rank can observe the end of `rank`'s process.
    pub(crate) fn is_seen(&self, rank: usize) -> bool {
        self.seen.contains_key(&rank)
    }

    /// Checks that the processes of all ranks that the job needs are still running. `waiting` describes what the caller waits for, after "waited
    /// for".
    pub(crate) fn check_alive(&self, waiting: impl FnOnce() -> String) -> Result<()> {
        let Some(rank) = (0..self.size()).find(|&rank| !self.is_lost(rank) && self.has_ended(rank)) else {
            return Ok(());
        };
        let text = format!("waited {}, but the process of rank {rank} has ended", waiting());
        Err(Error::new(ErrorKind::Timeout, text).at_rank(self.rank()))
    }
}
