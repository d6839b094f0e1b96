//! What ways of running a simulated loop have in common.

use super::effort::Effort;
use super::processor::Processor;
use super::system::{LoopRun, LoopSystem};
use crate::loops::{LoopDecision, RankTime};
use crate::random::Random;

/// A rank changes its speed from pass to pass by noise, but not to less than this part of it.
const SLOWEST: f64 = 0.01;

/// What happened.
#[derive(Debug, Default)]
pub(super) struct Course {
    pub(super) movements: u64,
    /// Seconds that they took.
    pub(super) moving: f64,
    pub(super) decisions: Vec<LoopDecision>,
}

impl Course {
    /// The account of a run that ended at `elapsed`, with the ranks' processors and units.
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
    /// The processor of each rank; what they do is counted together.
    pub(super) fn processors(&self, effort: &Effort) -> impl Iterator<Item = Processor> {
        let load = |rank: usize| self.loads.iter().copied().find(|load| load.rank == rank);
        (0..self.speeds.len()).map(move |rank| Processor::new(self.sharing, load(rank), effort.clone()))
    }

    /// Seconds of the processor's time that a unit takes a rank in a pass.
    pub(super) fn unit_in_pass(&self, rank: usize, random: &mut Random) -> f64 {
        self.unit / (self.speeds[rank] * (1.0 + self.noise * random.normal()).max(SLOWEST))
    }
}
