//! Exchange of a farm's incumbent (best value known so far) with other ranks: it is added to messages that are sent anyway, and sent alone if no such
//! message is due.

use std::sync::Arc;
use std::time::Duration;

use super::incumbent::AnyIncumbent;
use super::messages::{Tag, carries_incumbent, with_incumbent, without_incumbent};
use crate::comm::Frame;
use crate::comm::message::{Message, frame_header};
use crate::error::{Error, ErrorKind, Result};
use crate::rank::protocol::Outgoing;

/// Minimum time between two moments at which a rank sends an improved incumbent in messages that carry nothing else. In an exploration a rank
/// searches for this time between two messages: with a shorter interval, more messages would carry only the incumbent than results.
const INTERVAL: Duration = Duration::from_millis(10);
/// Minimum time, per receiver, between two moments at which a rank sends an improved incumbent in separate messages. Such a message occupies its
/// sender for some microseconds, so these messages take about 1 % of the sender's time.
const INTERVAL_PER_RANK: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) struct IncumbentLink {
    incumbent: Option<Arc<dyn AnyIncumbent>>,
    farm: String,
    /// By rank, the version of the incumbent's value that the rank certainly knows, because it was sent to or received from that
    /// rank; 0 for none.
    known: Vec<u64>,
    /// Version of the incumbent's value that was last sent to all ranks with tasks in messages that carried nothing else.
    spread: u64,
    next_round: Duration,
}

impl IncumbentLink {
    pub(super) fn new(incumbent: Option<Arc<dyn AnyIncumbent>>, farm: &str, ranks: usize) -> Self {
        // The incumbent's value at the start of the run is not sent in separate messages: it reaches other ranks with chunks and results.
        let spread = incumbent.as_ref().map_or(0, |incumbent| incumbent.version());
        let (farm, known) = (farm.to_string(), vec![0; ranks]);
        IncumbentLink { incumbent, farm, known, spread, next_round: Duration::ZERO }
    }

    /// Adds the incumbent (best value known so far) to a frame for rank `to`, unless that rank knows its value.
    ///
    /// # Errors
    /// If the value cannot be encoded.
    pub(super) fn add(&mut self, to: usize, frame: Frame) -> Result<Frame> {
        let Some(incumbent) = self.incumbent.as_ref().filter(|it| it.version() != self.known[to]) else {
            return Ok(frame);
        };
        let (value, version) = incumbent.encode().map_err(|e| self.here(e))?;
        self.known[to] = version;
        Ok(with_incumbent(frame, &value))
    }

    /// Takes the incumbent out of a received message, if the message carries it, and merges its value. Returns the message as it was before
    /// the incumbent was added, or `None` if it carried nothing else.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the value is damaged, or this rank has no incumbent.
    pub(super) fn take(&mut self, message: Message) -> Result<Option<Message>> {
        if !carries_incumbent(&message) {
            return Ok(Some(message));
        }
        let Some(incumbent) = &self.incumbent else {
            let text = format!("rank {} sent an incumbent, but the farm has none", message.from);
            return Err(self.here(Error::new(ErrorKind::Wire, text)));
        };
        let (message, value) = without_incumbent(message).map_err(|e| self.here(e))?;
        if let Some(version) = incumbent.merge(&value).map_err(|e| self.here(e))? {
            self.known[message.from] = version;
        }
        Ok(Some(message).filter(|message| !message.is(Tag::Incumbent)))
    }

    #[inline]
    pub(super) fn has_improved(&self) -> bool {
        self.incumbent.as_ref().is_some_and(|incumbent| incumbent.version() != self.spread)
    }

    /// Sends the improved incumbent to `ranks` in messages that carry only the incumbent, except to ranks that know the value. Nothing is sent if the
    /// last such messages were sent a short time ago. Ranks not in `ranks` receive the value with their next chunk. Returns true if a message was
    /// sent.
    ///
    /// # Errors
    /// Errors of the encoding and of the transport.
    pub(super) fn send_round(
        &mut self,
        ranks: impl Iterator<Item = usize>,
        now: Duration,
        out: &mut Outgoing<'_>,
    ) -> Result<bool> {
        let Some(incumbent) = self.incumbent.as_ref().filter(|_| now >= self.next_round) else {
            return Ok(false);
        };
        // A value that improves while messages are sent has a later version, and is sent by a later call.
        self.spread = incumbent.version();
        let mut sent = 0;
        for to in ranks {
            if self.known[to] >= self.spread {
                continue;
            }
            let frame = self.add(to, Frame::new(frame_header(out.run(), Tag::Incumbent).to_vec()))?;
            out.send(to, frame)?;
            sent += 1;
        }
        if sent > 0 {
            self.next_round = now + INTERVAL.max(INTERVAL_PER_RANK * sent);
        }
        Ok(sent > 0)
    }

    /// Causes the incumbent's current value to be sent again. Called when this rank gets its chunks from another rank, which may not know the value.
    pub(super) fn repeat_round(&mut self) {
        self.spread = 0;
    }

    fn here(&self, error: Error) -> Error {
        Error::new(error.kind(), format!("{} (in the incumbent)", error.message())).in_farm(&self.farm)
    }
}
