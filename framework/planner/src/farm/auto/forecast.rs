//! What the rest of an iteration would take with a policy.

use super::super::by_worker::ByWorker;
use super::super::knowledge::ChunkDone;
use super::super::policy::{Policy, View};
use super::bound::Bound;
use super::synthetic::Synthetic;
use crate::simulate::farm::{Dispatcher, Farm, Standing};

/// The rest of an iteration, as it lies ahead.
#[derive(Debug)]
pub(super) struct Ahead<'a> {
    pub(super) view: View<'a>,
    /// When workers will ask, and what is still busy, in seconds from now.
    pub(super) standing: Standing<'a>,
    /// How many times as long each worker takes for a task, where it is known.
    pub(super) slowness: &'a ByWorker<f64>,
    /// Tasks that are out: they come before those that are left.
    pub(super) out: u64,
    pub(super) bound: Bound,
}

impl Ahead<'_> {
    /// Seconds from now until all results are there, and the chunks that were simulated for this: None if there were
    /// more than `most`, or it takes longer than `limit` anyway.
    pub(super) fn simulate(
        &self,
        policy: Box<dyn Policy>,
        row: &Synthetic,
        most: u64,
        limit: f64,
    ) -> (Option<f64>, u64) {
        let mut play =
            Play { ahead: self, policy, row, left: self.view.left, chunks: 0, most, limit, given_up: false };
        let run = Farm::new(*self.view.knowledge).run_from(&self.standing, &mut play);
        // Chunks that are out already come back in any case.
        let out = self.standing.asks.iter().map(|&(time, _)| time).fold(0.0, f64::max);
        ((!play.given_up).then(|| run.time.max(out)), play.chunks)
    }
}

struct Play<'a> {
    ahead: &'a Ahead<'a>,
    policy: Box<dyn Policy>,
    row: &'a Synthetic,
    left: u64,
    chunks: u64,
    most: u64,
    limit: f64,
    given_up: bool,
}

impl Dispatcher for Play<'_> {
    fn next(&mut self, worker: usize, now: f64) -> Option<u64> {
        if self.left == 0 || self.given_up {
            return None;
        }
        if self.chunks >= self.most || now > self.limit {
            self.given_up = true;
            return None;
        }
        self.chunks += 1;
        let view = View { left: self.left, ..self.ahead.view };
        let most = self.ahead.bound.most(self.left, view.n());
        Some(self.policy.next(worker, most, &view).clamp(1, most))
    }

    fn compute(&mut self, worker: usize, tasks: u64) -> (f64, f64) {
        let first = self.ahead.out.saturating_add(self.ahead.view.left - self.left);
        self.left -= tasks;
        let slow = self.ahead.slowness.get(worker).copied().unwrap_or(1.0);
        (slow * (self.row.until(first.saturating_add(tasks)) - self.row.until(first)), 0.0)
    }

    fn done(&mut self, _done: &ChunkDone) {}
}
