//! Estimate of the time until the rates (units of a loop per second) of the ranks change.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::RECENT;

/// Estimates for how long the rates of ranks stay unchanged, from the frequency of their changes.
///
/// A *change* is a decision of the balancer at which the saving of a new distribution rises above the threshold. A decision directly after a movement
/// is also a change if the saving is above the threshold and units (loop iterations) should move in the opposite direction. Moves in the same
/// direction are not a change, because smoothed rates, and with them the movements, follow a change in steps. A decision without a movement before
/// it, at which the saving is still above the threshold, is not a change either. Otherwise one change would count again and again while no units
/// move, and the estimate would shrink to one period, in which no movement pays. The estimate is the mean of the last five times between changes, or
/// the time since the last change if that is longer. The paper of Siegell and Steenkiste mentions only the frequency of past changes; the rule is a
/// guess. The paper does not say either that moves in the same direction are not a change.
///
/// ```
/// use armature_planner::loops::Stability;
///
/// let mut stability = Stability::default();
/// // 250 units should go from the first rank to the second.
/// stability.observe(0.0, Some(&[-250, 250]));
/// assert_eq!(stability.expected(1.0), None, "one change has no gap");
/// stability.moved();
/// stability.observe(2.0, Some(&[-80, 80]));
/// assert_eq!(stability.expected(2.0), None, "it is still the same");
/// stability.moved();
/// stability.observe(30.0, Some(&[330, -330]));
/// stability.observe(31.0, Some(&[330, -330]));
/// assert_eq!(stability.expected(31.0), Some(30.0));
/// assert_eq!(stability.expected(75.0), Some(45.0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stability {
    /// Times (s) of the last changes of the ranks' rates.
    changes: VecDeque<f64>,
    /// True if a new distribution of units (loop iterations) would have saved at least the threshold at the last decision of the balancer.
    above: bool,
    /// Change of the number of units (loop iterations) of each rank, at the last decision at which a new distribution would have saved at least the
    /// threshold.
    shift: Vec<i64>,
    has_moved: bool,
}

impl Stability {
    /// Records a decision of the balancer at time `now` (s). `shift` is `None` if the saving of a new distribution is below the threshold. Otherwise
    /// it is the change of the number of units (loop iterations) of each rank, or empty if the direction of the moves should be ignored.
    pub fn observe(&mut self, now: f64, shift: Option<&[i64]>) {
        let has_moved = std::mem::take(&mut self.has_moved);
        if let Some(shift) = shift {
            if !self.above || has_moved && !is_same_way(&self.shift, shift) {
                if self.changes.len() > RECENT {
                    self.changes.pop_front();
                }
                self.changes.push_back(now);
            }
            self.shift = shift.to_vec();
        }
        self.above = shift.is_some();
    }

    /// Records that units (loop iterations) were moved between ranks.
    pub fn moved(&mut self) {
        self.has_moved = true;
    }

    /// Returns the seconds for which rates are expected to stay; `None` before the second change.
    pub fn expected(&self, now: f64) -> Option<f64> {
        let (&first, &last) = (self.changes.front()?, self.changes.back()?);
        let gaps = self.changes.len() - 1;
        (gaps > 0).then(|| ((last - first) / gaps as f64).max(now - last))
    }
}

fn is_same_way(a: &[i64], b: &[i64]) -> bool {
    a.iter().zip(b).map(|(&a, &b)| a as f64 * b as f64).sum::<f64>() > 0.0
}
