//! Efficiency of a parallel loop with a barrier after each iteration, because its iterations have dependences in both
//! directions.

use serde::{Deserialize, Serialize};

/// Loop whose ranks meet at a barrier after each iteration, such as Jacobi relaxation or a sequence of DOALL loops.
///
/// The efficiency (equation 13 of Siegell and Steenkiste 1997) does not depend on the number of iterations, only on the work between two barriers.
/// The program should therefore compute as much as possible between two barriers.
///
/// ```
/// use armature_papers::Barriers;
///
/// let loops = Barriers { ranks: 4, units: 1000, iterations: 50, unit: 1e-4, barrier: 2e-3 };
/// assert!((loops.time() - 1.35).abs() < 1e-12);
/// assert!((loops.efficiency() - 1.25 / 1.35).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Barriers {
    /// Number of ranks (P in the paper of Siegell and Steenkiste).
    pub ranks: usize,
    /// Number of iterations of the distributed loop (n in the paper of Siegell and Steenkiste).
    pub units: u64,
    /// Number of iterations of the outer loop, each of which ends with a barrier (m in the paper of Siegell and Steenkiste).
    pub iterations: u64,
    /// Seconds of one iteration of the distributed loop.
    pub unit: f64,
    /// Seconds of a barrier.
    pub barrier: f64,
}

impl Barriers {
    /// Returns the run time in seconds on all ranks, if each has the same number of iterations of the distributed
    /// loop (equation 11 of Siegell and Steenkiste 1997).
    pub fn time(&self) -> f64 {
        let share = self.units as f64 / self.ranks as f64 * self.unit;
        self.iterations as f64 * (self.barrier + share)
    }

    /// Returns the run time in seconds on one rank (equation 12 of Siegell and Steenkiste 1997).
    pub fn sequential(&self) -> f64 {
        self.units as f64 * self.unit * self.iterations as f64
    }

    /// Returns the efficiency of the loop: computing time divided by the total time of all ranks (equation 13 of
    /// Siegell and Steenkiste 1997).
    pub fn efficiency(&self) -> f64 {
        let work = self.units as f64 * self.unit;
        work / (self.ranks as f64 * self.barrier + work)
    }
}
