//! Weights of the Gaussian filter and of the Laplacian-of-Gaussian filter.

use std::f64::consts::PI;

use super::options::MOST_SAMPLES;

/// Returns the weights of a Gaussian of standard deviation 1 at −radius … radius (equation 2 of
/// Beard and Chamberlain 2015), divided by their sum if `normalise`.
///
/// The weights beyond a radius of 40 are 0. A radius beyond 32,768, half of the largest window, is reduced to this limit.
///
/// ```
/// let raw = armature_papers::gaussian(2, false);
/// assert!((raw[2] - 0.3989422804).abs() < 1e-9 && (raw.iter().sum::<f64>() - 0.990866).abs() < 1e-6);
/// ```
pub fn gaussian(radius: usize, normalise: bool) -> Vec<f64> {
    let radius = radius.min(MOST_SAMPLES / 2);
    let mut weights: Vec<f64> = offsets(radius).map(|x| (-0.5 * x * x).exp() / (2.0 * PI).sqrt()).collect();
    if normalise {
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= sum);
    }
    weights
}

/// Returns the weights of a Laplacian of Gaussian of radius 1 and standard deviation `sigma` (equation 4 of Beard and
/// Chamberlain 2015). If `zero_sum` is true, the mean of the weights is subtracted from them. If `sigma` is not more
/// than 0, the weights are not valid.
///
/// ```
/// let log = armature_papers::laplacian_of_gaussian(0.5, true);
/// assert!((log[1] + 2.991547626).abs() < 1e-9 && log.iter().sum::<f64>().abs() < 1e-12);
/// ```
pub fn laplacian_of_gaussian(sigma: f64, zero_sum: bool) -> [f64; 3] {
    let weight = |x: f64| {
        let bell = (-0.5 * (x / sigma).powi(2)).exp() / (2.0 * PI).sqrt();
        x * x * bell / sigma.powi(5) - bell / sigma.powi(3)
    };
    let weights = [-1.0, 0.0, 1.0].map(weight);
    let mean = if zero_sum { weights.iter().sum::<f64>() / 3.0 } else { 0.0 };
    weights.map(|weight| weight - mean)
}

fn offsets(radius: usize) -> impl Iterator<Item = f64> {
    (0..=2 * radius).map(move |i| i as f64 - radius as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(values: &[f64], expected: &[f64]) {
        assert_eq!(values.len(), expected.len());
        for (value, expected) in values.iter().zip(expected) {
            assert!((value / expected - 1.0).abs() < 1e-8, "{values:?}");
        }
    }

    #[test]
    fn weights_match_hand_computed_values() {
        assert_near(
            &gaussian(2, false),
            &[0.05399096651, 0.2419707245, 0.3989422804, 0.2419707245, 0.05399096651],
        );
        assert_near(
            &gaussian(2, true),
            &[0.05448868455, 0.244201342, 0.4026199469, 0.244201342, 0.05448868455],
        );
        assert_near(&laplacian_of_gaussian(0.5, false), &[1.295783196, -3.191538243, 1.295783196]);
        assert_near(&laplacian_of_gaussian(0.5, true), &[1.495773813, -2.991547626, 1.495773813]);
    }
}
