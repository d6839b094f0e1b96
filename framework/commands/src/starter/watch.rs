//! Schedule of the memory measurements of a command and of the signals that stop it. The caller measures the memory and sends the signals.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::event::Stopped;

/// Time from the start of a command to its first memory measurement. Commands that end earlier are not measured; they use little memory, because a
/// program fills some gigabytes per second at most.
const FIRST_POLL: Duration = Duration::from_millis(5);
/// The time between two memory measurements of a command is its age divided by this number. If the memory grows
/// steadily, its measured peak is thus within a tenth of the real one.
const AGE_PER_POLL: u32 = 10;
/// Maximum time between two measurements of memory, unless they would exceed [`MEASURING`]. In this time, a program that fills memory at full speed
/// can exceed its limit by several hundred megabytes. A measurement takes some tens of microseconds per process.
const MOST_APART: Duration = Duration::from_millis(100);
/// Measuring all running commands takes at most one core divided by this number, except for commands near their memory limit. Without this bound,
/// measuring 1,000 commands of 1 s took a fifth of two cores.
const MEASURING: u32 = 20;
/// Maximum time between two measurements of memory if more than half of the memory limit is used.
const APART_NEAR_LIMIT: Duration = Duration::from_millis(10);

/// Limits, measurements and stop state of a command.
#[derive(Debug)]
pub(super) struct Watch {
    start: Instant,
    next_poll: Instant,
    time_limit: Option<Duration>,
    memory_limit: Option<u64>,
    grace: Duration,
    peak: u64,
    stopped: Option<(Stopped, Instant)>,
    signalled: Option<Signal>,
}

impl Watch {
    pub(super) fn new(
        start: Instant,
        time_limit: Option<Duration>,
        memory_limit: Option<u64>,
        grace: Duration,
    ) -> Self {
        let next_poll = start + FIRST_POLL;
        Watch { start, next_poll, time_limit, memory_limit, grace, peak: 0, stopped: None, signalled: None }
    }

    pub(super) fn next(&self) -> Instant {
        let end = match self.stopped {
            Some(_) if self.signalled == Some(Signal::KILL) => None,
            Some((_, since)) => since.checked_add(self.grace),
            None => self.time_limit.and_then(|limit| self.start.checked_add(limit)),
        };
        end.map_or(self.next_poll, |end| end.min(self.next_poll))
    }

    pub(super) fn wants_memory(&self, now: Instant) -> bool {
        now >= self.next_poll
    }

    /// Records a measurement of the memory. `all` is the time that it would take to measure all running commands.
    pub(super) fn holds(&mut self, memory: u64, now: Instant, all: Duration) {
        self.peak = self.peak.max(memory);
        let by_age = (now.duration_since(self.start) / AGE_PER_POLL).clamp(FIRST_POLL, MOST_APART);
        let mut apart = by_age.max(all * MEASURING);
        if let Some(limit) = self.memory_limit {
            if memory > limit {
                self.stop(Stopped::MemoryLimit, now);
            }
            if memory > limit / 2 {
                apart = apart.min(APART_NEAR_LIMIT);
            }
        }
        self.next_poll = now + apart;
    }

    /// Returns the signal that is due: SIGTERM when the command is stopped, SIGKILL after the grace period.
    pub(super) fn due(&mut self, now: Instant) -> Option<Signal> {
        if self.stopped.is_none()
            && self.time_limit.is_some_and(|limit| now.duration_since(self.start) >= limit)
        {
            self.stop(Stopped::TimeLimit, now);
        }
        let (_, since) = self.stopped?;
        let signal = match now.duration_since(since) >= self.grace {
            true => Signal::KILL,
            false => Signal::TERM,
        };
        // SIGKILL is sent repeatedly, because processes may have started between the search for the command's
        // processes and the signal.
        let is_due = self.signalled != Some(signal) || signal == Signal::KILL;
        self.signalled = Some(signal);
        is_due.then_some(signal)
    }

    /// Stops the command. If it is being stopped already, the first reason is kept.
    pub(super) fn stop(&mut self, why: Stopped, now: Instant) {
        self.stopped.get_or_insert((why, now));
    }

