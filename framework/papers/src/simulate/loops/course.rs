//! Record of a simulated parallel loop, and random noise of computing times, for both simulations of loops.

use armature_planner::loops::{LoopDecision, RankTime};
use armature_planner::random::Random;

use super::effort::Effort;
use super::processor::Processor;
use super::system::{LoopRun, LoopSystem};

/// Minimum speed of a simulated rank with random noise, as a fraction of its speed without noise.
const SLOWEST: f64 = 0.01;

/// Record of a simulated parallel loop: movements of rows or indices between ranks, and decisions of the balancer.
#[derive(Debug, Default)]
pub(super) struct Course {
    pub(super) movements: u64,
    /// Total seconds during which rows or indices of the loop were being moved between ranks.
    pub(super) moving: f64,
    pub(super) decisions: Vec<LoopDecision>,
}

impl Course {
    /// Returns the result of a run that ended `elapsed` seconds after its start. `ranks` has the processor of each
    /// rank, and the rank's number of rows or indices of the loop.
    pub(super) fn end(self, system: &LoopSystem, elapsed: f64, ranks: Vec<(Processor, u64)>) -> LoopRun {
        let Course { movements, moving, decisions } = self;
        let (processors, held): (Vec<_>, _) = ranks.into_iter().unzip();
        let times = system.speeds.iter().zip(processors);
        LoopRun {
            elapsed,
            sequential: system.units as f64 * system.passes as f64 * system.unit,
            ranks: times.map(|(&speed, mut p)| RankTime { speed, competing: p.competing(elapsed) }).collect(),
            movements,
            moving,
            held,
            decisions,
        }
    }
}

impl LoopSystem {
    /// Returns the simulated processor of each rank. All processors share the counter of simulation steps.
    pub(super) fn processors(&self, effort: &Effort) -> impl Iterator<Item = Processor> {
        let load = |rank: usize| self.loads.iter().copied().find(|load| load.rank == rank);
        (0..self.speeds.len()).map(move |rank| Processor::new(self.sharing, load(rank), effort.clone()))
    }

    /// Returns the processor seconds that a rank takes for one row or index of the loop in one pass, with random
    /// noise.
    pub(super) fn unit_in_pass(&self, rank: usize, random: &mut Random) -> f64 {
        self.unit / (self.speeds[rank] * (1.0 + self.noise * random.normal()).max(SLOWEST))
    }
}
