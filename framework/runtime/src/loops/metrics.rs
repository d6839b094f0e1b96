//! Measurements of the time that a rank of a loop spends on computing, waiting and moving units (rows or indices); the rank reports them to rank 0.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::quantum::QuantumEstimate;
use super::summary::RankReport;
use crate::comm::clock::Clock;

/// The CPU time of a block (call of user code) is measured only if the previous block took at least this long. Two readings of the CPU time take one
/// or two microseconds, which is more than a hundredth of a shorter block.
const LONG: Duration = Duration::from_micros(200);
/// Weight of the last block (units of one call of user code) in the mean time of a unit: with one in sixteen, one slow block changes the mean little.
const SHARE: f64 = 1.0 / 16.0;

/// Measurements that a rank has made since its last report to rank 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sample {
    pub(super) units: f64,
    /// Seconds of computing, including the time in which another process had the core.
    pub(super) seconds: f64,
    /// Number of units (rows or indices) that the rank has now; in a DOALL loop, the number of computations that they still need.
    pub(super) held: u64,
    pub(super) blocks: u64,
    pub(super) span: f64,
    /// Seconds in which the rank processed messages and sent reports.
    pub(super) hooks: f64,
    pub(super) waiting: f64,
    /// Number of movements of units (rows or indices) between ranks, since the start of the run, in which the rank has sent and received all its
    /// units.
    pub(super) movements: u64,
    pub(super) moving: f64,
    /// Estimated time slice of a process (quantum of the operating system's scheduler) in seconds.
    pub(super) quantum: f64,
}

impl Sample {
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

    /// Returns the measurements with all time except waiting, reports and movements counted as computing. In a loop whose ranks exchange halo rows
    /// in every sweep, the exchange is part of the work, and a rank that shares its core loses time in the exchange as well as in user code.
    pub(super) fn of_all_work(self) -> Self {
        let work = self.span - self.waiting - self.hooks - self.moving;
        Sample { seconds: work.max(self.seconds), ..self }
    }
}

/// Timer for blocks (calls of user code), on the thread that computes them. It reads the clock twice per block, and the CPU time twice if blocks are
/// long.
#[derive(Clone, Debug)]
pub(super) struct BlockTimer {
    clock: Clock,
    last: Duration,
}

#[derive(Debug)]
pub(super) struct StartTimes {
    wall: Duration,
    cpu: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BlockTime {
    pub(super) took: Duration,
    /// CPU time of the thread during the call of user code, if it was measured.
    cpu: Option<Duration>,
}

impl BlockTimer {
    pub(super) fn new(clock: Clock) -> Self {
        BlockTimer { clock, last: Duration::ZERO }
    }

    #[inline]
    pub(super) fn begin(&self) -> StartTimes {
        let wall = self.clock.now();
        StartTimes { wall, cpu: (self.last >= LONG).then(|| self.clock.cpu()) }
    }

    #[inline]
    pub(super) fn since(&self, start: &StartTimes) -> Duration {
        self.clock.now().saturating_sub(start.wall)
    }

    #[inline]
    pub(super) fn end(&mut self, start: &StartTimes) -> BlockTime {
        let cpu = start.cpu.map(|cpu| self.clock.cpu().saturating_sub(cpu));
        self.last = self.since(start);
        BlockTime { took: self.last, cpu }
    }
}

#[derive(Debug)]
pub(super) struct Metrics {
    clock: Clock,
    timer: BlockTimer,
    quantum: QuantumEstimate,
    recent: Sample,
    sampled: Duration,
    /// Mean seconds per unit (row or index). If the CPU time of a block (call of user code) was not read, its time beyond this mean counts as time in
    /// which other processes had the core.
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

    #[inline]
    pub(super) fn begin(&self) -> StartTimes {
        self.timer.begin()
    }

    pub(super) fn since(&self, start: &StartTimes) -> Duration {
        self.timer.since(start)
    }

    #[inline]
    pub(super) fn end(&mut self, start: &StartTimes, units: f64) -> Duration {
        let time = self.timer.end(start);
        self.done(time, units);
        time.took
    }

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

    #[inline]
    pub(super) fn interaction(&mut self, took: Duration) {
        self.recent.hooks += took.as_secs_f64();
        self.total.interacting += took;
    }

    #[inline]
    pub(super) fn waited(&mut self, took: Duration) {
        self.recent.waiting += took.as_secs_f64();
        self.total.waiting += took;
    }

    pub(super) fn moved(&mut self, took: Duration, sent: u64, received: u64) {
        self.recent.movements += 1;
        self.recent.moving += took.as_secs_f64();
        self.total.moving += took;
        self.total.sent += sent;
        self.total.received += received;
    }

    pub(super) fn since_sample(&self) -> Duration {
        self.clock.now().saturating_sub(self.sampled)
    }

    /// Returns the measurements since the last report to rank 0, for a rank that now has `held` units (rows or indices), and begins to collect new
    /// ones.
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

    pub(super) fn report(&mut self, held: u64) -> RankReport {
        self.fold();
        let Sample { movements, .. } = self.recent;
        self.recent = Sample { movements, ..Sample::default() };
        RankReport { held, ..self.total }
    }

    pub(super) fn mean_block(&self) -> Option<Duration> {
        (self.total.blocks > 0).then(|| self.total.busy.div_f64(self.total.blocks as f64))
    }

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
    fn sample_covers_the_time_since_the_last_sample() {
        let mut metrics = Metrics::new(Clock::wall());
        for units in [3.0, 2.0] {
            let start = metrics.begin();
            std::thread::sleep(Duration::from_millis(2));
            metrics.end(&start, units);
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
        // User code slept during its second call, so the CPU time of the call is shorter than its duration. The difference counts as time of other
        // processes on the core.
        assert!(report.off_core >= Duration::from_millis(1), "{report:?}");
    }
}
