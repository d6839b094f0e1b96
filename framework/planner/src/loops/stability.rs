//! How long things are likely to stay as they are.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Gaps between changes that count.
const GAPS: usize = 5;

/// Estimates for how long rates stay as they are, by how often they have changed.
///
/// A *change* is a saving that passes from below to above the threshold, or that is above it again after a movement.
/// Not each look at which it is above: as long as nothing is moved, that would count one change again and again, the
/// estimate would shrink to one period, and no movement would ever pay. The estimate is the mean of the last five
/// gaps between changes, or the time since the last change if that is longer. The paper speaks of the frequency of
/// past changes only; this is a reconstruction.
///
/// ```
/// use armature_planner::loops::Stability;
///
/// let mut stability = Stability::default();
/// stability.observe(0.0, true);
/// assert_eq!(stability.expected(1.0), None, "one change has no gap");
/// stability.moved();
/// stability.observe(2.0, false);
/// stability.observe(30.0, true);
/// stability.observe(31.0, true);
/// assert_eq!(stability.expected(31.0), Some(30.0));
/// assert_eq!(stability.expected(75.0), Some(45.0));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stability {
    /// When the last changes were.
    changes: VecDeque<f64>,
    /// Whether the saving was above the threshold at the last look, with no movement since.
    above: bool,
}

impl Stability {
    /// A look at `now` (s), with a saving above the threshold or not.
    pub fn observe(&mut self, now: f64, above: bool) {
        if above && !self.above {
            if self.changes.len() > GAPS {
                self.changes.pop_front();
            }
            self.changes.push_back(now);
        }
        self.above = above;
    }

    /// Units were moved: a saving above the threshold is a new change.
    pub fn moved(&mut self) {
        self.above = false;
    }

    /// Seconds for which things are expected to stay as they are; `None` before the second change: no end is in sight.
    pub fn expected(&self, now: f64) -> Option<f64> {
        let (&first, &last) = (self.changes.front()?, self.changes.back()?);
        let gaps = self.changes.len() - 1;
        (gaps > 0).then(|| ((last - first) / gaps as f64).max(now - last))
    }
}
