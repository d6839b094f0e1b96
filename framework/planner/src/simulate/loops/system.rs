//! What is simulated, and what came of it.

use crate::error::{Error, ErrorKind, Result};
use crate::loops::{LoopDecision, MovementCosts, RankTime, check_ranks, efficiency};
use crate::range::{self, AMOUNT, MOST_RANKS, POSITIVE};

/// A process that competes with a rank: off for a while, then on, again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The rank; at most one load is beside each.
    pub rank: usize,
    /// Seconds off, at first and then in each period.
    pub off: f64,
    /// Seconds on.
    pub on: f64,
}

/// How a rank shares its processor with a load that is on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sharing {
    /// Each has half, at any time.
    Fluid,
    /// In turns of this number of seconds (round robin). Who has waited for something else begins a new turn after the
    /// other's has ended.
    Turns(f64),
}

/// A loop and the ranks that do it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopSystem {
    /// Units, shared out equally at first.
    pub units: u64,
    /// Times that all units are done.
    pub passes: u64,
    /// Seconds of a unit on a rank of speed 1.
    pub unit: f64,
    /// Speed of each rank.
    pub speeds: Vec<f64>,
    /// Competing processes.
    pub loads: Vec<Load>,
    /// How they share processors with the ranks.
    pub sharing: Sharing,
    /// Standard deviation of a rank's speed from pass to pass, as a part of it.
    pub noise: f64,
    /// Of the noise.
    pub seed: u64,
    /// What movements cost.
    pub movement: MovementCosts,
    /// Seconds of an interaction.
    pub interaction: f64,
    /// Seconds between two hooks, at which a rank hears of others: whoever has run out of units waits so long before they
    /// report. Only where balancing is [overlapped](super::Balancing::Overlapped); otherwise hooks are the ends of passes.
    pub hook: f64,
}

/// What came of a simulated loop.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopRun {
    /// Seconds until the end.
    pub elapsed: f64,
    /// Seconds on one rank of speed 1 without load and without noise.
    pub sequential: f64,
    /// Speed of each rank, and seconds that competing processes had.
    pub ranks: Vec<RankTime>,
    /// Movements made.
    pub movements: u64,
    /// Seconds that they took.
    pub moving: f64,
    /// Units of each rank in the end.
    pub held: Vec<u64>,
    /// All that the balancer decided.
    pub decisions: Vec<LoopDecision>,
}

impl LoopSystem {
    /// Equal ranks without loads, on which a pass takes `pass` seconds. Movements, interactions and hooks cost nothing. More than
    /// a million ranks become one more than that, which is refused when the loop is [run](LoopSystem::run).
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

    /// # Errors
    /// [`ErrorKind::Loop`] if it cannot be used, naming what cannot.
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
                    "the load beside rank {} is off for {} s and on for {} s, which must be {AMOUNT}, and on more \
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
    /// [`efficiency`], with what competing processes had taken off.
    pub fn efficiency(&self) -> f64 {
        efficiency(self.sequential, self.elapsed, &self.ranks)
    }
}
