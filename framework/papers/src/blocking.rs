//! Probability that a server is not blocked in a sampling period (equation 1 of Beard and Chamberlain 2015).

/// Returns the probability that a server has items to read for a whole period, with an M/M/1 queue before it: ρᵏ with k = ⌈μT⌉ items to serve.
///
/// `rate` is μ, the server's items/s; `utilisation` is ρ of the queue, from 0 to 1; `period` is T in seconds.
///
/// ```
/// assert!((armature_papers::reading_probability(1e6, 0.9, 5e-6) - 0.59049).abs() < 1e-12);
/// ```
pub fn reading_probability(rate: f64, utilisation: f64, period: f64) -> f64 {
    utilisation.powf(items(rate, period))
}

/// Returns the probability that a server has space to write for a whole period, with an M/M/1 queue of `capacity` places behind it: 1 − ρ^(C−k+1),
/// or 0 if k = ⌈μT⌉ items do not fit the empty queue.
///
/// ```
/// assert_eq!(armature_papers::writing_probability(2e5, 0.5, 1e-5, 1), 0.0);
/// ```
pub fn writing_probability(rate: f64, utilisation: f64, period: f64, capacity: u64) -> f64 {
    let (k, capacity) = (items(rate, period), capacity as f64);
    if capacity < k { 0.0 } else { 1.0 - utilisation.powf(capacity - k + 1.0) }
}

/// Returns ⌈μT⌉, the number of items that a server with `rate` μ serves in a `period` of T seconds. A product that is
/// whole except for a rounding error counts as whole: 1e6 · 5e-6 s is 5 items, not 6.
fn items(rate: f64, period: f64) -> f64 {
    let product = rate * period;
    let whole = product.round();
    if (product - whole).abs() <= armature_planner::range::ROUNDING * whole { whole } else { product.ceil() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_match_hand_computed_values() {
        assert!((reading_probability(1e6, 0.9, 5e-6) - 0.59049).abs() < 1e-12);
        assert!((reading_probability(2e5, 0.5, 1e-5) - 0.25).abs() < 1e-12);
        assert!((writing_probability(1e6, 0.9, 5e-6, 64) - 0.9982029897).abs() < 1e-9);
        assert_eq!(writing_probability(2e5, 0.5, 1e-5, 1), 0.0);
    }

    #[test]
    fn longer_periods_are_less_likely_without_blocking() {
        let periods = [1e-6, 3e-6, 1e-5, 5e-5];
        let read = periods.map(|period| reading_probability(1e6, 0.8, period));
        let write = periods.map(|period| writing_probability(1e6, 0.8, period, 64));
        assert!(read.is_sorted_by(|a, b| a > b) && write.is_sorted_by(|a, b| a > b), "{read:?} {write:?}");
    }
}
