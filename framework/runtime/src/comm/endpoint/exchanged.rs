//! Counts of the messages that a rank has sent and received, and of the sent bytes.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

#[derive(Debug)]
pub(super) struct Exchanged {
    pub(super) sent: Vec<Sent>,
    /// Total number of sent and received messages.
    pub(super) messages: u64,
}

impl Exchanged {
    pub(super) fn new(ranks: usize) -> Self {
        Exchanged { sent: vec![Sent::default(); ranks], messages: 0 }
    }

    #[inline]
    pub(super) fn leaves(&mut self, to: usize, bytes: usize) {
        let Some(sent) = self.sent.get_mut(to) else { return };
        sent.messages += 1;
        sent.bytes += bytes as u64;
        self.messages += 1;
    }
}
