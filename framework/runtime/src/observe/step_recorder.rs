//! Keeps the steps of a rank until they are written, and sees to it that they are not too many.

use std::collections::VecDeque;
use std::time::Duration;

use super::steps::{Step, Steps, TimedStep};

/// Steps of a period that are written, of at most a dozen bytes each. A period lasts for as long as all before it together, so that
/// the steps of a run of an hour have a megabyte at most.
const STEPS: usize = 8192;
/// The first period.
const FIRST: Duration = Duration::from_secs(1);

/// The steps that are not written yet.
#[derive(Debug)]
pub(super) struct StepRecorder {
    /// When the rank began.
    begin: Duration,
    /// Since when steps are kept that are not written; `None` where none are kept for now.
    since: Option<Duration>,
    steps: Vec<(Duration, Step)>,
    /// Of this period, the steps that may still be written.
    left: usize,
    period_end: Duration,
    /// When each of the jobs began that go on.
    running: VecDeque<Duration>,
    /// When one ended last.
    ended: Duration,
}

impl StepRecorder {
    pub(super) fn new(begin: Duration) -> Self {
        let (running, left, period_end) = (VecDeque::new(), STEPS, begin + FIRST);
        StepRecorder { begin, since: Some(begin), steps: Vec::new(), left, period_end, running, ended: begin }
    }

    /// Whether steps are kept.
    pub(super) fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// When the last step was taken that is not written yet.
    pub(super) fn latest(&self) -> Duration {
        self.steps.last().map_or(self.begin, |(at, _)| *at)
    }

    /// A job begins. By the clock it is `at`, or a little later.
    pub(super) fn begins(&mut self, at: Duration) {
        self.running.push_back(at);
        self.push(at, Step::Begins);
    }

    /// The job that began first has ended, and `took` so long; where that is not known, it lasted from its begin, or from the end of the
    /// one before, until now.
    pub(super) fn ended(&mut self, at: Duration, took: Option<Duration>) {
        let is_only = self.running.len() <= 1;
        let began = self.running.pop_front();
        let passed = || began.map_or(Duration::ZERO, |began| at.saturating_sub(began.max(self.ended)));
        let took = took.unwrap_or_else(passed);
        self.ended = at;
        match self.steps.last() {
            // Where the caller does what is asked, its begin is not told.
            last if is_only && (began.is_none() || matches!(last, Some((_, Step::Begins)))) => {
                if began.is_some() {
                    self.steps.pop();
                }
                match self.steps.last_mut() {
                    Some((time, Step::Worked(before))) => (*time, *before) = (at, *before + took),
                    _ if took.is_zero() => {}
                    _ => self.push(at, Step::Worked(took)),
                }
            }
            _ => self.push(at, Step::Ended(took)),
        }
    }

    /// A message has left or come.
    pub(super) fn push(&mut self, at: Duration, step: Step) {
        if self.is_on() && self.steps.len() <= self.left {
            // The clock is not read for a step, and a job that was just done may have brought the last one beyond the last look.
            self.steps.push((at.max(self.latest()), step));
        }
    }

    /// What is to be written `now`; a part without steps only if it `is_last`.
    pub(super) fn take(&mut self, now: Duration, is_last: bool) -> Option<Steps> {
        let since = self.since.filter(|since| !self.steps.is_empty() || is_last && now > *since);
        let written = since.map(|since| self.taken(since, now));
        if now >= self.period_end {
            self.left = STEPS;
            self.period_end = now + now.saturating_sub(self.begin);
            self.since = self.since.or(Some(now));
        }
        written
    }

