//! Failure of a job: the message with which a rank reports its failure to the others, and their confirmations that they can end.

#[cfg(feature = "mpi")]
use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

use super::{Endpoint, FLUSH};
use crate::comm::Frame;
use crate::comm::message::{Control, FRAME_HEADER, FailureMessage};
#[cfg(feature = "mpi")]
use crate::comm::message::{open, run_of};
use crate::error::{Error, ErrorKind, Result};
use crate::job_status::writer::may_restart;
use crate::wire;

/// Longest time that the process of a rank continues after the job has failed, if its user code does not return. It must exceed the time after which
/// the other ranks abort the job. A larger value delays the end of a job that no rank aborts.
const GRACE: Duration = Duration::from_secs(5);
/// Time that a rank waits for the failure message of the rank whose error came first. It is less than [`GRACE`], and more than that rank needs to
/// send the message.
const FAILURE_MESSAGE_LIMIT: Duration = Duration::from_secs(1);

impl Endpoint {
    /// Records the failure of this rank and sends it to all other ranks, as far as they can be reached.
    fn fail(&mut self, error: &Error) {
        self.failure = Some(error.clone());
        let restart = may_restart(error.kind());
        // The job status is written first, because the launcher may kill this rank as soon as another rank ends.
        self.job_status.fail(error, restart);
        let failure = FailureMessage { message: error.to_string(), restart };
        let me = self.rank();
        for to in (0..self.size()).filter(|&r| r != me) {
            // An error in sending the failure message is ignored: the job ends even if the message does not arrive.
            let _ = self.send(to, Control::Failure, &failure);
        }
        let _ = self.drain(FLUSH);
        self.transport.fail(error);
    }

    /// Prints the error, unless the error has been printed already, and reports it to all ranks, unless a failure is known already. The job
    /// ends: further waits for any rank return the error. If this rank is a process that is still running user code after a grace period, the
    /// process ends itself.
    pub(crate) fn report(&mut self, error: &Error) {
        // An error of kind `Stopped` is not reported: the job was asked to stop, and every rank returns this error.
        if error.kind() == ErrorKind::Stopped {
            return;
        }
        if error.kind() == ErrorKind::Peer {
            self.await_failure();
        }
        self.transport.leave_within(GRACE);
        if self.failure.is_none() {
            if self.is_process() && !error.is_printed() {
                // The error is written in one call, so that output of other ranks and of the launcher does not interleave with its lines.
                let text = format!("armature: {}\n", armature_text::indented(error));
                // An error of the write is ignored: if stderr is closed, the exit code still shows the failure.
                let _ = std::io::stderr().write_all(text.as_bytes());
            }
            self.fail(error);
        }
    }

    /// Waits for the failure message of the rank whose error came first. The message does not arrive if user code handled the error on that rank.
    fn await_failure(&mut self) {
        let start = self.clock().now();
        while self.failure.is_none() && self.clock().now().saturating_sub(start) < FAILURE_MESSAGE_LIMIT {
            if self.poll().is_err() || self.transport.wait(Some(FAILURE_MESSAGE_LIMIT / 100)).is_err() {
                return;
            }
        }
    }

    /// Records the failure of another rank from the message that reports it, and returns the error.
    ///
    /// # Errors
    /// If the message cannot be decoded.
    pub(super) fn on_failure(&mut self, frame: &Frame) -> Result<Error> {
        let failure: FailureMessage = wire::from_bytes(&frame.head[FRAME_HEADER..])?;
        let error = Error::new(ErrorKind::Peer, failure.message);
        self.failure = Some(error.clone());
        self.job_status.fail(&error, failure.restart);
        Ok(error)
    }

    /// Checks that no rank, including this one, has failed.
    ///
    /// # Errors
    /// The failure of the rank, even if user code has handled the error before.
    #[inline]
    pub(crate) fn check_failure(&self) -> Result<()> {
        self.failure.as_ref().map_or(Ok(()), |error| Err(error.clone()))
    }
}

#[cfg(feature = "mpi")]
impl Endpoint {
    /// Receives messages until rank 0 dismisses this rank from a failed job; all other messages are dropped. Returns the dead ranks, or `None` if no
    /// dismissal has arrived yet.
    ///
    /// # Errors
    /// The errors of the transport.
    pub(crate) fn dismissal(&mut self) -> Result<Option<Vec<usize>>> {
        self.early.clear();
        while let Some(arrival) = self.arrival()? {
            run_of(&arrival.frame)?;
            let message = open(arrival);
            if message.is(Control::Dismiss) {
                return message.expect(Control::Dismiss)?.value().map(Some);
            }
        }
        Ok(None)
    }

    /// Returns true if all ranks that are alive have received the messages of this rank.
    ///
    /// # Errors
    /// The errors of the transport.
    pub(crate) fn all_received(&mut self) -> Result<bool> {
        let is_done = self.transport.sends_done()?;
        Ok(is_done || self.transport.receivers().into_iter().all(|rank| self.has_left(rank)))
    }

    /// Returns the ranks that have died, and the living ranks except this one that have not [confirmed](Control::Answer) the failure of the job.
    pub(crate) fn unanswered(&self) -> (Vec<usize>, BTreeSet<usize>) {
        let others = (0..self.size()).filter(|&rank| rank != self.rank());
        let (dead, alive): (Vec<usize>, Vec<usize>) = others.partition(|&rank| self.has_left(rank));
        (dead, alive.into_iter().filter(|rank| !self.answered.contains(rank)).collect())
    }

    fn has_left(&self, rank: usize) -> bool {
        self.has_ended(rank) || (self.is_lost(rank) && !self.is_staying(rank))
    }
}
