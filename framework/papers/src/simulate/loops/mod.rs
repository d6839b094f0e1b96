//! Simulation of a parallel loop on ranks that share processors with other processes.
//!
//! All units (rows or indices) of the loop are computed in each *pass*, and the ranks meet at a barrier after the
//! pass. At intervals the ranks report to a [`LoopBalancer`], the type that a program uses, and move units as the
//! balancer decides. A competing process takes turns with a rank ([`Sharing`]), and has the whole processor while the
//! rank waits.
//!
//! Ranks report at the ends of passes as in the simulations of the paper of Siegell and Steenkiste, and all ranks
//! stop while they report and while units move. A real program, which continues to compute meanwhile, would lose
//! less. [`Balancing::Overlapped`] simulates loops of independent units (DOALL), whose units move while ranks
//! compute, in the middle of passes.
//!
//! ```
//! use armature_planner::loops::LoopOptions;
//! use armature_papers::simulate::loops::{Balancing, Load, LoopSystem};
//!
//! // 120 passes of half a second on four ranks, the first at half its speed in the second half of every 20 s.
//! let mut system = LoopSystem::equal(4, 1000, 120, 0.5);
//! system.loads = vec![Load { rank: 0, off: 10.0, on: 10.0 }];
//! system.interaction = 0.005;
//!
//! let alone = system.run(&Balancing::Off)?;
//! assert!((alone.efficiency() - 0.8).abs() < 0.01);
//! let balanced = system.run(&Balancing::Pipelined(LoopOptions::default()))?;
//! assert!(balanced.efficiency() > 0.85, "{}", balanced.efficiency());
//! assert!(balanced.movements > 0);
//! # Ok::<(), armature_planner::Error>(())
//! ```

mod course;
mod effort;
#[cfg(test)]
mod oscillating_tests;
mod overlapped;
mod phased;
mod processor;
mod system;
#[cfg(test)]
mod tests;
mod worker;

use armature_planner::Result;
use armature_planner::loops::{LoopBalancer, LoopOptions};
use effort::Effort;
pub use system::{Load, LoopRun, LoopSystem, Sharing};

/// Way of balancing a simulated loop, by moving its units (rows or indices) between ranks.
#[derive(Clone, Debug, PartialEq)]
pub enum Balancing {
    /// No balancing: all ranks keep equal shares, and there are no interactions with a balancer.
    Off,
    /// A balancer whose decisions are carried out when the ranks next report to it.
    Pipelined(LoopOptions),
    /// A balancer whose decisions are carried out at once, while all ranks wait.
    Synchronous(LoopOptions),
    /// A balancer of independent units (rows or indices of a DOALL loop), as in real programs. No rank stops while
    /// units move. When a rank has no units left, the remaining units of the other ranks are redistributed in the
    /// middle of the pass. The fixed part of the cost of a movement is computing time of the ranks that send or
    /// receive.
    Overlapped(LoopOptions),
}

impl LoopSystem {
    /// Simulates the loop with the given balancing.
    ///
    /// # Errors
    /// [`ErrorKind::Loop`](armature_planner::ErrorKind::Loop) with the invalid part of the system, or if the run
    /// takes more than 2^26 simulation steps; the errors of [`LoopOptions::validate`].
    pub fn run(&self, balancing: &Balancing) -> Result<LoopRun> {
        self.validate()?;
        Effort::expect(self)?;
        let balancer = |options: &LoopOptions| LoopBalancer::new(self.speeds.len(), options.clone());
        match balancing {
            Balancing::Off => phased::run(self, None, false),
            Balancing::Pipelined(options) => phased::run(self, Some(balancer(options)?), true),
            Balancing::Synchronous(options) => phased::run(self, Some(balancer(options)?), false),
            Balancing::Overlapped(options) => overlapped::run(self, balancer(options)?),
        }
    }
}
