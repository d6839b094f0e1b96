//! Best possible efficiency of a parallel loop with load balancing, if another process competes with one rank at
//! intervals (section 8 of Siegell and Steenkiste 1997).

use serde::{Deserialize, Serialize};

/// Competing load on one rank of a parallel loop; the load is alternately off and on.
///
/// The model is that of section 8 of the paper of Siegell and Steenkiste. Its figure was not legible; the formula is
/// a reconstruction from its description.
///
/// ```
/// use armature_papers::{Oscillation, Reaction};
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
    /// Number of ranks (P in the paper of Siegell and Steenkiste).
    pub ranks: usize,
    /// Fraction of its processor that the rank has while the load is on (s in the paper of Siegell and Steenkiste).
    pub share: f64,
    /// Seconds without the load in each period (t_a in the paper of Siegell and Steenkiste).
    pub off: f64,
    /// Seconds with the load in each period (t_b in the paper of Siegell and Steenkiste).
    pub on: f64,
}

/// Time that a load balancer takes to react when a competing load starts or stops.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reaction {
    /// Seconds from the end of the load until the balancer begins to move rows or indices of the loop (t_c in the
    /// paper of Siegell and Steenkiste).
    pub to_off: f64,
    /// Seconds that the movement of rows or indices of the loop takes after the end of the load (t_d in the paper of Siegell
    /// and Steenkiste).
    pub move_back: f64,
    /// Seconds from the beginning of the load until the balancer begins to move rows or indices of the loop (t_f in the paper
    /// of Siegell and Steenkiste).
    pub to_on: f64,
    /// Seconds that the movement of rows or indices of the loop takes after the beginning of the load (t_g in the paper of
    /// Siegell and Steenkiste).
    pub move_away: f64,
}

impl Oscillation {
    /// Returns the efficiency, relative to a run without any load, if the rows or indices of the loop are redistributed
    /// optimally whenever the load starts or stops.
    pub fn balanced(&self, reaction: &Reaction) -> f64 {
        let (p, capacity) = (self.ranks as f64, self.capacity());
        let Reaction { to_off, move_back, to_on, move_away } = *reaction;
        let settled_off = (self.off - to_off - move_back).max(0.0);
        let settled_on = (self.on - to_on - move_away).max(0.0);
        let done = capacity * to_off + p * settled_off + p * self.share * to_on + capacity * settled_on;
        done / self.available()
    }

    /// Returns the efficiency if all ranks keep equal numbers of rows or indices of the loop for the whole run.
    pub fn unbalanced(&self) -> f64 {
        self.ranks as f64 * (self.off + self.share * self.on) / self.available()
    }

    /// Returns the efficiency if each rank keeps the number of rows or indices of the loop that is optimal while the load is
    /// on.
    pub fn unchanged(&self) -> f64 {
        self.capacity() * (self.off + self.on) / self.available()
    }

    /// Returns the number of processors that the loop has while the competing load is on (c in the paper of Siegell
    /// and Steenkiste).
    fn capacity(&self) -> f64 {
        self.ranks as f64 - 1.0 + self.share
    }

    /// Returns the processor seconds that the competing load leaves to the loop in one period of the load.
    fn available(&self) -> f64 {
        self.ranks as f64 * self.off + self.capacity() * self.on
    }
}
