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
    /// Items whose time was taken: all, unless nothing is monitored.
    pub timed_items: u64,
    /// Time of those items.
    pub timed: Duration,
    /// Time of sampled batches in which the rank was ready to compute and others had its core. Short batches are sampled.
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
        self.timed
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

/// Chooses the batches whose processor time is measured. Reading it is a system call, so short batches are sampled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sampler {
    skip: u8,
}

impl Sampler {
    /// Returns true if the next batch is sampled.
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

    /// Notes the time of a sampled batch, in the mean of its stages.
    pub(crate) fn timed(&mut self, took: Duration) {
        self.skip = match took.as_micros() {
            0..20 => 15,
            20..100 => 3,
            100..300 => 1,
            _ => 0,
        };
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
        assert_eq!(timed(1, 160), 10);
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