    pub(super) fn stopped(&self) -> Option<Stopped> {
        self.stopped.map(|(why, _)| why)
    }

    /// True while a stopped command's processes have only received SIGTERM and may still run.
    pub(super) fn has_grace(&self, now: Instant) -> bool {
        self.stopped.is_some_and(|(_, since)| now.duration_since(since) < self.grace)
    }

    pub(super) fn peak(&self) -> u64 {
        self.peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn watch(start: Instant, time: Option<Duration>, memory: Option<u64>) -> Watch {
        Watch::new(start, time, memory, 100 * MS)
    }

    #[test]
    fn time_limit_sends_term_and_then_kill() {
        let start = Instant::now();
        let mut watch = watch(start, Some(2 * MS), None);
        assert_eq!((watch.next(), watch.due(start)), (start + 2 * MS, None));
        assert_eq!(watch.due(start + 3 * MS), Some(Signal::TERM));
        assert_eq!(watch.stopped(), Some(Stopped::TimeLimit));
        assert!(watch.has_grace(start + 102 * MS) && !watch.has_grace(start + 103 * MS));
        assert_eq!(watch.due(start + 50 * MS), None);
        watch.holds(0, start + 102 * MS, Duration::ZERO);
        assert_eq!(watch.next(), start + 103 * MS);
        assert_eq!(watch.due(start + 103 * MS), Some(Signal::KILL));
        watch.holds(0, start + 103 * MS, Duration::ZERO);
        assert_eq!(watch.due(watch.next()), Some(Signal::KILL));
    }

    #[test]
    fn memory_is_polled_less_often_far_from_the_limit() {
        let start = Instant::now();
        let mut watch = watch(start, None, Some(1000));
        assert!(!watch.wants_memory(start + 4 * MS) && watch.wants_memory(start + 5 * MS));
        watch.holds(500, start + 500 * MS, Duration::ZERO);
        assert_eq!(watch.next(), start + 550 * MS);
        watch.holds(501, start + 600 * MS, Duration::ZERO);
        assert_eq!(watch.next(), start + 610 * MS);
        watch.holds(500, start + 10_000 * MS, Duration::ZERO);
        assert_eq!(watch.next(), start + 10_100 * MS);
        assert_eq!(watch.due(start + 10_100 * MS), None);
        let now = start + 10_100 * MS;
        watch.holds(1001, now, Duration::ZERO);
        assert_eq!(
            (watch.due(now), watch.stopped(), watch.peak()),
            (Some(Signal::TERM), Some(Stopped::MemoryLimit), 1001)
        );
        watch.stop(Stopped::Cancelled, now);
        assert_eq!(watch.stopped(), Some(Stopped::MemoryLimit), "the first reason counts");
    }

    #[test]
    fn measuring_many_commands_takes_a_twentieth_of_the_time() {
        let start = Instant::now();
        let mut watch = watch(start, None, Some(1000));
        watch.holds(1, start + 500 * MS, MS);
        assert_eq!(watch.next(), start + 550 * MS, "20 ms would be enough");
        watch.holds(1, start + 600 * MS, 20 * MS);
        assert_eq!(watch.next(), start + 1000 * MS);
        watch.holds(501, start + 1000 * MS, 20 * MS);
        assert_eq!(watch.next(), start + 1010 * MS, "near the limit");
    }

    #[test]
    fn maximum_limits_are_never_reached() {
        let start = Instant::now();
        let mut watch = watch(start, Some(Duration::MAX), Some(u64::MAX));
        watch.holds(u64::MAX, start + 5 * MS, Duration::ZERO);
        assert_eq!(watch.due(start + 5 * MS), None);
        assert_eq!(watch.next(), start + 10 * MS);
    }

    #[test]
    fn without_grace_the_first_signal_is_kill() {
        let start = Instant::now();
        let mut watch = Watch::new(start, None, None, Duration::ZERO);
        watch.stop(Stopped::Cancelled, start);
        assert_eq!(watch.due(start), Some(Signal::KILL));
    }
}
