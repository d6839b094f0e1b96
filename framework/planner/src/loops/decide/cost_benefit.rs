//! Cost of moving units (loop iterations) between ranks, fitted to past movements.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::range;

/// Number of past movements of units (loop iterations) to which costs are fitted.
const MEMORY: usize = 16;

/// Seconds of a movement of units (loop iterations) between ranks: `fixed + per_unit × units`, with the number of units that the
/// [busiest](crate::loops::busiest) rank sends and receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MovementCosts {
    /// Seconds of a movement of units (loop iterations) that do not depend on the number of units.
    pub fixed: f64,
    /// Additional seconds for each unit (loop iteration) that the busiest rank sends and receives.
    pub per_unit: f64,
}

impl MovementCosts {
    /// Returns the seconds of a movement in which the busiest rank sends and receives `units` units (loop iterations).
    pub fn time(&self, units: u64) -> f64 {
        self.fixed + self.per_unit * units as f64
    }
}

/// Fits [`MovementCosts`] to the last 16 movements of units (loop iterations).
///
/// The first movement is used only until there is a second one, because it touches new memory and opens connections, and takes many times as long.
/// This rule is an addition to the paper of Siegell and Steenkiste.
///
/// The slope is the median of the slopes between any two movements, and the fixed part the median of the residuals (Theil and Sen), so that single
/// outliers have no effect. Neither is less than 0. While all movements have the same size, costs are assumed to be in proportion to the size. The
/// paper says only that predictions are made from the amount and from past times; the form of the model is a guess.
///
/// ```
/// use armature_planner::loops::{MovementCosts, MovementFit};
///
/// let mut fit = MovementFit::default();
/// assert_eq!(fit.costs(), None);
/// fit.add(100, 3.0);
/// assert_eq!(fit.costs(), Some(MovementCosts { fixed: 0.0, per_unit: 0.03 }));
/// for (units, seconds) in [(20, 0.18), (50, 0.30), (70, 9.0), (10, 0.14), (30, 0.22)] {
///     fit.add(units, seconds);
/// }
/// let costs = fit.costs().unwrap();
/// assert!((costs.fixed - 0.1).abs() < 1e-9 && (costs.per_unit - 0.004).abs() < 1e-9, "{costs:?}");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MovementFit {
    /// First movement of units (loop iterations): the number of units that the busiest rank sent and received, and the seconds.
    first: Option<(u64, f64)>,
    /// Later movements of units (loop iterations): the number of units that the busiest rank sent and received, and the seconds.
    seen: VecDeque<(u64, f64)>,
}

impl MovementFit {
    /// Records a movement of units (loop iterations) that took `seconds`, in which the busiest rank sent and received `units` units. A movement
    /// without units or without a valid time is ignored.
    pub fn add(&mut self, units: u64, seconds: f64) {
        let Some(seconds) = range::amount(seconds).filter(|_| units > 0) else { return };
        if self.first.is_none() {
            self.first = Some((units, seconds));
            return;
        }
        if self.seen.len() == MEMORY {
            self.seen.pop_front();
        }
        self.seen.push_back((units, seconds));
    }

    /// Returns the fitted costs of a movement of units (loop iterations); `None` before the first movement.
    pub fn costs(&self) -> Option<MovementCosts> {
        let proportional = || {
            let first = self.first.iter().filter(|_| self.seen.is_empty());
            let each = self.seen.iter().chain(first).map(|&(units, seconds)| seconds / units as f64);
            median(each.collect()).map(|per_unit| MovementCosts { fixed: 0.0, per_unit })
        };
        let mut slopes = Vec::new();
        for (i, &(a, at)) in self.seen.iter().enumerate() {
            let others = self.seen.iter().skip(i + 1).filter(|&&(b, _)| b != a);
            slopes.extend(others.map(|&(b, bt)| (bt - at) / (b as f64 - a as f64)));
        }
        let Some(slope) = median(slopes) else { return proportional() };
        let per_unit = slope.max(0.0);
        let rest = self.seen.iter().map(|&(units, seconds)| seconds - per_unit * units as f64);
        match median(rest.collect()) {
            Some(fixed) if fixed >= 0.0 => Some(MovementCosts { fixed, per_unit }),
            _ => proportional(),
        }
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some(0.5 * (low + high))
}
