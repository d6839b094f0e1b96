//! Simulation of the rest of a farm's iteration with a chunk policy.

use super::super::chunking::Chunking;
use super::super::knowledge::ChunkDone;
use super::super::policy::{Policy, View};
use super::estimate::Estimate;
use super::sample::Sample;
use crate::simulate::farm::{Dispatcher, Farm, InitialState};

/// Chunk policy in a comparison on the same samples of task times.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) chunking: Chunking,
    pub(super) policy: Box<dyn Policy>,
    /// Simulated seconds of the rest of the iteration, summed over all samples of task times; `None` if a sample
    /// needed more chunks than the budget.
    pub(super) seconds: Option<f64>,
}

impl Trial {
    pub(super) fn new(chunking: Chunking, policy: Box<dyn Policy>) -> Self {
        Trial { chunking, policy, seconds: Some(0.0) }
    }
}

/// Simulates all chunk policies on one sample of task times, with at most `budget` chunks for each policy. The
/// master's port is busy for the first `port` seconds. Returns the number of simulated chunks.
pub(super) fn simulate(
    trials: &mut [Trial],
    view: &View<'_>,
    estimate: &Estimate<'_>,
    sample: &Sample,
    port: f64,
    budget: u64,
) -> u64 {
    let (requests, free) = estimate.requests(sample);
    let initial_state = InitialState { requests: &requests, port, free: &free };
    // Lower bound of the time with every chunk policy: the outstanding chunks must be completed.
    let out = requests.iter().map(|&(time, _)| time).fold(0.0, f64::max);
    let mut simulated = 0;
    for trial in trials {
        let Some(seconds) = trial.seconds else { continue };
        let policy = trial.policy.copy();
        let mut rest =
            Rest { view, estimate, sample, policy, left: view.left, chunks: 0, budget, is_aborted: false };
        let run = Farm::new(*view.knowledge).run_from(&initial_state, &mut rest);
        trial.seconds = (!rest.is_aborted).then_some(seconds + run.time.max(out));
        simulated += rest.chunks;
    }
    simulated
}

struct Rest<'a> {
    view: &'a View<'a>,
    estimate: &'a Estimate<'a>,
    sample: &'a Sample,
    policy: Box<dyn Policy>,
    left: u64,
    chunks: u64,
    budget: u64,
    is_aborted: bool,
}

impl Dispatcher for Rest<'_> {
    fn next(&mut self, worker: usize, _now: f64) -> Option<u64> {
        self.is_aborted |= self.left > 0 && self.chunks == self.budget;
        if self.left == 0 || self.is_aborted {
            return None;
        }
        self.chunks += 1;
        let view = View { left: self.left, ..*self.view };
        Some(self.policy.next(worker, self.left, &view).clamp(1, self.left))
    }

    fn compute(&mut self, worker: usize, tasks: u64) -> (f64, f64) {
        // The sample of task times begins with the outstanding tasks; the tasks that are not dispatched follow.
        let first = self.estimate.out().saturating_add(self.view.left - self.left);
        self.left -= tasks;
        let seconds = self.sample.until(first.saturating_add(tasks)) - self.sample.until(first);
        (self.estimate.slowness(worker) * seconds, 0.0)
    }

    fn done(&mut self, _done: &ChunkDone) {}
}
