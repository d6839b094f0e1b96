//! Where batches wait in front of a block or the sink, the oldest first.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::batch::Batch;
use super::sequence_number::SequenceNumber;
use super::service_time::ServiceTime;

/// Batches that have arrived over one edge and are not yet being worked on.
///
/// The oldest is given out first. Where order matters it is also the resequencer: the machine takes the oldest only
/// when it is its turn. What an input queue holds is bounded by the source's window.
#[derive(Debug, Default)]
pub(crate) struct InputQueue {
    waiting: BTreeMap<SequenceNumber, Batch>,
    /// Bytes of these.
    bytes: u64,
    most: usize,
    /// Batches asked for and not yet delivered (pull only).
    pub(crate) asked: usize,
    /// How fast this rank is at what comes in here.
    pub(super) service_time: ServiceTime,
    /// Batches that wait for an older one, as was reported to rank 0 last.
    pub(super) out_of_order_reported: usize,
}

impl InputQueue {
    /// Takes a batch in. Returns false for one that is here already, which cannot happen unless a rank is out of
    /// step.
    #[must_use]
    pub(crate) fn put(&mut self, batch: Batch) -> bool {
        self.asked = self.asked.saturating_sub(1);
        let bytes = batch.widest;
        match self.waiting.entry(batch.number.clone()) {
            Entry::Occupied(_) => return false,
            Entry::Vacant(place) => place.insert(batch),
        };
        self.bytes += bytes;
        self.most = self.most.max(self.waiting.len());
        true
    }

    /// The oldest batch.
    pub(crate) fn first(&self) -> Option<&Batch> {
        self.waiting.first_key_value().map(|(_, batch)| batch)
    }

    /// Gives the oldest batch out.
    pub(crate) fn take(&mut self) -> Option<Batch> {
        let (_, batch) = self.waiting.pop_first()?;
        self.bytes -= batch.widest;
        Some(batch)
    }

    /// Gives out all batches, and forgets what was asked for.
    pub(crate) fn clear(&mut self) -> impl Iterator<Item = Batch> + use<> {
        (self.asked, self.bytes) = (0, 0);
        std::mem::take(&mut self.waiting).into_values()
    }

    /// Bytes of the batches here now, each at its widest edge so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Batches here now, and the most there have been.
    pub(crate) fn queued(&self) -> (usize, usize) {
        (self.waiting.len(), self.most)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::range::Range;
    use super::super::batch::Payload;
    use super::*;

    fn batch(number: u64) -> Batch {
        let payload = Payload::Items(Box::new(Vec::<u8>::new()));
        Batch {
            number: number.into(),
            pieces: Vec::new(),
            is_end: false,
            stage: 0,
            range: Range::default(),
            service: Duration::ZERO,
            widest: 10 * number,
            behind: None,
            payload,
        }
    }

    #[test]
    fn the_oldest_comes_out_first() {
        let mut input = InputQueue { asked: 2, ..InputQueue::default() };
        for n in [7, 6, 9] {
            assert!(input.put(batch(n)));
        }
        assert_eq!((input.asked, input.queued(), input.bytes()), (0, (3, 3), 220));
        assert_eq!(input.first().map(|p| p.number.batch), Some(6));
        assert_eq!(input.take().map(|p| p.number.batch), Some(6));
        assert_eq!(input.bytes(), 160);
        assert!(input.put(batch(5)));
        assert_eq!(input.clear().map(|p| p.number.batch).collect::<Vec<_>>(), [5, 7, 9]);
        assert_eq!((input.take().is_none(), input.queued(), input.bytes()), (true, (0, 3), 0));
    }

    #[test]
    fn a_batch_that_comes_twice_is_noticed() {
        let mut input = InputQueue::default();
        assert!(input.put(batch(1)) && !input.put(batch(1)));
    }
}
