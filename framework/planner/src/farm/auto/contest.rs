//! Candidates, compared on rows of tasks that are drawn.

use super::super::policy::{Policy, View};
use super::bound::Bound;
use super::candidates::Candidate;
use super::course::Outcomes;
use super::forecast::Ahead;
use super::outlook::Outlook;
use super::synthetic::Synthetic;
use crate::simulate::farm::Standing;

/// The golden ratio, less one: multiples of it fill the unit interval evenly.
const GOLDEN: f64 = 0.618_033_988_749_894_9;
/// Rows of tasks that are drawn, at most.
const MOST_ROWS: u64 = 16;
/// A candidate is not simulated further when it is worse than the best by this part in one row.
const HOPELESS: f64 = 1.25;
/// After each row, candidates that are worse by this part of the best, divided by the number of rows, are dropped.
const WORSE: f64 = 0.08;

/// A candidate while it is compared; what is in force has no name here.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) candidate: Option<Candidate>,
    pub(super) policy: Box<dyn Policy>,
    /// Rows that it was simulated on, seconds in all of them, and the same by the least that each could take.
    pub(super) rows: u32,
    pub(super) seconds: f64,
    pub(super) total: f64,
    /// It could be simulated on every row, and is not hopeless.
    pub(super) stands: bool,
}

impl Trial {
    pub(super) fn new(candidate: Option<Candidate>, policy: Box<dyn Policy>) -> Self {
        Trial { candidate, policy, rows: 0, seconds: 0.0, total: 0.0, stands: true }
    }

    /// A row that takes `even` at least took it `seconds`.
    fn took(&mut self, seconds: f64, even: f64) {
        self.rows += 1;
        self.seconds += seconds;
        self.total += seconds / even;
    }

    /// Seconds for a row, in the mean of those that it was simulated on.
    pub(super) fn mean(&self) -> f64 {
        self.seconds / f64::from(self.rows)
    }
}

/// The rest of an iteration, which each candidate may lead in simulation.
#[derive(Debug)]
pub(super) struct Contest<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) outlook: &'a Outlook<'a>,
    pub(super) outcomes: &'a Outcomes,
    pub(super) bound: Bound,
    /// Seconds until the master's port is free.
    pub(super) port: f64,
}

impl Contest<'_> {
    /// Simulates all on the same rows, with `budget` chunks on the whole; `number` numbers the rows. The first one, which is
    /// in force, stays in the contest however bad it is, unless it is hopeless. Returns what is left of the budget.
    pub(super) fn hold(
        &self,
        tried: &mut [Trial],
        mut number: impl FnMut(u64) -> u64,
        mut budget: u64,
    ) -> u64 {
        let likeness = self.outlook.likeness();
        let rows = if likeness.deviation > 1e-3 * likeness.mean { MOST_ROWS } else { 1 };
        for row in 0..rows {
            let before = budget;
            budget = self.play(tried, number(row), budget);
            let standing = tried.iter().filter(|trial| trial.stands);
            let least = standing.map(|trial| trial.total).fold(f64::INFINITY, f64::min);
            let limit = least * (1.0 + WORSE / (row + 1) as f64);
            tried.iter_mut().skip(1).for_each(|trial| trial.stands &= trial.total <= limit);
            // Another row takes no more than this one.
            if before - budget > budget {
                break;
            }
        }
        budget
    }

    /// Simulates those that still stand on one row. Returns what is left of the budget.
    fn play(&self, tried: &mut [Trial], seed: u64, mut budget: u64) -> u64 {
        let Contest { view, outlook, outcomes, bound, port } = *self;
        let place = (0.5 + seed as f64 * GOLDEN).fract();
        let (likeness, walk) = outcomes.at(place, outlook.likeness());
        let tasks = view.left.saturating_add(outlook.out());
        let row = Synthetic::draw(&likeness, walk.as_ref(), tasks, seed);
        // What it would take if nothing were lost.
        let even = row.until(tasks) / view.n() as f64;
        let (asks, free) = outlook.asks(&row);
        let standing = Standing { asks: &asks, port, free: &free };
        let ahead = Ahead { view: *view, standing, slowness: outlook.slowness(), out: outlook.out(), bound };
        let mut best = f64::INFINITY;
        for trial in tried.iter_mut().filter(|trial| trial.stands) {
            let (time, chunks) = ahead.simulate(trial.policy.copy(), &row, budget, HOPELESS * best);
            budget -= chunks;
            match time {
                Some(time) if time <= HOPELESS * best => {
                    trial.took(time, even);
                    best = best.min(time);
                }
                _ => {
                    trial.stands = false;
                    // It takes that long at least, unless it was not simulated to its end for want of chunks.
                    if budget > 0 && best.is_finite() {
                        trial.took(HOPELESS * best, even);
                    }
                }
            }
        }
        budget
    }
}