    fn taken(&mut self, since: Duration, now: Duration) -> Steps {
        let is_cut = self.steps.len() > self.left;
        self.steps.truncate(self.left);
        self.left -= self.steps.len();
        let last = self.steps.last().map_or(since, |(at, _)| *at);
        let end = if is_cut { last } else { now };
        self.since = (!is_cut).then_some(now);
        let steps = self.steps.drain(..).map(|(at, step)| TimedStep { before: now.saturating_sub(at), step });
        Steps { seconds: end.saturating_sub(since).as_secs_f64(), steps: steps.collect(), is_cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn sent(number: u64) -> Step {
        Step::Sent { to: 1, number }
    }

    fn taken(recorder: &mut StepRecorder, now: u32) -> Vec<Step> {
        let steps = recorder.take(now * MS, false).map_or(Vec::new(), |steps| steps.steps);
        steps.into_iter().map(|step| step.step).collect()
    }

    #[test]
    fn jobs_with_nothing_between_are_one_step() {
        let mut recorder = StepRecorder::new(Duration::ZERO);
        for at in 1..4 {
            recorder.begins(at * MS);
            recorder.ended(at * MS, Some(MS));
        }
        recorder.push(4 * MS, sent(0));
        // The caller's own: their begin is not told.
        recorder.ended(5 * MS, Some(MS));
        recorder.ended(6 * MS, Some(MS));
        assert_eq!(taken(&mut recorder, 6), [Step::Worked(3 * MS), sent(0), Step::Worked(2 * MS)]);
    }

    #[test]
    fn times_of_steps_do_not_fall() {
        let mut recorder = StepRecorder::new(Duration::ZERO);
        // Done on this thread since the last look, which was at 1 ms.
        recorder.begins(MS);
        recorder.ended(recorder.latest().max(MS) + 5 * MS, Some(5 * MS));
        recorder.push(MS, sent(0));
        let steps = recorder.take(7 * MS, false).expect("there are steps").steps;
        let told: Vec<_> = steps.iter().map(|timed| (timed.before, timed.step)).collect();
        assert_eq!(told, [(MS, Step::Worked(5 * MS)), (MS, sent(0))]);
    }

    #[test]
    fn what_comes_beside_a_job_stands_between_its_begin_and_its_end() {
        let mut recorder = StepRecorder::new(Duration::ZERO);
        recorder.begins(MS);
        recorder.push(2 * MS, sent(0));
        recorder.ended(5 * MS, Some(3 * MS));
        assert_eq!(taken(&mut recorder, 6), [Step::Begins, sent(0), Step::Ended(3 * MS)]);
        // Two that were handed over, and of which nobody says how long they took.
        recorder.begins(10 * MS);
        recorder.begins(11 * MS);
        recorder.ended(15 * MS, None);
        recorder.ended(18 * MS, None);
        let all = [Step::Begins, Step::Begins, Step::Ended(5 * MS), Step::Ended(3 * MS)];
        assert_eq!(taken(&mut recorder, 20), all);
    }

    #[test]
    fn too_many_steps_of_a_period_are_cut_and_the_next_period_has_its_own() {
        let mut recorder = StepRecorder::new(Duration::ZERO);
        for number in 0..2 * STEPS as u64 {
            recorder.push(number as u32 * MS / 100, sent(number));
        }
        let first = recorder.take(200 * MS, false).expect("there are steps");
        assert!(first.is_cut && first.steps.len() == STEPS);
        assert!((first.seconds - 1e-5 * (STEPS - 1) as f64).abs() < 1e-9, "{}", first.seconds);
        recorder.push(300 * MS, sent(1));
        assert_eq!(recorder.take(1200 * MS, false), None, "this period has had its steps");
        recorder.push(1300 * MS, sent(2));
        let second = recorder.take(1400 * MS, false).expect("a new period");
        assert_eq!((second.steps.len(), second.seconds, second.is_cut), (1, 0.2, false));
        assert_eq!(second.steps[0].before, 100 * MS);
        // The account of the last part is written without steps, too.
        assert_eq!(recorder.take(1500 * MS, false), None);
        assert_eq!(recorder.take(1600 * MS, true).map(|last| last.seconds), Some(0.2));
        // The periods become longer as the run does.
        assert!((2300..2500).contains(&recorder.period_end.as_millis()), "{:?}", recorder.period_end);
    }
}
