//! Brings batches and free replicas together.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::sequence_number::SequenceNumber;

/// A sender keeps a batch if it finishes it within this multiple of the time that the best other receiver needs: sending costs
/// something, and idle receivers more.
const KEEP: f64 = 2.0;
/// Near the end, a batch is taken to need this number of standard deviations more than batches need in the mean: that it
/// takes longer than most is what would make everybody wait.
const SURE: f64 = 2.0;
/// Items are not taken to differ by more than this part of their mean: where a few are very long, it cannot be foreseen which.
const MOST_SPREAD: f64 = 1.0;

/// A decision: `sender` gives batch `number` to `receiver`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    pub(crate) sender: usize,
    pub(crate) number: SequenceNumber,
    pub(crate) receiver: usize,
}

/// A batch that a sender holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offered {
    pub(crate) sender: usize,
    pub(crate) items: u32,
    /// Items of the stream that come behind this batch, if the source knew.
    pub(crate) behind: Option<u64>,
}

/// How long items keep a receiver busy, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ItemTime {
    /// 0 if it is not known yet.
    pub(crate) mean: u64,
    /// From item to item; 0 if it is not known yet.
    pub(crate) deviation: u64,
}

/// Who gets what on one edge on which receivers pull: batches that are offered, and receivers that have asked.
///
/// A batch goes to the receiver that is likely to finish it first. One that has asked may yet get none: where the end of the
/// stream is near, a slow receiver would still be at its batch when all the others have finished everything else.
#[derive(Debug, Default)]
pub(crate) struct Dispatcher {
    /// Batches that senders hold, by number: the oldest goes first, which keeps the resequencer short.
    offers: BTreeMap<SequenceNumber, Offered>,
    /// Receivers that have asked at least once.
    receivers: BTreeMap<usize, Receiver>,
}

/// What is known of one receiver.
#[derive(Debug, Default)]
struct Receiver {
    /// Batches asked for and not yet given.
    open: usize,
    /// Items of each batch that was given and that it has not begun yet, as far as is known.
    waiting: VecDeque<u32>,
    /// Items of the batch that it was at when it asked last.
    working: u32,
    /// Seconds that an item keeps it busy, whatever else it does in between; `None` before it has done one.
    service_time: Option<f64>,
    /// The standard deviation of that, as a part of it; `None` before it is known.
    spread: Option<f64>,
}

impl Receiver {
    /// Items that it has to do before another one, and half of what it is at.
    fn backlog(&self) -> f64 {
        self.waiting.iter().map(|&items| f64::from(items)).sum::<f64>() + 0.5 * f64::from(self.working)
    }
}

impl Dispatcher {
    /// A sender has batch `number` to give.
    pub(crate) fn offer(&mut self, number: SequenceNumber, offered: Offered) {
        self.offers.insert(number, offered);
    }

