//! Common parts of the simulations of a loop.

use armature_planner::loops::{LoopDecision, RankTime};
use armature_planner::random::Random;

use super::effort::Effort;
use super::processor::Processor;
use super::system::{LoopRun, LoopSystem};

/// Minimum speed of a rank with noise, relative to its speed.
const SLOWEST: f64 = 0.01;

/// Record of a simulated run.
#[derive(Debug, Default)]
pub(super) struct Course {
    pub(super) movements: u64,
    /// Total seconds of movements.
    pub(super) moving: f64,
    pub(super) decisions: Vec<LoopDecision>,
}

impl Course {
    /// Returns the result of a run that ended at `elapsed`, with the processors and units of the ranks.
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
    /// Returns the processor of each rank; all processors share one count of steps.
    pub(super) fn processors(&self, effort: &Effort) -> impl Iterator<Item = Processor> {
        let load = |rank: usize| self.loads.iter().copied().find(|load| load.rank == rank);
        (0..self.speeds.len()).map(move |rank| Processor::new(self.sharing, load(rank), effort.clone()))
    }

    /// Returns the processor seconds per unit for a rank in one pass.
    pub(super) fn unit_in_pass(&self, rank: usize, random: &mut Random) -> f64 {
        self.unit / (self.speeds[rank] * (1.0 + self.noise * random.normal()).max(SLOWEST))
    }
}
