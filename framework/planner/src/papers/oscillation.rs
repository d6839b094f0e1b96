//! What balancing can reach where a load on one rank comes and goes.

use serde::{Deserialize, Serialize};

/// A load on one rank that is off and on in turn.
///
/// The model is that of the paper's section 8. Its figure could not be read; the formula was reconstructed from its
/// description.
///
/// ```
/// use armature_planner::papers::{Oscillation, Reaction};
///
/// let load = Oscillation { ranks: 4, share: 0.5, off: 30.0, on: 30.0 };
/// assert!((load.unbalanced() - 0.8).abs() < 1e-12);
/// // A distribution that suits the load and stays: the rank idles for half of the time without it.
/// assert!((load.unchanged() - 7.0 / 7.5).abs() < 1e-12);
/// let reaction = Reaction { to_off: 4.5, move_back: 0.3, to_on: 2.5, move_away: 0.3 };
/// assert!((load.balanced(&reaction) - 0.96333).abs() < 1e-5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Oscillation {
    /// Ranks, P.
    pub ranks: usize,
    /// The part of its processor that the rank has beside the load, s.
    pub share: f64,
    /// Seconds without the load, t_a.
    pub off: f64,
    /// Seconds with it, t_b.
    pub on: f64,
}

/// How long a balancer takes to follow a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reaction {
    /// Seconds from the load's end until units move, t_c.
    pub to_off: f64,
    /// Seconds of that movement, t_d.
    pub move_back: f64,
    /// Seconds from the load's beginning until units move, t_f.
    pub to_on: f64,
    /// Seconds of that movement, t_g.
    pub move_away: f64,
}

impl Oscillation {
    /// Efficiency with units that suit both, and move: relative to that without any load.
    pub fn balanced(&self, reaction: &Reaction) -> f64 {
        let (p, capacity) = (self.ranks as f64, self.capacity());
        let Reaction { to_off, move_back, to_on, move_away } = *reaction;
        let settled_off = (self.off - to_off - move_back).max(0.0);
        let settled_on = (self.on - to_on - move_away).max(0.0);
        let done = capacity * to_off + p * settled_off + p * self.share * to_on + capacity * settled_on;
        done / self.available()
    }

    /// Efficiency with equal shares that stay.
    pub fn unbalanced(&self) -> f64 {
        self.ranks as f64 * (self.off + self.share * self.on) / self.available()
    }

    /// Efficiency with the shares that suit the load, if they stay also while it is off.
    pub fn unchanged(&self) -> f64 {
        self.capacity() * (self.off + self.on) / self.available()
    }

    /// Processors that are left while the load is on, c.
    fn capacity(&self) -> f64 {
        self.ranks as f64 - 1.0 + self.share
    }

    /// Processor seconds in a period that the load leaves.
    fn available(&self) -> f64 {
        self.ranks as f64 * self.off + self.capacity() * self.on
    }
}
