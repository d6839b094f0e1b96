//! Brings batches and free replicas together.

use std::collections::{BTreeMap, VecDeque};

/// A decision: `sender` gives batch `number` to `receiver`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) sender: usize,
    pub(crate) number: u64,
    pub(crate) receiver: usize,
}

/// The book of one edge on which receivers pull: what there is to give, and who has asked.
#[derive(Debug, Default)]
pub(crate) struct Broker {
    /// Batches that senders hold, by number: the oldest goes first, which keeps the resequencer short.
    offers: BTreeMap<u64, usize>,
    /// Receivers in the order in which they asked, once per batch asked for.
    requests: VecDeque<usize>,
}

impl Broker {
    /// `sender` has batch `number` to give.
    pub(crate) fn offer(&mut self, sender: usize, number: u64) {
        self.offers.insert(number, sender);
    }

    /// `receiver` has room for `batches` more.
    pub(crate) fn request(&mut self, receiver: usize, batches: usize) {
        self.requests.extend(std::iter::repeat_n(receiver, batches));
    }

    /// The next decision, if there is both an offer and a request. A receiver that is the sender itself comes
    /// before those that asked earlier: nothing has to be sent.
    pub(crate) fn decide(&mut self) -> Option<Assignment> {
        if self.requests.is_empty() {
            return None;
        }
        let (number, sender) = self.offers.pop_first()?;
        let at = self.requests.iter().position(|&r| r == sender).unwrap_or(0);
        let receiver = self.requests.remove(at)?;
        Some(Assignment { sender, number, receiver })
    }

    /// Offers without a request, and requests without an offer.
    pub(crate) fn open(&self) -> (usize, usize) {
        (self.offers.len(), self.requests.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_batch_goes_to_who_asked_first() {
        let mut broker = Broker::default();
        broker.offer(7, 2);
        broker.offer(8, 1);
        assert_eq!(broker.decide(), None);
        broker.request(4, 1);
        broker.request(5, 2);
        assert_eq!(broker.decide(), Some(Assignment { sender: 8, number: 1, receiver: 4 }));
        assert_eq!(broker.decide(), Some(Assignment { sender: 7, number: 2, receiver: 5 }));
        assert_eq!(broker.decide(), None);
        assert_eq!(broker.open(), (0, 1));
    }

    #[test]
    fn a_sender_that_asked_keeps_its_batch() {
        let mut broker = Broker::default();
        broker.request(4, 1);
        broker.request(7, 1);
        broker.offer(7, 0);
        assert_eq!(broker.decide(), Some(Assignment { sender: 7, number: 0, receiver: 7 }));
    }
}
