//! Running mean and variance of a series.

use serde::{Deserialize, Serialize};

/// Mean and variance of a series without storage of its values (Welford). The result can be merged with that of another series (Chan, Golub and
/// LeVeque).
///
/// ```
/// use armature_planner::estimate::Running;
///
/// let (mut a, mut b) = (Running::new(), Running::new());
/// [1.0, 2.0].into_iter().for_each(|x| a.add(x));
/// [4.0, 7.0, 13.0, 16.0].into_iter().for_each(|x| b.add(x));
/// assert_eq!((b.mean(), b.variance()), (10.0, 30.0));
/// a.merge(&b);
/// assert_eq!(a.count(), 6);
/// assert!((a.variance() - 37.36666667).abs() < 1e-6);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Running {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Running {
    /// Creates a series without values.
    pub fn new() -> Self {
        Running::default()
    }

    /// Creates a series from its number of values, the sum of the values and the sum of their squares. The variance loses precision if the mean is
    /// much larger than the standard deviation, and is never less than 0.
    pub fn from_sums(count: u64, sum: f64, squares: f64) -> Self {
        if count == 0 {
            return Running::new();
        }
        let mean = sum / count as f64;
        Running { count, mean, squares: (squares - sum * mean).max(0.0) }
    }

    /// Adds a value to the series. NaN makes mean and variance NaN.
    pub fn add(&mut self, value: f64) {
        self.count = self.count.saturating_add(1);
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
    }

    /// Adds all values of another series to this one.
    pub fn merge(&mut self, other: &Running) {
        if other.count == 0 {
            return;
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let (delta, n) = (other.mean - self.mean, a + b);
        self.count = self.count.saturating_add(other.count);
        self.mean += delta * b / n;
        self.squares += other.squares + delta * delta * a * b / n;
    }

    /// Returns the number of values in the series.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean of the series; 0 without values.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// Returns the sample variance (divided by n − 1); 0 with fewer than two values.
    pub fn variance(&self) -> f64 {
        if self.count < 2 { 0.0 } else { self.squares / (self.count - 1) as f64 }
    }

    /// Returns the sample standard deviation of the series.
    pub fn deviation(&self) -> f64 {
        self.variance().sqrt()
    }

    /// Returns the standard error of the mean; 0 with fewer than two values.
    pub fn standard_error(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.variance() / self.count as f64).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[f64]) -> Running {
        let mut running = Running::new();
        values.iter().for_each(|&value| running.add(value));
        running
    }

    #[test]
    fn statistics_of_four_values_are_correct() {
        let running = of(&[4.0, 7.0, 13.0, 16.0]);
        assert_eq!((running.count(), running.mean(), running.variance()), (4, 10.0, 30.0));
        assert!((running.standard_error() - 2.738612788).abs() < 1e-9);
    }

    #[test]
    fn from_sums_equals_adding_values() {
        let running = Running::from_sums(4, 40.0, 16.0 + 49.0 + 169.0 + 256.0);
        assert_eq!((running.count(), running.mean(), running.variance()), (4, 10.0, 30.0));
        assert_eq!(Running::from_sums(0, 0.0, 0.0), Running::new());
    }

    #[test]
    fn merged_statistics_match_known_values() {
        let mut merged = of(&[1.0, 2.0]);
        merged.merge(&of(&[4.0, 7.0, 13.0, 16.0]));
        assert!((merged.mean() - 7.166666667).abs() < 1e-8 && (merged.variance() - 37.36666667).abs() < 1e-7);
        let before = merged;
        merged.merge(&Running::new());
        assert_eq!(merged, before);
        let mut empty = Running::new();
        assert_eq!((empty.deviation(), empty.standard_error()), (0.0, 0.0));
        empty.merge(&before);
        assert_eq!(empty, before);
    }

    proptest! {
        #[test]
        fn merging_equals_adding_all_values(
            a in prop::collection::vec(-1e3..1e3_f64, 0..40),
            b in prop::collection::vec(-1e3..1e3_f64, 0..40),
        ) {
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let all = of(&[a, b].concat());
            prop_assert_eq!(merged.count(), all.count());
            prop_assert!((merged.mean() - all.mean()).abs() < 1e-9);
            prop_assert!((merged.variance() - all.variance()).abs() < 1e-6);
        }
    }
}
