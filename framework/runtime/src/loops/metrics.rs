//! Measurements of the work of a rank, which the rank reports to rank 0.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::quantum::QuantumEstimate;
use super::summary::RankReport;
use crate::comm::clock::Clock;

/// The CPU time of a block (call of user code) is measured only if the previous block took at least this long. The two readings take a microsecond or
/// two, which is more than a hundredth of a shorter block.
const LONG: Duration = Duration::from_micros(200);
/// Weight of the last block (units of one call of user code) in the mean time of a unit: one slow block in sixteen does not change the mean much.
const SHARE: f64 = 1.0 / 16.0;

/// Measurements that a rank has made since its last report to rank 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sample {
    /// Number of units (rows or indices) that the rank has computed since its last report to rank 0.
    pub(super) units: f64,
    /// Seconds that the rank has spent on computing blocks since its last report to rank 0, including the time in which another process had the core.
    pub(super) seconds: f64,
    /// Number of units (rows or indices) that the rank holds at this report; in a DOALL loop, number of computations that they still need.
    pub(super) held: u64,
    /// Number of blocks (calls of user code) that the rank has computed since its last report to rank 0.
    pub(super) blocks: u64,
    /// Seconds since the rank's last report to rank 0.
    pub(super) span: f64,
    /// Part of the seconds since the last report to rank 0 in which the rank processed messages and sent reports.
    pub(super) hooks: f64,
    /// Part of the seconds since the last report to rank 0 in which the rank waited for other ranks.
    pub(super) waiting: f64,
    /// Number of movements of units since the start of the run for which the rank has sent and received all its units.
    pub(super) movements: u64,
    /// Seconds that the rank has spent on sending and receiving moved units since its last report to rank 0.
    pub(super) moving: f64,
    /// Scheduler's quantum (time slice of a process) as estimated by this rank, in seconds.
    pub(super) quantum: f64,
}

impl Sample {
    /// Returns the sum of these measurements and of `next`, measurements of the same rank in the time that follows.
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

/// Timer for blocks of units, on the thread that computes them. It reads the clock twice per block, and the CPU time twice if blocks are long.
#[derive(Clone, Debug)]
pub(super) struct BlockTimer {
    clock: Clock,
    /// Duration of the last block of units.
    last: Duration,
}

/// Clock and CPU time at the start of the block (call of user code) that is being computed.
#[derive(Debug)]
pub(super) struct StartTimes {
    wall: Duration,
    cpu: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct BlockTime {
    pub(super) took: Duration,
    /// CPU time of the thread while it computed the block, if it was measured.
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

    /// Stops the timer for a block of units and returns its duration.
    #[inline]
    pub(super) fn end(&mut self, start: &StartTimes) -> BlockTime {
        let cpu = start.cpu.map(|cpu| self.clock.cpu().saturating_sub(cpu));
        self.last = self.since(start);
        BlockTime { took: self.last, cpu }
    }
}

/// Measurements of a rank in a run of a loop.
#[derive(Debug)]
pub(super) struct Metrics {
    clock: Clock,
    timer: BlockTimer,
    quantum: QuantumEstimate,
    /// Measurements since the rank's last report to rank 0.
    recent: Sample,
    /// Time at which the rank last reported its measurements to rank 0.
    sampled: Duration,
    /// Mean seconds per unit. If the CPU time of a block was not read, its time beyond this mean counts as time in which other processes had the
    /// core.
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

    /// Starts the timer for a block of units, on the thread that communicates.
    #[inline]
    pub(super) fn begin(&self) -> StartTimes {
        self.timer.begin()
    }

    pub(super) fn since(&self, start: &StartTimes) -> Duration {
        self.timer.since(start)
    }

    /// Stops the timer for a block of `units` units, on the thread that communicates, and returns its duration.
    #[inline]
    pub(super) fn end(&mut self, start: &StartTimes, units: f64) -> Duration {
        let time = self.timer.end(start);
        self.done(time, units);
        time.took
    }

    /// Adds a computed block of `units` units to the measurements.
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

    /// Adds the time `took`, in which the rank has processed messages and sent a report of its measurements.
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

    /// Adds this rank's part of a movement of units: the time that it took, and the numbers of units sent and received.
    pub(super) fn moved(&mut self, took: Duration, sent: u64, received: u64) {
        self.recent.movements += 1;
        self.recent.moving += took.as_secs_f64();
        self.total.moving += took;
        self.total.sent += sent;
        self.total.received += received;
    }

    /// Returns the time since this rank last reported its measurements to rank 0.
    pub(super) fn since_sample(&self) -> Duration {
        self.clock.now().saturating_sub(self.sampled)
    }

    /// Returns the measurements since the last report, for a rank that now holds `held` units, and begins to collect new ones.
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

    /// Returns statistics of this rank's work in the whole run. `held` is the number of its units at the end.
    pub(super) fn report(&mut self, held: u64) -> RankReport {
        self.fold();
        let Sample { movements, .. } = self.recent;
        self.recent = Sample { movements, ..Sample::default() };
        RankReport { held, ..self.total }
    }

    pub(super) fn mean_block(&self) -> Option<Duration> {
        (self.total.blocks > 0).then(|| self.total.busy.div_f64(self.total.blocks as f64))
    }

    /// Adds the measurements since the last report to those of the whole run.
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
        // User code slept during the second block, so its CPU time is shorter than its duration. The difference counts as time of other processes on
        // the core.
        assert!(report.off_core >= Duration::from_millis(1), "{report:?}");
    }
}
