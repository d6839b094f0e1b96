//! What a rank has counted: the service times of its stages, and what it waited for.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::machine::Traffic;

/// Counters of one stage on one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageStats {
    /// Items that came in.
    pub items: u64,
    /// Items that the stage dropped, or of which it made none.
    pub dropped: u64,
    /// Items that came out.
    pub made: u64,
    /// Batches that came in.
    pub batches: u64,
    /// Items in batches whose time was taken.
    pub timed_items: u64,
    /// Time of those batches.
    pub timed: Duration,
    /// Estimated time of the other batches: the mean time of timed items, limited by the time in which they ran.
    pub untimed: Duration,
    /// The part of that time in which the rank was ready to compute and others had its core.
    pub lost: Duration,
    /// Time that the stage's factory took on this rank.
    pub warm_up: Duration,
    /// Most batches that waited in front of the stage's block.
    pub longest_queue: usize,
}

impl StageStats {
    /// Service time of one item, as far as it was measured.
    pub fn service(&self) -> Option<Duration> {
        (self.timed_items > 0)
            .then(|| Duration::from_secs_f64(self.timed.as_secs_f64() / self.timed_items as f64))
    }

    /// Time that the rank has spent in this stage.
    pub fn busy(&self) -> Duration {
        self.timed + self.untimed
    }
}

/// What one rank reports at the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// By stage; stages that never ran here have no items.
    pub stages: Vec<StageStats>,
    /// Time without work because nothing had arrived.
    pub waiting_input: Duration,
    /// Time without work because nobody had asked for what was finished, or (rank 0) because as much was in
    /// flight as may be.
    pub waiting_downstream: Duration,
    /// Bytes of batches sent to other ranks.
    pub sent_bytes: u64,
    /// Bytes of batches received from other ranks.
    pub received_bytes: u64,
    /// Batches sent to other ranks.
    pub sent_batches: u64,
    /// Batches received from other ranks.
    pub received_batches: u64,
    /// Batches that came here, or waited here, under a mapping that was over, and were sent on.
    pub forwarded: u64,
    /// Serial stages that were handed over to another rank.
    pub handed_over: u64,
    /// Mappings that came while a serial stage was being handed over.
    pub overtaken: u64,
    /// On rank 0, time in the source and in the sink.
    pub source_and_sink: Duration,
}

impl RankReport {
    /// Time that the rank has spent in its stages, and on rank 0 in the source and in the sink.
    pub fn busy(&self) -> Duration {
        self.stages.iter().map(StageStats::busy).sum::<Duration>() + self.source_and_sink
    }

    pub(crate) fn add_traffic(&mut self, t: Traffic) {
        self.sent_batches += t.sent_batches;
        self.sent_bytes += t.sent_bytes;
        self.received_batches += t.received_batches;
        self.received_bytes += t.received_bytes;
        self.forwarded += t.forwarded;
        self.handed_over += t.handed_over;
        self.overtaken += t.overtaken;
    }
}

/// Decides which batches are timed. Reading a clock twice costs about as much as a few tiny items, so batches
/// that turned out to be short are timed now and then only.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sampler {
    /// Batches until the next one that is timed.
    skip: u8,
    /// Batches skipped before the last timed one. It starts small, because the first batch often takes longer than later ones.
    between: u8,
}

impl Sampler {
    /// Whether to time the next batch.
    #[inline]
    pub(crate) fn due(&mut self) -> bool {
        match self.skip {
            0 => true,
            _ => {
                self.skip -= 1;
                false
            }
        }
    }

    /// A timed batch took so long; of one that went through several stages, each of them in the mean.
    pub(crate) fn timed(&mut self, took: Duration) {
        let most = match took.as_micros() {
            0..20 => 15,
            20..100 => 3,
            100..300 => 1,
            _ => 0,
        };
        self.between = most.min(2 * self.between + 1);
        self.skip = self.between;
    }
}

/// Counts of items that were processed without timing between two timed batches.
#[derive(Debug)]
pub(crate) struct Untimed {
    /// By kind: the source, the stages and the sink.
    items: Vec<u64>,
    /// Start of the first untimed batch.
    since: Duration,
}

impl Untimed {
    /// Returns empty counts for `kinds` kinds.
    pub(crate) fn new(kinds: usize) -> Self {
        Untimed { items: vec![0; kinds], since: Duration::ZERO }
    }

    #[inline]
    pub(crate) fn add(&mut self, kind: usize, items: u64) {
        self.items[kind] += items;
    }

