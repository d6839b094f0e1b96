//! What a rank has sent and received, by number: the log of events pairs a message's two ends by it.

/// What was sent to a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// A message that has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    pub(crate) to: usize,
    /// Which of the messages to there it is, from 0: the receiver counts those from here alike.
    pub(crate) number: u64,
}

/// Messages by rank.
#[derive(Debug)]
pub(super) struct Exchanged {
    pub(super) sent: Vec<Sent>,
    received: Vec<u64>,
    /// Those that have left since somebody asked, if anybody does.
    pub(super) departures: Option<Vec<Departure>>,
}

impl Exchanged {
    pub(super) fn new(ranks: usize) -> Self {
        Exchanged { sent: vec![Sent::default(); ranks], received: vec![0; ranks], departures: None }
    }

    /// A message of this size, in bytes, leaves.
    #[inline]
    pub(super) fn leaves(&mut self, to: usize, bytes: usize) {
        let Some(sent) = self.sent.get_mut(to) else { return };
        if let Some(departures) = &mut self.departures {
            departures.push(Departure { to, number: sent.messages });
        }
        sent.messages += 1;
        sent.bytes += bytes as u64;
    }

    /// A message has come. Returns its number.
    #[inline]
    pub(super) fn comes(&mut self, from: usize) -> u64 {
        let Some(received) = self.received.get_mut(from) else { return 0 };
        *received += 1;
        *received - 1
    }
}
