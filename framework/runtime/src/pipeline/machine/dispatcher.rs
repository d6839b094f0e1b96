//! Dispatcher: assigns batches to the ranks (replicas of a group of consecutive stages) that have requested batches.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::sequence_number::SequenceNumber;

/// Factor for a rank that holds a finished batch and also runs the next stage: it keeps the batch, if it would finish it within this factor times the
/// time of the fastest receiver, because sending costs time. A larger factor would leave faster receivers idle.
const KEEP: f64 = 2.0;
/// Number of standard deviations added to the expected time of a batch near the end of the stream, because all ranks wait for a batch that takes
/// longer than most.
const SURE: f64 = 2.0;
/// Upper limit of the assumed standard deviation of an item's time, as a fraction of the mean. If a few items take very long, it cannot be predicted
/// which ones.
const MOST_SPREAD: f64 = 1.0;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) sender: usize,
    pub(crate) number: SequenceNumber,
    pub(crate) receiver: usize,
}

/// Finished batch for which its sender needs a receiver that runs the next stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offered {
    pub(crate) sender: usize,
    pub(crate) items: u32,
    /// Number of source items that follow this batch, if it is known.
    pub(crate) behind: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ItemTime {
    pub(crate) mean: u64,
    /// Standard deviation of the service time over items; 0 if it is unknown.
    pub(crate) deviation: u64,
}

/// Dispatcher between two groups of consecutive stages: matches the finished batches that senders offer with the requests of receivers.
///
/// A batch is assigned to the receiver that is likely to finish it first. Near the end of the stream, a request may remain unsatisfied, if the slow
/// receiver would still process the batch when the others have finished all remaining batches.
#[derive(Debug, Default)]
pub(crate) struct Dispatcher {
    /// Offered batches by sequence number. The oldest batch is assigned first, which keeps the queues of batches that wait for an older one short.
    offers: BTreeMap<SequenceNumber, Offered>,
    receivers: BTreeMap<usize, Receiver>,
}

#[derive(Debug, Default)]
struct Receiver {
    open: usize,
    /// Number of items in each batch that was assigned to the receiver and, as far as the dispatcher knows, not started.
    waiting: VecDeque<u32>,
    /// Number of items in the batch that the receiver was processing when it sent its last request.
    working: u32,
    /// Seconds per item, including other work that the receiver does between items; `None` until the receiver has finished an item.
    service_time: Option<f64>,
    /// Standard deviation of the receiver's time per item, as a fraction of the mean; `None` until it is known.
    spread: Option<f64>,
}

impl Receiver {
    /// Returns the number of items in all assigned batches that the receiver has not started, plus half of the items in its current batch.
    fn backlog(&self) -> f64 {
        self.waiting.iter().map(|&items| f64::from(items)).sum::<f64>() + 0.5 * f64::from(self.working)
    }
}

impl Dispatcher {
    pub(crate) fn offer(&mut self, number: SequenceNumber, offered: Offered) {
        self.offers.insert(number, offered);
    }

    /// Records that `receiver` requests `batches` batches, in addition to `held` batches that it requested before and has not started. `time` is the
    /// service time of the receiver per item.
    pub(crate) fn request(&mut self, receiver: usize, batches: usize, held: usize, time: ItemTime) {
        let entry = self.receivers.entry(receiver).or_default();
        // Number of batches that were assigned to the receiver and that it has not started; `held` also counts its requests without an assigned
        // batch.
        let given = held.saturating_sub(entry.open);
        while entry.waiting.len() > given
            && let Some(items) = entry.waiting.pop_front()
        {
            entry.working = items;
        }
        entry.open += batches;
        let [mean, deviation] =
            [time.mean, time.deviation].map(|nanos| Duration::from_nanos(nanos).as_secs_f64());
        if mean > 0.0 {
            entry.service_time = Some(mean);
            entry.spread = Some(deviation / mean).filter(|spread| *spread > 0.0).or(entry.spread);
        }
    }

