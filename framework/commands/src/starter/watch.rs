//! When a command is looked at, and when its processes are told to end: pure.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::event::Stopped;

/// When a command's processes are looked at first. What ends sooner costs nothing, and holds little: memory is filled at some
/// gigabytes a second.
const FIRST_LOOK: Duration = Duration::from_millis(5);
/// Looks are a tenth of the command's age apart: so the peak of one that grows steadily is met within a tenth.
const AGE_PER_LOOK: u32 = 10;
/// At most so far apart: a program that fills memory as fast as it can gets further over its limit by some hundred megabytes.
/// A look takes some ten microseconds a process.
const MOST_APART: Duration = Duration::from_millis(100);
/// The same with a memory limit that is near: more than half of it is held.
const APART_NEAR_LIMIT: Duration = Duration::from_millis(10);

/// What is known of a command that matters for when it ends.
#[derive(Debug)]
pub(super) struct Watch {
    start: Instant,
    next_look: Instant,
    time_limit: Option<Duration>,
    memory_limit: Option<u64>,
    grace: Duration,
    peak: u64,
    stopped: Option<(Stopped, Instant)>,
    /// The last signal that was due.
    told: Option<Signal>,
}

impl Watch {
    pub(super) fn new(
        start: Instant,
        time_limit: Option<Duration>,
        memory_limit: Option<u64>,
        grace: Duration,
    ) -> Self {
        let next_look = start + FIRST_LOOK;
        Watch { start, next_look, time_limit, memory_limit, grace, peak: 0, stopped: None, told: None }
    }

    /// The moment at which something may have to be done.
    pub(super) fn next(&self) -> Instant {
        let end = match self.stopped {
            Some(_) if self.told == Some(Signal::KILL) => None,
            Some((_, since)) => since.checked_add(self.grace),
            None => self.time_limit.and_then(|limit| self.start.checked_add(limit)),
        };
        end.map_or(self.next_look, |end| end.min(self.next_look))
    }

    /// Whether the memory is to be looked at now.
    pub(super) fn wants_memory(&self, now: Instant) -> bool {
        now >= self.next_look
    }

    /// Takes note of the memory that is held now.
    pub(super) fn holds(&mut self, memory: u64, now: Instant) {
        self.peak = self.peak.max(memory);
        let mut apart = (now.duration_since(self.start) / AGE_PER_LOOK).clamp(FIRST_LOOK, MOST_APART);
        if let Some(limit) = self.memory_limit {
            if memory > limit {
                self.stop(Stopped::MemoryLimit, now);
            }
            if memory > limit / 2 {
                apart = apart.min(APART_NEAR_LIMIT);
            }
        }
        self.next_look = now + apart;
    }

    /// The signal that is due now: SIGTERM when a limit is exceeded, SIGKILL when the grace after it is over.
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
        // Killed is also what was started between the look at the tree and the signal before.
        let is_due = self.told != Some(signal) || signal == Signal::KILL;
        self.told = Some(signal);
        is_due.then_some(signal)
    }

    /// The command is to end now, for this reason unless there is one already.
    pub(super) fn stop(&mut self, why: Stopped, now: Instant) {
        self.stopped.get_or_insert((why, now));
    }

    /// Why the command was told to end.
    pub(super) fn stopped(&self) -> Option<Stopped> {
        self.stopped.map(|(why, _)| why)
    }

    /// Whether processes that the command has left behind may go on for a moment: they were told to end with it.
    pub(super) fn has_grace(&self, now: Instant) -> bool {
        self.stopped.is_some_and(|(_, since)| now.duration_since(since) < self.grace)
    }

    /// Most memory that was held at a look.
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
    fn a_time_limit_is_term_and_then_kill() {
        let start = Instant::now();
        let mut watch = watch(start, Some(2 * MS), None);
        assert_eq!((watch.next(), watch.due(start)), (start + 2 * MS, None));
        assert_eq!(watch.due(start + 3 * MS), Some(Signal::TERM));
        assert_eq!(watch.stopped(), Some(Stopped::TimeLimit));
        assert!(watch.has_grace(start + 102 * MS) && !watch.has_grace(start + 103 * MS));
        assert_eq!(watch.due(start + 50 * MS), None);
        watch.holds(0, start + 102 * MS);
        assert_eq!(watch.next(), start + 103 * MS);
        assert_eq!(watch.due(start + 103 * MS), Some(Signal::KILL));
        watch.holds(0, start + 103 * MS);
        assert_eq!(watch.due(watch.next()), Some(Signal::KILL));
    }

    #[test]
    fn memory_is_looked_at_less_and_less_often_but_not_near_the_limit() {
        let start = Instant::now();
        let mut watch = watch(start, None, Some(1000));
        assert!(!watch.wants_memory(start + 4 * MS) && watch.wants_memory(start + 5 * MS));
        watch.holds(500, start + 500 * MS);
        assert_eq!(watch.next(), start + 550 * MS);
        watch.holds(501, start + 600 * MS);
        assert_eq!(watch.next(), start + 610 * MS);
        watch.holds(500, start + 10_000 * MS);
        assert_eq!(watch.next(), start + 10_100 * MS);
        assert_eq!(watch.due(start + 10_100 * MS), None);
        let now = start + 10_100 * MS;
        watch.holds(1001, now);
        assert_eq!(
            (watch.due(now), watch.stopped(), watch.peak()),
            (Some(Signal::TERM), Some(Stopped::MemoryLimit), 1001)
        );
        watch.stop(Stopped::Cancelled, now);
        assert_eq!(watch.stopped(), Some(Stopped::MemoryLimit), "the first reason counts");
    }

    #[test]
    fn limits_without_end_never_come() {
        let start = Instant::now();
        let mut watch = watch(start, Some(Duration::MAX), Some(u64::MAX));
        watch.holds(u64::MAX, start + 5 * MS);
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