    /// Returns true if no item was counted since the last timed batch.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.items.iter().all(|&items| items == 0)
    }

    /// Starts the first untimed batch after a timed one.
    pub(crate) fn begin(&mut self, now: Duration) {
        self.since = now;
    }

    /// Estimates the time of the items until `now`, adds it to the `stats` of each kind and returns it. The sum is limited to the
    /// time since the first untimed batch, because the mean of a few timed batches may be far too high.
    pub(crate) fn settle(&mut self, now: Duration, stats: &mut [StageStats]) -> Vec<(usize, Duration)> {
        let some = self.items.iter_mut().enumerate().filter(|(_, items)| **items > 0);
        let mean = |kind: usize| stats[kind].service().unwrap_or_default();
        let mut times: Vec<(usize, Duration)> =
            some.map(|(kind, items)| (kind, mean(kind).mul_f64(std::mem::take(items) as f64))).collect();
        let (passed, all) =
            (now.saturating_sub(self.since), times.iter().map(|time| time.1).sum::<Duration>());
        for (kind, time) in &mut times {
            if all > passed {
                *time = time.mul_f64(passed.as_secs_f64() / all.as_secs_f64());
            }
            stats[*kind].untimed += *time;
        }
        times
    }
}

/// The number of stage 0 among what the compute side does.
const FIRST_STAGE: usize = 3;

/// What the compute side is doing at this moment; read by the thread that communicates.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// 0: nothing, 1: drawing from the source, 2: feeding the sink, [`FIRST_STAGE`] + n: stage n.
    what: AtomicUsize,
    item: AtomicU64,
}

/// A reading of [`Activity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Doing {
    Nothing,
    Drawing { item: u64 },
    Feeding { item: u64 },
    Stage { stage: usize, item: u64 },
}

impl Activity {
    #[inline]
    pub(crate) fn set(&self, doing: Doing) {
        let (what, item) = match doing {
            Doing::Nothing => (0, 0),
            Doing::Drawing { item } => (1, item),
            Doing::Feeding { item } => (2, item),
            Doing::Stage { stage, item } => (FIRST_STAGE + stage, item),
        };
        self.item.store(item, Ordering::Relaxed);
        self.what.store(what, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Doing {
        let item = self.item.load(Ordering::Relaxed);
        match self.what.load(Ordering::Relaxed) {
            0 => Doing::Nothing,
            1 => Doing::Drawing { item },
            2 => Doing::Feeding { item },
            stage => Doing::Stage { stage: stage - FIRST_STAGE, item },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untimed_batches_count_at_the_mean_and_for_no_more_than_the_time() {
        const US: Duration = Duration::from_micros(1);
        let timed = |timed| StageStats { timed_items: 10, timed, ..Default::default() };
        let mut stats = [timed(1000 * US), timed(30 * US), StageStats::default()];
        assert_eq!(stats[0].service(), Some(100 * US));
        let mut untimed = Untimed::new(3);
        untimed.begin(500 * US);
        untimed.add(0, 3);
        untimed.add(2, 3);
        assert_eq!(untimed.settle(900 * US, &mut stats), [(0, 300 * US), (2, Duration::ZERO)]);
        assert_eq!(stats[0].busy(), 1300 * US);
        assert!(untimed.is_empty());
        untimed.begin(1000 * US);
        assert_eq!(untimed.settle(1300 * US, &mut stats), []);
        (0..2).for_each(|kind| untimed.add(kind, 3));
        let half = untimed.settle(1000 * US + 309 * US / 2, &mut stats);
        assert_eq!(half, [(0, 150 * US), (1, 9 * US / 2)]);
    }

    #[test]
    fn short_batches_are_sampled_and_long_ones_always_timed() {
        let mut sampler = Sampler::default();
        let mut timed = |took: u64, batches: usize| {
            (0..batches)
                .filter(|_| {
                    let due = sampler.due();
                    if due {
                        sampler.timed(Duration::from_micros(took));
                    }
                    due
                })
                .count()
        };
        assert_eq!(timed(1, 1 + 2 + 4 + 8 + 160), 4 + 10);
        timed(500, 16);
        assert_eq!(timed(500, 10), 10);
    }

    #[test]
    fn an_activity_is_read_back() {
        let activity = Activity::default();
        for doing in [Doing::Drawing { item: 3 }, Doing::Stage { stage: 0, item: 9 }, Doing::Nothing] {
            activity.set(doing);
            assert_eq!(activity.get(), doing);
        }
    }
}
