//! What a rank measures of itself, and reports at each interaction.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::quantum::QuantumEstimate;
use super::summary::RankReport;
use crate::comm::clock::Clock;

/// Blocks that take longer than this have their CPU time read as well, which takes a microsecond or two: more than a hundredth of shorter ones.
const LONG: Duration = Duration::from_micros(200);
/// The part of the usual time of a unit that a new block replaces: one slow block of sixteen does not change it.
const SHARE: f64 = 1.0 / 16.0;

/// What a rank reports: what it did since its last sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sample {
    /// Units that it did.
    pub(super) units: f64,
    /// Seconds in which it computed them, with those in which another process had the core.
    pub(super) seconds: f64,
    /// Units that it has now.
    pub(super) held: u64,
    /// Blocks that it did.
    pub(super) blocks: u64,
    /// Seconds since its last sample.
    pub(super) span: f64,
    /// Seconds of them that interactions took.
    pub(super) hooks: f64,
    /// Seconds of them in which it waited for others.
    pub(super) waiting: f64,
    /// Movements that it has made its part of, since the run began.
    pub(super) movements: u64,
    /// Seconds that those since its last sample took.
    pub(super) moving: f64,
    /// The scheduler's quantum as this rank sees it (s).
    pub(super) quantum: f64,
}

impl Sample {
    /// Both samples, one after the other, as one.
    pub(super) fn with(self, next: Sample) -> Self {
        Sample {
            units: self.units + next.units,
            seconds: self.seconds + next.seconds,
            blocks: self.blocks + next.blocks,
            span: self.span + next.span,
            hooks: self.hooks + next.hooks,
            waiting: self.waiting + next.waiting,
            moving: self.moving + next.moving,
            quantum: if next.quantum > 0.0 { next.quantum } else { self.quantum },
            ..next
        }
    }

    /// The same, with all time that was not waiting, interactions and movements as time of computing. In a loop whose ranks
    /// exchange borders in every sweep, sending and receiving them is part of the work; and a rank that shares its core is
    /// stopped there as well as in user code.
    pub(super) fn of_all_work(self) -> Self {
        let work = self.span - self.waiting - self.hooks - self.moving;
        Sample { seconds: work.max(self.seconds), ..self }
    }
}

/// Measures blocks on the thread that computes them: two readings of the clock a block, and of the CPU's where blocks are long.
#[derive(Clone, Debug)]
pub(super) struct BlockTimer {
    clock: Clock,
    /// How long the last block took.
    last: Duration,
}

/// A block that is being done.
#[derive(Debug)]
pub(super) struct Begun {
    wall: Duration,
    cpu: Option<Duration>,
}

/// What a block took.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockTime {
    pub(super) took: Duration,
    /// How much of it its thread had a core, if that was measured.
    cpu: Option<Duration>,
}

impl BlockTimer {
    pub(super) fn new(clock: Clock) -> Self {
        BlockTimer { clock, last: Duration::ZERO }
    }

    /// A block begins.
    #[inline]
    pub(super) fn begin(&self) -> Begun {
        let wall = self.clock.now();
        Begun { wall, cpu: (self.last >= LONG).then(|| self.clock.cpu()) }
    }

    /// For how long a block has been done.
    #[inline]
    pub(super) fn since(&self, begun: &Begun) -> Duration {
        self.clock.now().saturating_sub(begun.wall)
    }

    /// The block is done.
    #[inline]
    pub(super) fn end(&mut self, begun: &Begun) -> BlockTime {
        let cpu = begun.cpu.map(|cpu| self.clock.cpu().saturating_sub(cpu));
        self.last = self.since(begun);
        BlockTime { took: self.last, cpu }
    }
}

/// What a rank has measured.
#[derive(Debug)]
pub(super) struct Metrics {
    clock: Clock,
    timer: BlockTimer,
    quantum: QuantumEstimate,
    /// Since the last sample.
    recent: Sample,
    /// When the last sample was taken.
    sampled: Duration,
    /// Usual seconds of a unit, for blocks whose CPU time is not read.
    usual: Option<f64>,
    total: RankReport,
}

impl Metrics {
    pub(super) fn new(clock: Clock) -> Self {
        Metrics {
            clock,
            timer: BlockTimer::new(clock),
            quantum: QuantumEstimate::default(),
            recent: Sample::default(),
            sampled: clock.now(),
            usual: None,
            total: RankReport::default(),
        }
    }

