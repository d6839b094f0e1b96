//! Balancing of parallel loops whose iterations can move between ranks: grain, balancing period, and moves.
//!
//! The iterations of a distributed loop, its *units*, are distributed over ranks. Each rank reports how many units it did in how much computing
//! time. A [`LoopBalancer`] redistributes the units in proportion to the resulting rates if that pays, and computes the moves between ranks.
//! Because rates are in units per second, ranks of unequal speed need no special treatment.
//!
//! The methods are those of Siegell and Steenkiste, *Automatic selection of load balancing parameters using compile-time and run-time information*,
//! Concurrency: Practice and Experience 9 (1997), unless a comment calls them a guess or a reconstruction, because the available copy of the paper
//! does not give them. Numbers in parentheses are the equations of that paper. Times are in seconds, rates in units per second.
//!
//! | question | answer |
//! |---|---|
//! | how many iterations between two messages of a pipelined loop? | [`Sweep`] |
//! | how often does the balancer compare rates? | [`PeriodLimits`], [`PeriodChooser`] |
//! | how fast is a rank? | [`RateAccumulator`], [`Smoothing`], [`RateFilter`] |
//! | how many units should each rank have, and how much time would that save? | [`distribute`], [`reduction`] |
//! | which rank sends which units to which rank? | [`direct_moves`], [`neighbour_moves`], [`rounds`], [`block_moves`] |
//! | what does a movement cost, and for how long does it pay? | [`MovementFit`], [`Stability`] |
//! | how do these parts work together? | [`LoopBalancer`] |
//! | what is the best possible result? | [`efficiency`] |
//!
//! The crate `armature-papers` runs a balancer on simulated ranks with competing loads.

mod balancer;
#[cfg(test)]
mod balancer_tests;
mod decide;
mod distribution;
mod efficiency;
mod moves;
mod options;
#[cfg(test)]
mod property_tests;
mod rates;
#[cfg(test)]
mod reference_tests;
mod rounds;
mod sweep;

pub use balancer::LoopBalancer;
pub use decide::cost_benefit::{MovementCosts, MovementFit};
pub use decide::decision::LoopDecision;
pub use decide::period::{PeriodChooser, PeriodLimits, PeriodOptions, phases_between};
pub use decide::stability::Stability;
pub use distribution::{distribute, pass_time, reduction};
pub use efficiency::{RankTime, efficiency};
pub use moves::{Move, Reach, busiest, direct_moves, neighbour_moves};
pub use options::LoopOptions;
pub use rates::filter::{RateFilter, Smoothing, Trend, TrendTable};
pub use rates::interaction::{Ahead, Interaction, Report};
pub use rates::rate_accumulator::{LEAST_PERIOD, RateAccumulator, SOON, has_averaged_out};
pub use rounds::{BlockMove, block_moves, rounds};
pub use sweep::{Grain, ShiftCost, Sweep};

use crate::error::{Error, ErrorKind, Result};
use crate::range::MOST_RANKS;

/// Checks the number of ranks of a loop.
#[doc(hidden)]
pub fn check_ranks(ranks: usize) -> Result<()> {
    match ranks {
        0 => invalid("a loop needs at least one rank".into()),
        1..=MOST_RANKS => Ok(()),
        _ => invalid(format!("a loop has {MOST_RANKS} ranks at most, but this one {ranks}")),
    }
}

fn invalid<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Loop, message))
}

fn round_half_up(value: f64) -> u64 {
    (value + 0.5).floor() as u64
}
