//! Ranks that take part in nothing any more and leave with the others all the same.
//!
//! Most launchers end a job as soon as one of its processes ends without having finalised MPI, and say that it has failed.
//! So a rank that hangs in user code stays until all leave, and finalises MPI with them. One that was only
//! silent for long, and was taken for dead, may come back and do the same.

use std::time::Duration;

use super::{Arrival, Control, Endpoint, FLUSH, FRAME_HEADER, TAG_AT, Tagged};
use crate::error::Result;
use crate::wire;

impl Endpoint {
    /// A lost rank is there all the same: it takes part in nothing, and leaves with the others.
    pub(crate) fn stays(&mut self, rank: usize) {
        self.staying.insert(rank);
    }

    /// Whether a lost rank is known to be there.
    pub(crate) fn is_staying(&self, rank: usize) -> bool {
        self.staying.contains(&rank)
    }

    /// The end of a rank that is a process and one of whose threads cannot be ended: takes part in nothing any more, waits
    /// until rank 0 lets all leave, and ends. Most launchers end the whole job when a process of it ends before.
    ///
    /// Returns at once if the rank is no process. Where rank 0 is gone, or says nothing for longer than `limit`, the rank
    /// ends without the others.
    ///
    /// # Errors
    /// What the transport reports.
    pub(crate) fn leave_with_all(&mut self, limit: Duration) -> Result<()> {
        if !self.is_process() {
            return Ok(());
        }
        let _ = self.drain(FLUSH);
        let mut backoff = self.backoff();
        let mut early = std::mem::take(&mut self.early);
        self.heard_now(0);
        let dismissal = loop {
            let now = self.clock.now();
            self.look(now);
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
            self.liveness.heard(from);
            match frame.head.get(TAG_AT) {
                Some(&tag) if tag == Control::Dismiss.byte() => break Some(frame),
                // The job is being ended.
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