    /// Returns the next assignment of a batch to a receiver, if a batch is offered and a receiver that requested one should get it. The sender itself
    /// takes precedence over receivers that would finish the batch earlier, if it has no other batch waiting and would not finish much later, because
    /// nothing has to be sent.
    pub(crate) fn decide(&mut self) -> Option<Assignment> {
        let (_, &offered) = self.offers.first_key_value()?;
        let usual = self.usual_pace();
        let finish = |receiver: &Receiver| {
            (receiver.backlog() + f64::from(offered.items)) * receiver.service_time.unwrap_or(usual)
        };
        // Rank of the receiver that would finish the batch first, whether or not it has requested a batch.
        let (&first, _) = self.receivers.iter().min_by(|(_, a), (_, b)| finish(a).total_cmp(&finish(b)))?;
        let requested = self.receivers.iter().filter(|(_, r)| r.open > 0);
        let spread = self.usual_spread();
        let surely = |receiver: &Receiver| {
            let items = receiver.backlog() + f64::from(offered.items);
            (items + SURE * spread * items.sqrt()) * receiver.service_time.unwrap_or(usual)
        };
        let useful = requested
            .filter(|(rank, r)| **rank == first || !self.others_are_done(**rank, surely(r), offered, usual));
        let soon = KEEP * finish(self.receivers.get(&first)?);
        let (&receiver, _) = useful.min_by(|(a, first), (b, second)| {
            let keeps = |r: &Receiver| r.waiting.is_empty() && finish(r) <= soon;
            let sent = |rank: usize, r: &Receiver| rank != offered.sender || !keeps(r);
            sent(**a, first).cmp(&sent(**b, second)).then(finish(first).total_cmp(&finish(second)))
        })?;
        let (number, _) = self.offers.pop_first()?;
        let entry = self.receivers.get_mut(&receiver)?;
        entry.open -= 1;
        entry.waiting.push_back(offered.items);
        Some(Assignment { sender: offered.sender, number, receiver })
    }

    /// Returns true if all receivers but `receiver` are expected to finish the offered batch and all batches that follow it within `by` seconds.
    fn others_are_done(&self, receiver: usize, by: f64, offered: Offered, usual: f64) -> bool {
        let Some(behind) = offered.behind else { return false };
        let left = behind as f64 + f64::from(offered.items);
        let batch = f64::from(offered.items.max(1));
        let others = self.receivers.iter().filter(|(rank, _)| **rank != receiver);
        let done = others.map(|(_, other)| {
            let items = by / other.service_time.unwrap_or(usual) - other.backlog();
            ((items / batch).ceil() - 1.0).max(0.0) * batch
        });
        done.sum::<f64>() >= left
    }

    /// Returns the seconds per item that are assumed for a receiver that has not finished any item: the mean of the other receivers.
    fn usual_pace(&self) -> f64 {
        mean(self.receivers.values().filter_map(|r| r.service_time)).unwrap_or(1.0)
    }

    /// Returns the mean of the receivers' standard deviations, as a fraction of their times per item. It is used for all receivers, because a slow
    /// receiver has processed too few items for an estimate of its own.
    fn usual_spread(&self) -> f64 {
        mean(self.receivers.values().filter_map(|r| r.spread)).unwrap_or(0.0).min(MOST_SPREAD)
    }

