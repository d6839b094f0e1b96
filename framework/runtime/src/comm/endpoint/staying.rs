//! Ranks that were taken for dead and no longer take part in the job, but finalise MPI together with the others.
//!
//! Most launchers end a job and report a failure as soon as one of its processes ends without having finalised MPI. Therefore a rank that hangs
//! in user code stays until all ranks leave, and finalises MPI with them. A rank that was only silent for long and was taken for dead may resume
//! and leave in the same way.

use std::time::Duration;

use super::{Arrival, Control, Endpoint, FLUSH, FRAME_HEADER, TAG_AT, Tagged};
use crate::error::Result;
use crate::wire;

impl Endpoint {
    /// Marks a rank that was taken for dead as still present: the rank takes no further part in the job, and finalises MPI with the others.
    pub(crate) fn stays(&mut self, rank: usize) {
        self.staying.insert(rank);
    }

    pub(crate) fn is_staying(&self, rank: usize) -> bool {
        self.staying.contains(&rank)
    }

    /// Ends this rank, if it is a process with a thread that cannot be ended. The rank no longer takes part in the job, waits until rank 0 dismisses
    /// all ranks, and then ends. It does not end earlier, because most launchers end the whole job when one of its processes ends.
    ///
    /// Returns at once if the rank is not a separate process. If the process of rank 0 has ended, or rank 0 is silent for longer than `limit`, the
    /// rank ends without the others.
    ///
    /// # Errors
    /// The errors of the transport.
    pub(crate) fn leave_with_all(&mut self, limit: Duration) -> Result<()> {
        if !self.is_process() {
            return Ok(());
        }
        let _ = self.drain(FLUSH);
        let mut backoff = self.backoff();
        let mut early = std::mem::take(&mut self.early);
        self.reset_silence(0);
        let dismissal = loop {
            let now = self.clock.now();
            self.record_poll(now);
            let Some(Arrival { from, frame }) =
                early.pop_front().map_or_else(|| self.arrival(), |early| Ok(Some(early)))?
            else {
                if self.has_ended(0) || self.silence(0) > limit {
                    break None;
                }
                backoff.wait(&mut *self.transport, self.clock)?;
                continue;
            };
            backoff.reset();
            self.liveness.record_message(from);
            match frame.head.get(TAG_AT) {
                Some(&tag) if tag == Control::Dismiss.byte() => break Some(frame),
                // A failure message of another rank ends the job, and thereby this wait for the dismissal by rank 0.
                Some(&tag) if tag == Control::Failure.byte() => break None,
                _ => {}
            }
        };
        if let Some(frame) = dismissal {
            self.learn_lost(wire::from_bytes(&frame.head[FRAME_HEADER..])?);
            self.close()?;
        }
        self.transport.leave_now();
        Ok(())
    }
}