    /// A block begins on the thread that communicates.
    #[inline]
    pub(super) fn begin(&self) -> Begun {
        self.timer.begin()
    }

    /// Returns for how long that block has been done.
    pub(super) fn since(&self, begun: &Begun) -> Duration {
        self.timer.since(begun)
    }

    /// That block, of `units` units, is done; returns how long it took.
    #[inline]
    pub(super) fn end(&mut self, begun: &Begun, units: f64) -> Duration {
        let time = self.timer.end(begun);
        self.done(time, units);
        time.took
    }

    /// A block of `units` units was done.
    #[inline]
    pub(super) fn done(&mut self, BlockTime { took, cpu }: BlockTime, units: f64) {
        let seconds = took.as_secs_f64();
        let gap = match cpu {
            Some(cpu) => seconds - cpu.as_secs_f64(),
            None => seconds - units * self.usual.unwrap_or(f64::INFINITY),
        };
        let off = self.quantum.add(gap);
        if off == 0.0 && units > 0.0 {
            let unit = seconds / units;
            self.usual = Some(self.usual.map_or(unit, |usual| usual + SHARE * (unit - usual)));
        }
        self.recent.units += units;
        self.recent.seconds += seconds;
        self.recent.blocks += 1;
        self.total.off_core += Duration::from_secs_f64(off);
    }

    /// An interaction took this time.
    #[inline]
    pub(super) fn interaction(&mut self, took: Duration) {
        self.recent.hooks += took.as_secs_f64();
        self.total.interacting += took;
    }

    /// The rank waited for others.
    #[inline]
    pub(super) fn waited(&mut self, took: Duration) {
        self.recent.waiting += took.as_secs_f64();
        self.total.waiting += took;
    }

    /// The rank has made its part of a movement, in which it sent and received units.
    pub(super) fn moved(&mut self, took: Duration, sent: u64, received: u64) {
        self.recent.movements += 1;
        self.recent.moving += took.as_secs_f64();
        self.total.moving += took;
        self.total.sent += sent;
        self.total.received += received;
    }

    /// Time of computing since the last sample.
    pub(super) fn since_sample(&self) -> Duration {
        self.clock.now().saturating_sub(self.sampled)
    }

    /// What is to be reported now, by a rank that has `held` units. The next sample begins here.
    pub(super) fn sample(&mut self, held: u64) -> Sample {
        let now = self.clock.now();
        let span = now.saturating_sub(self.sampled).as_secs_f64();
        self.sampled = now;
        self.fold();
        let movements = self.recent.movements;
        let sample = Sample { held, span, quantum: self.quantum.seconds(), ..self.recent };
        self.recent = Sample { movements, ..Sample::default() };
        sample
    }

    /// All that this rank did, at the end, when it has `held` units.
    pub(super) fn report(&mut self, held: u64) -> RankReport {
        self.fold();
        let Sample { movements, .. } = self.recent;
        self.recent = Sample { movements, ..Sample::default() };
        RankReport { held, ..self.total }
    }

    /// How long a block took on the mean, in the whole run.
    pub(super) fn mean_block(&self) -> Option<Duration> {
        (self.total.blocks > 0).then(|| self.total.busy.div_f64(self.total.blocks as f64))
    }

    /// Puts what is not in the total yet there.
    fn fold(&mut self) {
        let Sample { units, seconds, blocks, .. } = self.recent;
        self.total.units += units;
        self.total.busy += Duration::from_secs_f64(seconds);
        self.total.blocks += blocks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_tells_what_was_done_since_the_one_before() {
        let mut metrics = Metrics::new(Clock::wall());
        for units in [3.0, 2.0] {
            let begun = metrics.begin();
            std::thread::sleep(Duration::from_millis(2));
            metrics.end(&begun, units);
        }
        metrics.moved(Duration::from_millis(5), 1, 2);
        let sample = metrics.sample(7);
        assert_eq!(
            (sample.units, sample.blocks, sample.held, sample.movements, sample.moving),
            (5.0, 2, 7, 1, 0.005)
        );
        assert!(sample.seconds >= 0.004 && sample.span >= sample.seconds);
        let next = metrics.sample(7);
        assert_eq!((next.units, next.seconds, next.movements, next.moving), (0.0, 0.0, 1, 0.0));
        let report = metrics.report(7);
        assert_eq!((report.units, report.blocks, report.sent, report.received), (5.0, 2, 1, 2));
        // The second block slept, which its CPU time shows.
        assert!(report.off_core >= Duration::from_millis(1), "{report:?}");
    }
}