    pub(crate) fn open(&self) -> (usize, usize) {
        (self.offers.len(), self.receivers.values().map(|r| r.open).sum())
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even(mean: u64) -> ItemTime {
        ItemTime { mean, deviation: 0 }
    }

    fn offered(sender: usize) -> Offered {
        Offered { sender, items: 1, behind: None }
    }

    #[test]
    fn oldest_batch_is_dispatched_first() {
        let mut dispatcher = Dispatcher::default();
        dispatcher.offer(2.into(), offered(7));
        dispatcher.offer(1.into(), offered(8));
        assert_eq!(dispatcher.decide(), None);
        dispatcher.request(4, 1, 0, even(0));
        dispatcher.request(5, 2, 0, even(0));
        assert_eq!(dispatcher.decide(), Some(Assignment { sender: 8, number: 1.into(), receiver: 4 }));
        assert_eq!(dispatcher.decide(), Some(Assignment { sender: 7, number: 2.into(), receiver: 5 }));
        assert_eq!(dispatcher.decide(), None);
        assert_eq!(dispatcher.open(), (0, 1));
    }

    #[test]
    fn requesting_sender_keeps_its_batch() {
        let mut dispatcher = Dispatcher::default();
        dispatcher.request(4, 1, 0, even(100));
        dispatcher.request(7, 1, 0, even(200));
        dispatcher.offer(0.into(), offered(7));
        assert_eq!(dispatcher.decide(), Some(Assignment { sender: 7, number: 0.into(), receiver: 7 }));
    }

    #[test]
    fn earliest_finisher_is_preferred_to_earliest_requester() {
        let mut dispatcher = Dispatcher::default();
        dispatcher.request(4, 2, 0, even(1000));
        dispatcher.request(5, 2, 0, even(400));
        let receivers: Vec<usize> = (0..4)
            .map(|number| {
                dispatcher.offer(number.into(), offered(9));
                dispatcher.decide().unwrap().receiver
            })
            .collect();
        // Batches of one item: rank 5, with 400 ns per item, would finish its first two batches after 400 ns and 800 ns; rank 4, with 1,000 ns per
        // item, after 1,000 ns and 2,000 ns.
        assert_eq!(receivers, [5, 5, 4, 4]);
    }

    #[test]
    fn slow_receiver_gets_no_batch_near_the_end() {
        let behind = |number: u64| Some(9 - number);
        let mut dispatcher = Dispatcher::default();
        dispatcher.request(4, 1, 0, even(8000));
        dispatcher.request(5, 1, 0, even(1000));
        let mut receivers = Vec::new();
        for number in 0..10 {
            dispatcher.offer(number.into(), Offered { sender: 9, items: 1, behind: behind(number) });
        }
        for _ in 0..10 {
            while let Some(a) = dispatcher.decide() {
                receivers.push(a.receiver);
            }
            dispatcher.request(5, 1, 0, even(1000));
        }
        // Rank 5 takes 10 µs for all ten items of the stream, and rank 4 takes 8 µs for one. Therefore rank 4 gets only one item: when it requests
        // another, rank 5 can finish the remaining items, seven or fewer, before rank 4 would finish one.
        assert_eq!(receivers.iter().filter(|&&r| r == 4).count(), 1, "{receivers:?}");
        assert_eq!(receivers.len(), 10);
        let mut dispatcher = Dispatcher::default();
        dispatcher.request(4, 1, 0, even(8000));
        dispatcher.request(5, 1, 0, even(1000));
        dispatcher.offer(0.into(), Offered { sender: 9, items: 1, behind: Some(1) });
        dispatcher.offer(1.into(), Offered { sender: 9, items: 1, behind: Some(0) });
        assert_eq!(dispatcher.decide().map(|a| a.receiver), Some(5));
        assert_eq!(dispatcher.decide(), None, "the second one waits for rank 5, too");
        dispatcher.request(5, 1, 0, even(1000));
        assert_eq!(dispatcher.decide().map(|a| a.receiver), Some(5));
    }

    #[test]
    fn variable_receiver_gets_no_batch_near_the_end() {
        // On average, rank 5 processes eight items in the time in which rank 4 processes one.
        let given = |deviation: u64, behind: u64| {
            let mut dispatcher = Dispatcher::default();
            dispatcher.request(4, 1, 0, ItemTime { mean: 8000, deviation: 8 * deviation });
            dispatcher.request(5, 0, 0, ItemTime { mean: 1000, deviation });
            dispatcher.offer(0.into(), Offered { sender: 9, items: 1, behind: Some(behind) });
            dispatcher.decide().is_some()
        };
        assert_eq!([5, 7, 14, 16].map(|behind| given(0, behind)), [false, true, true, true]);
        // If the standard deviation is half of the mean, rank 4 may take twice as long as usual for an item, while rank 5 processes fifteen.
        assert_eq!([5, 7, 14, 16].map(|behind| given(500, behind)), [false, false, false, true]);
    }

    #[test]
    fn single_requester_gets_all_batches() {
        let mut dispatcher = Dispatcher::default();
        dispatcher.request(4, 2, 0, even(8000));
        dispatcher.offer(0.into(), Offered { sender: 9, items: 3, behind: Some(0) });
        assert_eq!(dispatcher.decide().map(|a| a.receiver), Some(4));
    }
}
