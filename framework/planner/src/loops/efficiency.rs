//! Efficiency of a parallel program on its processors.

use serde::{Deserialize, Serialize};

/// Speed and competing load of a rank during a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankTime {
    /// Speed of the rank's processor, relative to the processor on which the sequential time was measured (1).
    pub speed: f64,
    /// CPU seconds that other processes had on the rank's processor.
    pub competing: f64,
}

impl RankTime {
    /// Creates a rank on a processor of speed 1 with `competing` CPU seconds of other processes.
    pub fn with_competing(competing: f64) -> Self {
        RankTime { speed: 1.0, competing }
    }
}

/// Returns the productive time as a fraction of the available time: equation 2 of Siegell and Steenkiste (1997), `t_seq / (P t_elapsed − Σ
/// compete_i)` for P ranks, where each rank counts by its speed and other processes on its processor use `compete_i` seconds.
///
/// `sequential` is the time (s) of the program on one processor of speed 1 without other load, and `elapsed` the time (s) of the parallel run.
///
/// ```
/// use armature_planner::loops::{RankTime, efficiency};
///
/// let mut ranks = [RankTime::with_competing(0.0); 4];
/// ranks[0].competing = 20.0;
/// assert!((efficiency(100.0, 40.0, &ranks) - 100.0 / 140.0).abs() < 1e-12);
/// // A rank of three times the speed is as good as three.
/// let unequal = [RankTime { speed: 3.0, competing: 0.0 }, RankTime::with_competing(0.0)];
/// assert_eq!(efficiency(100.0, 50.0, &unequal), 0.5);
/// ```
pub fn efficiency(sequential: f64, elapsed: f64, ranks: &[RankTime]) -> f64 {
    let available: f64 = ranks.iter().map(|rank| rank.speed * (elapsed - rank.competing)).sum();
    sequential / available
}
