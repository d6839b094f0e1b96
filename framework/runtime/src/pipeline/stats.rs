//! Statistics of a rank: service times of the pipeline's stages on the rank, and the rank's idle times.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::machine::Traffic;

/// Counters of one stage on one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StageStats {
    /// Number of input items of the stage.
    pub items: u64,
    /// Number of input items from which the stage made no output.
    pub dropped: u64,
    /// Number of output items of the stage.
    pub made: u64,
    /// Number of input batches of the stage.
    pub batches: u64,
    /// Number of items whose processing time was measured: all items, unless the user has turned the measurement of service times off.
    pub timed_items: u64,
    /// Total processing time of the items that were timed.
    pub timed: Duration,
    /// Part of the stage's time in which the rank was ready to compute while other threads had its core. Measured only in a sample of the short
    /// batches.
    pub lost: Duration,
    /// Time that the user's function which creates the stage has taken on this rank.
    pub warm_up: Duration,
    /// Maximum number of batches that waited on this rank for the stage, or for the block of consecutive stages to which it belongs.
    pub longest_queue: usize,
}

impl StageStats {
    /// Returns the service time per item, if it was measured.
    pub fn service(&self) -> Option<Duration> {
        (self.timed_items > 0)
            .then(|| Duration::from_secs_f64(self.timed.as_secs_f64() / self.timed_items as f64))
    }

    /// Returns the time that the rank has spent in this stage.
    pub fn busy(&self) -> Duration {
        self.timed
    }
}

/// Statistics that one rank reports at the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RankReport {
    /// Counters of each stage of the pipeline; a stage that never ran on this rank has no items.
    pub stages: Vec<StageStats>,
    /// Time in which the rank was idle because no batch had arrived.
    pub waiting_input: Duration,
    /// Time in which the rank was idle because no other rank had requested its finished batches, or (rank 0) because the limit of batches in flight
    /// was reached.
    pub waiting_downstream: Duration,
    /// Total size in bytes of the batches sent to other ranks.
    pub sent_bytes: u64,
    /// Total size in bytes of the batches received from other ranks.
    pub received_bytes: u64,
    /// Number of batches sent to other ranks.
    pub sent_batches: u64,
    /// Number of batches received from other ranks.
    pub received_batches: u64,
    /// Number of batches that the rank forwarded to another rank, because the mapping of stages to ranks had changed since they were sent.
    pub forwarded: u64,
    /// Number of serial stages that migrated from this rank to another one.
    pub handed_over: u64,
    /// Number of times that the mapping changed while a serial stage was migrating from or to this rank.
    pub overtaken: u64,
    /// Time that rank 0 has spent in the pipeline's source and sink; zero on other ranks.
    pub source_and_sink: Duration,
}

impl RankReport {
    /// Returns the time that the rank has spent in its stages and, on rank 0, in the source and in the sink.
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

/// Selection of the batches (samples) for which the processor time of the stages is measured. Reading the processor time is a system call, so only
/// some short batches are measured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sampler {
    skip: u8,
}

impl Sampler {
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

    /// Sets how many batches follow a sampled batch before the next sample, from the mean time per stage in the sampled batch.
    pub(crate) fn timed(&mut self, took: Duration) {
        self.skip = match took.as_micros() {
            0..20 => 15,
            20..100 => 3,
            100..300 => 1,
            _ => 0,
        };
    }
}

const FIRST_STAGE: usize = 3;

/// Current activity of the thread that runs user code; the communicating thread reads it.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Code of the current activity: 0 for none, 1 for drawing items from the source, 2 for passing items to the sink, [`FIRST_STAGE`] + n
    /// for running stage n.
    what: AtomicUsize,
    item: AtomicU64,
}

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
    fn short_batches_are_sampled_and_long_batches_always_timed() {
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
    fn activity_round_trips() {
        let activity = Activity::default();
        for doing in [Doing::Drawing { item: 3 }, Doing::Stage { stage: 0, item: 9 }, Doing::Nothing] {
            activity.set(doing);
            assert_eq!(activity.get(), doing);
        }
    }
}
