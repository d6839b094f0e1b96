//! Measured times and counts of a rank's calls of user code, by kind of call (such as the stages of a pipeline).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::activity::{Longest, Work};

/// Times and counts of the calls of user code on one rank, shared between the rank's threads. It stays empty unless [`begin`](SharedTally::begin) is
/// called, which happens if there is an event log.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedTally(Arc<OnceLock<Mutex<Tally>>>);

impl SharedTally {
    pub(crate) fn begin(&self, kinds: usize) {
        self.0.get_or_init(|| Mutex::new(Tally::new(kinds)));
    }

    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Tally) -> R) -> Option<R> {
        // A poisoned lock is ignored: the counts and times are consistent between any two operations of [`Tally`], and none of its operations calls
        // user code.
        self.0.get().map(|tally| f(&mut tally.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Counts and times of a rank's calls of user code and of its commands.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(super) kinds: Vec<Kind>,
    pub(super) longest: Option<Longest>,
    job: Option<Job>,
    /// Durations of the ended calls of user code whose results the rank has not received from the compute thread; zero for set-up calls.
    unfetched: VecDeque<Duration>,
    /// Total time of the ended set-up calls: calls of user code that process no items, tasks or units of a loop, such as creating a stage.
    set_up: Duration,
    /// Time so far of running work that is no call of user code: commands of tasks, or the parts of a grid loop's sweep that are timed together.
    running: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    since: Duration,
    is_work: bool,
}

#[derive(Debug, Default)]
pub(super) struct Kind {
    /// Number of items, tasks or units of a loop that have been completed since the start of the current interval of the rank's time.
    pub(super) done: u64,
    /// Total time of the calls of this kind since the start of the run; `unwritten` is their time since the last [`Work`] event in the event log.
    time: Duration,
    unwritten: Duration,
    /// Number of items, tasks or units of a loop in each bin of the histogram of their times, since the last [`Work`] event in the event log.
    steps: Vec<u64>,
    /// Fraction of a unit (row or index) of a loop that has been computed; it is counted when the whole unit is computed.
    fraction: f64,
}

impl Tally {
    pub(super) fn new(kinds: usize) -> Self {
        Tally { kinds: (0..kinds).map(|_| Kind::default()).collect(), ..Tally::default() }
    }

    pub(super) fn is_new(&self) -> bool {
        let is_new = |kind: &Kind| {
            kind.done > 0 || !kind.unwritten.is_zero() || kind.steps.iter().any(|&count| count > 0)
        };
        self.kinds.iter().any(is_new)
    }

    pub(crate) fn last_kind(&self) -> usize {
        self.kinds.len().saturating_sub(1)
    }

    /// Counts `count` items, tasks or units of a loop, which took `took` in total; `of` is the index of their kind, and `first` the number of the
    /// first of them.
    #[inline]
    pub(crate) fn add(&mut self, of: usize, first: Option<u64>, count: u64, took: Duration) {
        let Some(kind) = self.kinds.get_mut(of) else { return };
        kind.time += took;
        kind.unwritten += took;
        kind.done += count;
        if let Some(each) = (took.as_nanos() as u64).checked_div(count) {
            let step = Work::step_of(each) as usize;
            if step >= kind.steps.len() {
                kind.steps.resize(step + 1, 0);
            }
            kind.steps[step] += count;
        }
        let seconds = took.as_secs_f64();
        if self.longest.as_ref().is_none_or(|longest| seconds > longest.seconds) {
            self.longest = Some(Longest { of, first, count, seconds });
        }
    }

    #[inline]
    pub(crate) fn begin_job(&mut self, now: Duration, is_work: bool) {
        self.job = Some(Job { since: now, is_work });
    }

    /// Records that the current call of user code ends at `now`. Its duration counts as work until [`fetched`](Tally::fetched) is called.
    #[inline]
    pub(crate) fn end_job(&mut self, now: Duration) {
        if let Some(Job { since, is_work }) = self.job.take() {
            let took = now.saturating_sub(since);
            self.unfetched.push_back(if is_work { took } else { Duration::ZERO });
            self.set_up += if is_work { Duration::ZERO } else { took };
        }
    }

    /// Drops the duration of the oldest ended call of user code, because the rank has just received its result. The caller adds the times that the
    /// result contains.
    #[inline]
    pub(crate) fn fetched(&mut self) {
        self.unfetched.pop_front();
    }

    pub(super) fn abandon(&mut self) {
        self.job = None;
        self.unfetched.clear();
    }

    /// Counts `units` units (rows or indices) of a loop, which may include a fraction of a unit. A unit is counted when all its fractions are
    /// computed.
    pub(crate) fn add_parts(&mut self, units: f64, took: Duration) {
        let Some(kind) = self.kinds.first_mut() else { return };
        // The sum of the computed fractions of a unit may differ from 1 by this much through rounding.
        const ROUNDING: f64 = 1e-6;
        let units = kind.fraction + units;
        let whole = (units + ROUNDING).floor();
        kind.fraction = units - whole;
        self.add(0, None, whole as u64, took);
    }

    pub(crate) fn set_running(&mut self, running: Duration) {
        self.running = running;
    }

    /// Returns the time spent on all items, tasks, units and commands since the start of the run, up to `now`.
    pub(crate) fn time(&self, now: Duration) -> Duration {
        let counted: Duration =
            self.kinds.iter().map(|kind| kind.time).chain(self.unfetched.iter().copied()).sum();
        counted + self.running + self.job_time(now, true)
    }

    pub(super) fn set_up(&self, now: Duration) -> Duration {
        self.set_up + self.job_time(now, false)
    }

    /// Returns the time of the current call of user code, if it processes items (`work` is true) or only sets something up (`work` is false);
    /// otherwise zero.
    fn job_time(&self, now: Duration, work: bool) -> Duration {
        let job = self.job.filter(|job| job.is_work == work);
        job.map_or(Duration::ZERO, |job| now.saturating_sub(job.since))
    }

    /// Returns the counts and times that are not in the event log, by kind of call of user code, and resets them.
    pub(super) fn take(&mut self) -> Vec<Work> {
        let mut all = Vec::new();
        for (of, kind) in self.kinds.iter_mut().enumerate() {
            let some = kind.steps.iter_mut().enumerate().filter(|(_, count)| **count > 0);
            let steps: Vec<(u32, u64)> =
                some.map(|(step, count)| (step as u32, std::mem::take(count))).collect();
            let seconds = std::mem::take(&mut kind.unwritten).as_secs_f64();
            let done = steps.iter().map(|(_, count)| count).sum();
            if done > 0 || seconds > 0.0 {
                all.push(Work { of, done, seconds, steps });
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn time_includes_finished_items_and_the_running_job() {
        let mut tally = Tally::new(2);
        tally.add(0, Some(0), 2, 4 * MS);
        tally.add(1, None, 7, MS);
        assert_eq!(tally.time(9 * MS), 5 * MS);
        let fields = |work: &Work| (work.of, work.done, work.seconds);
        assert_eq!(tally.take().iter().map(fields).collect::<Vec<_>>(), [(0, 2, 0.004), (1, 7, 0.001)]);
        tally.set_running(5 * MS);
        assert_eq!(tally.time(9 * MS), 10 * MS);
    }

    /// A running call of user code counts from its start. When the rank receives its result, the duration in the result replaces the time since the
    /// start.
    #[test]
    fn running_job_counts_as_work_or_set_up() {
        let mut tally = Tally::new(1);
        tally.begin_job(2 * MS, false);
        assert_eq!((tally.time(6 * MS), tally.set_up(6 * MS)), (Duration::ZERO, 4 * MS));
        tally.end_job(7 * MS);
        assert_eq!((tally.time(9 * MS), tally.set_up(9 * MS)), (Duration::ZERO, 5 * MS));
        tally.begin_job(10 * MS, true);
        assert_eq!((tally.time(16 * MS), tally.set_up(16 * MS)), (6 * MS, 5 * MS));
        tally.end_job(16 * MS);
        tally.fetched();
        assert_eq!(tally.time(20 * MS), 6 * MS);
        tally.fetched();
        tally.add(0, Some(0), 1, 5 * MS);
        assert_eq!((tally.time(20 * MS), tally.set_up(20 * MS)), (5 * MS, 5 * MS));
    }

    #[test]
    fn abandoned_job_is_excluded() {
        let mut tally = Tally::new(1);
        tally.begin_job(MS, true);
        tally.end_job(3 * MS);
        tally.begin_job(3 * MS, true);
        assert_eq!(tally.time(4 * MS), 3 * MS);
        tally.abandon();
        assert_eq!((tally.time(9 * MS), tally.is_new()), (Duration::ZERO, false));
    }

    #[test]
    fn unit_parts_sum_to_whole_units() {
        let mut tally = Tally::new(1);
        (0..30).for_each(|_| tally.add_parts(0.1, MS));
        assert_eq!((tally.take()[0].done, tally.time(MS)), (3, 30 * MS));
    }
}
