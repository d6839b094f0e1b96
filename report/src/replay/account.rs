//! The steps of a rank, as far as the log has them.

use armature::observe::steps::{Step, Steps, TimedStep};

use super::GAP;

/// The steps of a rank, and the parts of its time of which all of them are known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// When the rank began.
    begin: Option<f64>,
    /// When it had done its part.
    end: Option<f64>,
    /// Ascending, and the place of the first step of each.
    known: Vec<(f64, f64, usize)>,
    /// When, in seconds since the run began, and what.
    pub(super) steps: Vec<(f64, Step)>,
}

impl Account {
    /// The rank began.
    pub(crate) fn begins(&mut self, at: f64) {
        self.begin = Some(at);
    }

    /// It had done its part.
    pub(crate) fn ends(&mut self, at: f64) {
        self.end = Some(at);
    }

    /// It wrote these steps.
    pub(crate) fn takes(&mut self, at: f64, steps: &Steps) {
        let last = steps.steps.last().map_or(0.0, |step| step.before.as_secs_f64());
        let to = if steps.is_cut { at - last } else { at };
        let from = to - steps.seconds;
        match self.known.last_mut() {
            Some(part) if from <= part.1 + GAP => part.1 = to.max(part.1),
            _ => self.known.push((from, to, self.steps.len())),
        }
        let timed = |TimedStep { before, step }: &TimedStep| (at - before.as_secs_f64(), *step);
        self.steps.extend(steps.steps.iter().map(timed));
    }

    /// How many jobs go on when the step at this place is taken.
    pub(super) fn jobs_at(&self, place: usize) -> usize {
        let part = self.known.partition_point(|(_, _, first)| *first <= place);
        let first = part.checked_sub(1).map_or(0, |part| self.known[part].2);
        self.steps[first..place].iter().fold(0, |jobs: usize, (_, step)| match step {
            Step::Begins => jobs + 1,
            Step::Ended(_) => jobs.saturating_sub(1),
            _ => jobs,
        })
    }

    /// The parts of time of which all steps are known. Before its begin and after its end a rank takes no steps.
    pub(super) fn known(&self) -> Vec<(f64, f64)> {
        let mut known: Vec<(f64, f64)> = self.known.iter().map(|&(from, to, _)| (from, to)).collect();
        if let (Some(first), Some(begin)) = (known.first_mut(), self.begin)
            && first.0 <= begin + GAP
        {
            first.0 = f64::NEG_INFINITY;
        }
        if let (Some(last), Some(end)) = (known.last_mut(), self.end)
            && last.1 >= end - GAP
        {
            last.1 = f64::INFINITY;
        }
        known
    }
}
