//! Parameters and results of a simulated parallel loop.

use armature_planner::loops::{LoopDecision, MovementCosts, RankTime, check_ranks, efficiency};
use armature_planner::range::{self, AMOUNT, MOST_RANKS, POSITIVE};
use armature_planner::{Error, ErrorKind, Result};

/// Process that competes with a rank for its processor, alternately off and on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Rank with which the process competes; each rank has at most one load.
    pub rank: usize,
    /// Seconds for which the competing process is off, at the beginning of each period.
    pub off: f64,
    /// Seconds for which the competing process is on, at the end of each period.
    pub on: f64,
}

/// Rule by which a rank and a competing load that is on share a processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sharing {
    /// Rank and load have half of the processor each at any time.
    Fluid,
    /// Rank and load take turns of this number of seconds (round robin). A rank or load that has waited for something else begins a new turn after
    /// the turn that is in progress.
    Turns(f64),
}

/// Simulated loop, and the ranks that run it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopSystem {
    /// Number of units (rows or indices) of the loop, distributed equally at the beginning.
    pub units: u64,
    /// Number of passes, in each of which all rows or indices of the loop are computed once.
    pub passes: u64,
    /// Seconds that a unit (row or index) of the loop takes on a rank of speed 1.
    pub unit: f64,
    /// Speed of each rank, relative to a rank that takes `unit` seconds for a row or index of the loop.
    pub speeds: Vec<f64>,
    /// Processes that compete with ranks for their processors.
    pub loads: Vec<Load>,
    /// Rule by which a rank and its competing load share a processor.
    pub sharing: Sharing,
    /// Standard deviation of a rank's speed from pass to pass, relative to the speed.
    pub noise: f64,
    /// Seed of the random noise of the speeds.
    pub seed: u64,
    /// Cost of moving units (rows or indices) of the loop between ranks.
    pub movement: MovementCosts,
    /// Seconds that each interaction, in which all ranks report to the balancer, costs the ranks.
    pub interaction: f64,
    /// Seconds between two hooks (points at which a rank polls for messages). After a rank has computed all its units
    /// (rows or indices), this time passes until the other ranks report to the balancer. Used only if balancing is
    /// [overlapped](super::Balancing::Overlapped); otherwise the hooks are the ends of passes.
    pub hook: f64,
}

/// Result of a simulated loop.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopRun {
    /// Simulated seconds from the start to the end of the loop.
    pub elapsed: f64,
    /// Seconds of the loop on one rank of speed 1 without load and without noise.
    pub sequential: f64,
    /// Speed of each rank, and seconds for which its competing process had the processor.
    pub ranks: Vec<RankTime>,
    /// Number of balancing decisions by which rows or indices of the loop moved between ranks.
    pub movements: u64,
    /// Total seconds during which rows or indices of the loop were being moved between ranks.
    pub moving: f64,
    /// Number of units (rows or indices) of each rank at the end.
    pub held: Vec<u64>,
    /// All decisions of the balancer.
    pub decisions: Vec<LoopDecision>,
}

impl LoopSystem {
    /// Creates a system of equal ranks without loads, on which a pass takes `pass` seconds. Moving units (rows or
    /// indices) of the loop, interactions with the balancer and hooks cost nothing. A number of ranks beyond the
    /// maximum of 2^20 is reduced to one more than the maximum, which [`run`](LoopSystem::run) rejects.
    pub fn equal(ranks: usize, units: u64, passes: u64, pass: f64) -> Self {
        LoopSystem {
            units,
            passes,
            unit: pass * ranks as f64 / units.max(1) as f64,
            speeds: vec![1.0; ranks.min(MOST_RANKS + 1)],
            loads: Vec::new(),
            sharing: Sharing::Fluid,
            noise: 0.0,
            seed: 0,
            movement: MovementCosts::default(),
            interaction: 0.0,
            hook: 0.0,
        }
    }

    pub(super) fn validate(&self) -> Result<()> {
        let invalid = |message: String| Err(Error::new(ErrorKind::Loop, message));
        let (positive, zero_or_more) = (range::is_positive, range::is_amount);
        check_ranks(self.speeds.len())?;
        if let Some(rank) = self.speeds.iter().position(|&speed| !positive(speed)) {
            return invalid(format!(
                "the speed of rank {rank} must be {POSITIVE}, but is {}",
                self.speeds[rank]
            ));
        }
        for (i, load) in self.loads.iter().enumerate() {
            if load.rank >= self.speeds.len() || self.loads[..i].iter().any(|other| other.rank == load.rank) {
                return invalid(format!("rank {} does not exist, or has two loads", load.rank));
            }
            if !zero_or_more(load.off) || !positive(load.on) {
                return invalid(format!(
                    "the background load on rank {} is off for {} s and on for {} s, which must be {AMOUNT}, and on more \
                     than 0 s",
                    load.rank, load.off, load.on
                ));
            }
        }
        if let Sharing::Turns(turn) = self.sharing
            && !positive(turn)
        {
            return invalid(format!("a turn in seconds must be {POSITIVE}, but is {turn}"));
        }
        let numbers = [
            ("unit", self.unit),
            ("noise", self.noise),
            ("fixed cost", self.movement.fixed),
            ("cost per unit", self.movement.per_unit),
            ("interaction", self.interaction),
            ("hook", self.hook),
        ];
        match numbers.into_iter().find(|&(_, value)| !zero_or_more(value)) {
            Some((name, value)) => invalid(format!("{name} must be {AMOUNT}, but is {value}")),
            None => Ok(()),
        }
    }
}

impl LoopRun {
    /// Returns the [`efficiency`] of the loop; processor time of competing processes does not count as available time.
    pub fn efficiency(&self) -> f64 {
        efficiency(self.sequential, self.elapsed, &self.ranks)
    }
}
