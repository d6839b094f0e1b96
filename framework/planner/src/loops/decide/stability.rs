//! How long things are likely to stay as they are.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::RECENT;

/// Estimates for how long rates stay as they are, by how often they have changed.
///
/// A *change* is a saving that passes from below to above the threshold, or that is above it again after a movement, but
/// by moves the other way: smoothed rates follow a change in steps, and so do movements. Not each look at which it is
/// above: as long as nothing is moved, that would count one change again and again, the estimate would shrink to one
/// period, and no movement would ever pay. The estimate is the mean of the last five gaps between changes, or the time
/// since the last change if that is longer. The paper speaks of the frequency of past changes only; this is a
/// reconstruction, and that moves the same way are no change an addition.
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
    /// When the last changes were.
    changes: VecDeque<f64>,
    /// Whether the saving was above the threshold at the last look.
    above: bool,
    /// How many units more each rank should have had when it was last.
    shift: Vec<i64>,
    /// Whether units have moved since the last look.
    has_moved: bool,
}

impl Stability {
    /// A look at `now` (s). Where the saving is above the threshold: how many units more each rank should have, or nothing,
    /// if which way units move is not to count.
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

    /// Units were moved.
    pub fn moved(&mut self) {
        self.has_moved = true;
    }

    /// Seconds for which things are expected to stay as they are; `None` before the second change: no end is in sight.
    pub fn expected(&self, now: f64) -> Option<f64> {
        let (&first, &last) = (self.changes.front()?, self.changes.back()?);
        let gaps = self.changes.len() - 1;
        (gaps > 0).then(|| ((last - first) / gaps as f64).max(now - last))
    }
}

/// Whether two shifts are more alike than opposed.
fn is_same_way(a: &[i64], b: &[i64]) -> bool {
    a.iter().zip(b).map(|(&a, &b)| a as f64 * b as f64).sum::<f64>() > 0.0
}
