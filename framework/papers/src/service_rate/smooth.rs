//! Sliding window of samples, smoothed with a Gaussian.

use armature_planner::estimate::Running;

use super::kernel::gaussian;
use super::options::RateOptions;

/// Last w samples (items per sampling period) after a Gaussian filter: w − 2·radius values, because there is no
/// padding.
///
/// A new sample adds one smoothed value and leaves the others unchanged. The window therefore stores only the
/// smoothed values, and as many raw samples as the kernel is wide.
#[derive(Clone, Debug)]
pub(super) struct Smooth {
    kernel: Vec<f64>,
    raw: Ring,
    smoothed: Ring,
}

impl Smooth {
    pub(super) fn new(options: &RateOptions) -> Self {
        let kernel = gaussian(options.radius, options.normalise);
        Smooth {
            raw: Ring::new(kernel.len()),
            smoothed: Ring::new(options.window + 1 - kernel.len()),
            kernel,
        }
    }

    /// Adds a sample and returns mean + `z` · standard deviation of the smoothed window (equation 3 of the paper of Beard and Chamberlain), or `None`
    /// until the window is full.
    pub(super) fn add(&mut self, sample: f64, z: f64) -> Option<f64> {
        self.raw.add(sample);
        if !self.raw.is_full() {
            return None;
        }
        // The samples are in chronological order; the opposite order would give the same result, because the kernel
        // is symmetric.
        let (newer, older) = self.raw.parts();
        let value = older.iter().chain(newer).zip(&self.kernel).map(|(sample, weight)| sample * weight).sum();
        self.smoothed.add(value);
        if !self.smoothed.is_full() {
            return None;
        }
        let window = self.statistics();
        Some(window.mean() + z * window.deviation())
    }

    fn statistics(&self) -> Running {
        let mut window = Running::new();
        self.smoothed.values.iter().for_each(|&value| window.add(value));
        window
    }
}

#[derive(Clone, Debug)]
struct Ring {
    values: Vec<f64>,
    next: usize,
    most: usize,
}

impl Ring {
    fn new(most: usize) -> Self {
        Ring { values: Vec::with_capacity(most), next: 0, most }
    }

    fn add(&mut self, value: f64) {
        if self.values.len() < self.most {
            self.values.push(value);
        } else {
            self.values[self.next] = value;
            self.next = (self.next + 1) % self.most;
        }
    }

    fn is_full(&self) -> bool {
        self.values.len() == self.most
    }

    /// Returns the two contiguous parts of a full ring buffer, the part with the older values last.
    fn parts(&self) -> (&[f64], &[f64]) {
        self.values.split_at(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES: [f64; 16] = [
        200.0, 198.0, 201.0, 140.0, 202.0, 199.0, 60.0, 203.0, 300.0, 198.0, 200.0, 201.0, 199.0, 200.0,
        150.0, 200.0,
    ];
    const SMOOTHED: [f64; 12] = [
        183.6778718,
        174.8005349,
        176.7060585,
        161.3047451,
        148.3122333,
        189.5291575,
        230.7505959,
        221.7882843,
        203.2762675,
        198.2221221,
        195.3166126,
        185.8866165,
    ];

    #[test]
    fn quantiles_match_a_hand_computed_window() {
        let options = RateOptions { window: 16, normalise: false, ..RateOptions::default() };
        let mut smooth = Smooth::new(&options);
        let quantiles: Vec<Option<f64>> = SAMPLES.iter().map(|&sample| smooth.add(sample, 1.64485)).collect();
        assert!(quantiles[..15].iter().all(Option::is_none));
        assert!((quantiles[15].unwrap() - 227.4191153).abs() < 1e-6, "{quantiles:?}");
        for (value, expected) in smooth.smoothed.values.iter().zip(SMOOTHED) {
            assert!((value - expected).abs() < 1e-6, "{value}");
        }
        let window = smooth.statistics();
        assert!((window.mean() - 189.130925).abs() < 1e-6 && (window.deviation() - 23.27761823).abs() < 1e-6);
    }

    #[test]
    fn samples_outside_the_window_have_no_effect() {
        let options = RateOptions::default();
        let (mut a, mut b) = (Smooth::new(&options), Smooth::new(&options));
        for i in 0..100 {
            a.add(f64::from(i), 1.0);
        }
        let (mut from_a, mut from_b) = (None, None);
        for i in 0..options.window {
            let sample = (i % 7) as f64;
            (from_a, from_b) = (a.add(sample, 1.0), b.add(sample, 1.0));
        }
        assert!((from_a.unwrap() - from_b.unwrap()).abs() < 1e-12);
    }
}
