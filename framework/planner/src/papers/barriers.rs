//! The grain of loops with barriers: dependences in both directions.

use serde::{Deserialize, Serialize};

/// A loop all of whose ranks meet at a barrier after each of its iterations, as relaxation by Jacobi or a sequence of
/// DOALL loops.
///
/// Its efficiency (13) does not depend on the number of iterations, only on how much is done between two
/// barriers: so the grain should be as large as the program allows.
///
/// ```
/// use armature_planner::papers::Barriers;
///
/// let loops = Barriers { ranks: 4, units: 1000, iterations: 50, unit: 1e-4, barrier: 2e-3 };
/// assert!((loops.time() - 1.35).abs() < 1e-12);
/// assert!((loops.efficiency() - 1.25 / 1.35).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Barriers {
    /// Ranks, P.
    pub ranks: usize,
    /// Iterations of the distributed loop, n.
    pub units: u64,
    /// Iterations of the loop around it, each with a barrier, m.
    pub iterations: u64,
    /// Seconds of one iteration of the distributed loop.
    pub unit: f64,
    /// Seconds of a barrier.
    pub barrier: f64,
}

impl Barriers {
    /// Seconds on all ranks, the units spread evenly (11).
    pub fn time(&self) -> f64 {
        let share = self.units as f64 / self.ranks as f64 * self.unit;
        self.iterations as f64 * (self.barrier + share)
    }

    /// Seconds on one rank (12).
    pub fn sequential(&self) -> f64 {
        self.units as f64 * self.unit * self.iterations as f64
    }

    /// The efficiency (13).
    pub fn efficiency(&self) -> f64 {
        let work = self.units as f64 * self.unit;
        work / (self.ranks as f64 * self.barrier + work)
    }
}