    /// `receiver` has room for `batches` more, beside `held` that it has asked for before and not begun. An item keeps
    /// it busy for `time`.
    pub(crate) fn request(&mut self, receiver: usize, batches: usize, held: usize, time: ItemTime) {
        let entry = self.receivers.entry(receiver).or_default();
        // What it has asked for and not been given has not been begun either.
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

    /// The next decision, if there is an offer and somebody who asked and should have it. A receiver that is the sender
    /// itself, has no other batch waiting and is not much later comes before those that finish earlier: nothing has to be sent.
    pub(crate) fn decide(&mut self) -> Option<Assignment> {
        let (_, &offered) = self.offers.first_key_value()?;
        let usual = self.usual_pace();
        let finish = |receiver: &Receiver| {
            (receiver.backlog() + f64::from(offered.items)) * receiver.service_time.unwrap_or(usual)
        };
        // It gets the batch now, or else it has its hands full and will ask again.
        let (&first, _) = self.receivers.iter().min_by(|(_, a), (_, b)| finish(a).total_cmp(&finish(b)))?;
        let asked = self.receivers.iter().filter(|(_, r)| r.open > 0);
        let spread = self.usual_spread();
        let surely = |receiver: &Receiver| {
            let items = receiver.backlog() + f64::from(offered.items);
            (items + SURE * spread * items.sqrt()) * receiver.service_time.unwrap_or(usual)
        };
        let useful = asked
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

    /// Whether the other receivers will have done this batch and all that come behind it before `by`, in seconds from
    /// now.
    fn others_are_done(&self, receiver: usize, by: f64, offered: Offered, usual: f64) -> bool {
        let Some(behind) = offered.behind else { return false };
        let left = behind as f64 + f64::from(offered.items);
        let batch = f64::from(offered.items.max(1));
        let others = self.receivers.iter().filter(|(rank, _)| **rank != receiver);
        let done = others.map(|(_, other)| {
            // Whole batches that are finished before then.
            let items = by / other.service_time.unwrap_or(usual) - other.backlog();
            ((items / batch).ceil() - 1.0).max(0.0) * batch
        });
        done.sum::<f64>() >= left
    }

    /// What stands in for the pace of a receiver that has not done anything yet.
    fn usual_pace(&self) -> f64 {
        mean(self.receivers.values().filter_map(|r| r.service_time)).unwrap_or(1.0)
    }

    /// How much items differ, as a part of what they take: the same on all receivers, but slow ones have seen few.
    fn usual_spread(&self) -> f64 {
        mean(self.receivers.values().filter_map(|r| r.spread)).unwrap_or(0.0).min(MOST_SPREAD)
    }

    /// Offers without a request, and requests without an offer.
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

    /// Items that all take `mean` nanoseconds.
    fn even(mean: u64) -> ItemTime {
        ItemTime { mean, deviation: 0 }
    }

    fn offered(sender: usize) -> Offered {
        Offered { sender, items: 1, behind: None }
    }

    #[test]
    fn the_oldest_batch_goes_first() {
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
    fn a_sender_that_asked_keeps_its_batch() {
        let mut dispatcher = Dispatcher::default();
        dispatcher.request(4, 1, 0, even(100));
        dispatcher.request(7, 1, 0, even(200));
        dispatcher.offer(0.into(), offered(7));
        assert_eq!(dispatcher.decide(), Some(Assignment { sender: 7, number: 0.into(), receiver: 7 }));
    }

    #[test]
    fn who_finishes_first_gets_a_batch_before_who_asked_first() {
        let mut dispatcher = Dispatcher::default();
        dispatcher.request(4, 2, 0, even(1000));
        dispatcher.request(5, 2, 0, even(400));
        let receivers: Vec<usize> = (0..4)
            .map(|number| {
                dispatcher.offer(number.into(), offered(9));
                dispatcher.decide().unwrap().receiver
            })
            .collect();
        // After 400 ns and 800 ns on rank 5, or after 1000 ns and 2000 ns on rank 4.
        assert_eq!(receivers, [5, 5, 4, 4]);
    }

    #[test]
    fn near_the_end_nothing_goes_to_who_would_finish_last() {
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
        // Rank 5 alone takes 10 µs, rank 4 eight for one. When rank 4 asks again, seven are left, or fewer.
        assert_eq!(receivers.iter().filter(|&&r| r == 4).count(), 1, "{receivers:?}");
        assert_eq!(receivers.len(), 10);
        let mut late = Dispatcher::default();
        late.request(4, 1, 0, even(8000));
        late.request(5, 1, 0, even(1000));
        late.offer(0.into(), Offered { sender: 9, items: 1, behind: Some(1) });
        late.offer(1.into(), Offered { sender: 9, items: 1, behind: Some(0) });
        assert_eq!(late.decide().map(|a| a.receiver), Some(5));
        assert_eq!(late.decide(), None, "the second one waits for rank 5, too");
        late.request(5, 1, 0, even(1000));
        assert_eq!(late.decide().map(|a| a.receiver), Some(5));
    }

    #[test]
    fn near_the_end_nothing_goes_to_who_may_take_much_longer_than_usual() {
        // Rank 5 does eight items while rank 4 does one.
        let given = |deviation: u64, behind: u64| {
            let mut dispatcher = Dispatcher::default();
            dispatcher.request(4, 1, 0, ItemTime { mean: 8000, deviation: 8 * deviation });
            dispatcher.request(5, 0, 0, ItemTime { mean: 1000, deviation });
            dispatcher.offer(0.into(), Offered { sender: 9, items: 1, behind: Some(behind) });
            dispatcher.decide().is_some()
        };
        assert_eq!([5, 7, 14, 16].map(|behind| given(0, behind)), [false, true, true, true]);
        // An item that takes twice as long as usual would still be on rank 4 when rank 5 has done fifteen.
        assert_eq!([5, 7, 14, 16].map(|behind| given(500, behind)), [false, false, false, true]);
    }

    #[test]
    fn who_has_asked_alone_gets_everything() {
        let mut dispatcher = Dispatcher::default();
        dispatcher.request(4, 2, 0, even(8000));
        dispatcher.offer(0.into(), Offered { sender: 9, items: 3, behind: Some(0) });
        assert_eq!(dispatcher.decide().map(|a| a.receiver), Some(4));
    }
}
