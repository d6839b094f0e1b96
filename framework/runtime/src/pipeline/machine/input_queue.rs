//! Queue of batches that wait, on one rank, for a group of consecutive stages or the sink, ordered by sequence number.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::batch::Batch;
use super::dispatcher::ItemTime;
use super::sequence_number::SequenceNumber;
use super::service_time::ServiceTime;

/// Batches that have arrived on this rank for a group of consecutive stages or the sink, and have not been started.
///
/// The oldest batch is taken first. If order matters, the queue is also the buffer of the resequencer: the rank takes the oldest batch only when
/// all earlier batches have been processed. The window (limit of the batches in flight) limits the size of the queue.
#[derive(Debug, Default)]
pub(crate) struct InputQueue {
    waiting: BTreeMap<SequenceNumber, Batch>,
    /// Total size of the waiting batches in bytes. Each batch counts with the largest size that it has had between two groups of consecutive stages.
    bytes: u64,
    most: usize,
    /// Number of batches that this rank has requested and that have not arrived, if receivers request batches.
    pub(crate) requested: usize,
    pub(super) service_time: ServiceTime,
    /// Number of batches that waited for an older one at the last report to rank 0.
    out_of_order_reported: usize,
}

impl InputQueue {
    /// Adds a batch to the queue. Returns false if the batch is in the queue already, which happens only if a rank violates the protocol.
    #[must_use]
    pub(crate) fn store(&mut self, batch: Batch) -> bool {
        self.requested = self.requested.saturating_sub(1);
        let bytes = batch.widest;
        match self.waiting.entry(batch.number.clone()) {
            Entry::Occupied(_) => return false,
            Entry::Vacant(place) => place.insert(batch),
        };
        self.bytes += bytes;
        self.most = self.most.max(self.waiting.len());
        true
    }

    pub(crate) fn first(&self) -> Option<&Batch> {
        self.waiting.first_key_value().map(|(_, batch)| batch)
    }

    pub(crate) fn take(&mut self) -> Option<Batch> {
        let (_, batch) = self.waiting.pop_first()?;
        self.bytes -= batch.widest;
        Some(batch)
    }

    pub(crate) fn clear(&mut self) -> impl Iterator<Item = Batch> + use<> {
        (self.requested, self.bytes) = (0, 0);
        std::mem::take(&mut self.waiting).into_values()
    }

    /// Requests batches until this rank holds or has requested `ahead` batches (fewer if a batch takes long). Returns the number of newly requested
    /// batches, the number of those held or requested before, and the rank's service time.
    pub(super) fn request(&mut self, ahead: usize) -> Option<(usize, usize, ItemTime)> {
        let held = self.requested + self.waiting.len();
        // A rank that takes long for a batch requests fewer batches in advance: another rank could process a batch that waits behind a long one.
        let ahead = match &self.service_time {
            service_time if service_time.is_at_first() => 0,
            service_time if service_time.is_short() => ahead,
            _ => usize::max(ahead - 1, 1),
        };
        let wanted = ahead.checked_sub(held).filter(|&wanted| wanted > 0)?;
        self.requested += wanted;
        let time = ItemTime { mean: self.service_time.nanos(), deviation: self.service_time.deviation() };
        Some((wanted, held, time))
    }

    /// Returns the number of batches that wait for an older one, and their size in bytes, for the report to rank 0; zero if `is_next` is true,
    /// because the first batch can then be processed. `None` if the number has changed by less than `step` since the last report.
    pub(super) fn out_of_order(&mut self, is_next: bool, step: usize) -> Option<(usize, u64)> {
        let (count, bytes) = if is_next { (0, 0) } else { (self.waiting.len(), self.bytes) };
        let reported = self.out_of_order_reported;
        if count.abs_diff(reported) < step && (count > 0 || reported == 0) {
            return None;
        }
        self.out_of_order_reported = count;
        Some((count, bytes))
    }

    pub(crate) fn queued(&self) -> (usize, usize) {
        (self.waiting.len(), self.most)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::super::range::Range;
    use super::super::batch::{BatchKind, Payload};
    use super::*;

    fn batch(number: u64) -> Batch {
        let payload = Payload::Items(Box::new(Vec::<u8>::new()));
        Batch {
            number: number.into(),
            pieces: Vec::new(),
            kind: BatchKind::Items,
            stage: 0,
            range: Range::default(),
            service: Duration::ZERO,
            widest: 10 * number,
            behind: None,
            payload,
        }
    }

    #[test]
    fn oldest_batch_is_taken_first() {
        let mut input = InputQueue { requested: 2, ..InputQueue::default() };
        for n in [7, 6, 9] {
            assert!(input.store(batch(n)));
        }
        assert_eq!((input.requested, input.queued(), input.bytes), (0, (3, 3), 220));
        assert_eq!(input.first().map(|p| p.number.batch), Some(6));
        assert_eq!(input.take().map(|p| p.number.batch), Some(6));
        assert_eq!(input.bytes, 160);
        assert!(input.store(batch(5)));
        assert_eq!(input.clear().map(|p| p.number.batch).collect::<Vec<_>>(), [5, 7, 9]);
        assert_eq!((input.take().is_none(), input.queued(), input.bytes), (true, (0, 3), 0));
    }

    #[test]
    fn duplicate_batch_is_detected() {
        let mut input = InputQueue::default();
        assert!(input.store(batch(1)) && !input.store(batch(1)));
    }
}
