//! Tests that the rate estimator gives exactly the estimates of a reference implementation, and that it finds the
//! known rates of servers.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Poisson};

use super::*;

/// Numbers from 0 to 1 by the linear congruential generator x ← (1103515245 x + 12345) mod 2³¹.
fn congruential(seed: u64) -> impl Iterator<Item = f64> {
    let mut x = seed;
    std::iter::repeat_with(move || {
        x = (1_103_515_245 * x + 12_345) % (1 << 31);
        x as f64 / (1_u64 << 31) as f64
    })
}

/// Counts of 195 to 204 items in a sampling period, 15 % of which are halved.
fn counts() -> Vec<f64> {
    let mut u = congruential(777);
    let mut next = move || u.next().unwrap();
    (0..4000)
        .map(|_| {
            let whole = (195.0 + 10.0 * next()).floor();
            if next() > 0.15 { whole } else { 0.5 * whole }
        })
        .collect()
}

fn full(items: f64) -> Sample {
    Sample { items, period: 1.0, blocked: false }
}

/// Passes `counts` (items per sampling period) to an estimator. Returns each converged estimate: the index of the
/// last count that it used, and its rate.
fn estimates(options: RateOptions, counts: impl IntoIterator<Item = f64>) -> Vec<(usize, f64)> {
    let mut estimator = RateEstimator::new(1.0, options).unwrap();
    let counts = counts.into_iter().enumerate();
    counts.filter_map(|(i, items)| estimator.add(full(items)).map(|estimate| (i, estimate.rate))).collect()
}

fn assert_first(found: &[(usize, f64)], expected: [(usize, f64); 5]) {
    for (found, expected) in found.iter().zip(expected) {
        assert!(
            found.0 == expected.0 && (found.1 / expected.1 - 1.0).abs() < 1e-6,
            "{found:?}, not {expected:?}"
        );
    }
}

#[test]
fn estimates_match_reference_values() {
    let found = estimates(RateOptions::default(), counts());
    assert_eq!(found.len(), 15);
    let expected = [
        (256, 214.7989858),
        (587, 215.7282085),
        (892, 214.2745231),
        (1072, 214.7380866),
        (1403, 212.3268887),
    ];
    assert_first(&found, expected);
    let found = estimates(RateOptions { tolerance: 1e-4, ..RateOptions::default() }, counts());
    assert_eq!(found.len(), 100);
    let expected =
        [(74, 214.9550232), (118, 209.4802518), (156, 217.2244108), (185, 218.2899298), (213, 213.9298556)];
    assert_first(&found, expected);
}

#[test]
fn rate_is_items_divided_by_time() {
    let mut estimator = RateEstimator::new(0.001, RateOptions::default()).unwrap();
    let mut sample = || estimator.add(Sample { items: 205.0, period: 0.001, blocked: false });
    let estimate = (0..1000).find_map(|_| sample()).unwrap();
    assert!((estimate.bytes_per_second(8.0) - 1_640_000.0).abs() < 1e-3);
    // The window of samples is full after 31 samples, the convergence filter needs two more, and sixteen filtered
    // values must be within the tolerance.
    assert_eq!((estimate.samples, estimate.quantiles), (49, 18));
}

#[test]
fn uninformative_periods_are_excluded() {
    let mut estimator = RateEstimator::new(1.0, RateOptions::default()).unwrap();
    for i in 0..4000 {
        let sample = match i % 5 {
            0 => Sample { blocked: true, ..full(3.0) },
            1 => Sample { period: 1.02, ..full(900.0) },
            2 => full(f64::NAN),
            _ => full(100.0),
        };
        estimator.add(sample);
    }
    let estimate = estimator.estimate().unwrap();
    assert!((estimate.rate - 100.0).abs() < 1e-9 && estimate.converged, "{estimate:?}");
    assert!(estimate.samples <= 1600);
}

#[test]
fn estimate_is_unconverged_before_convergence() {
    let mut estimator = RateEstimator::new(1.0, RateOptions::default()).unwrap();
    (0..31).for_each(|_| assert_eq!(estimator.add(full(7.0)), None));
    assert_eq!(estimator.estimate(), None);
    estimator.add(full(7.0));
    let estimate = estimator.estimate().unwrap();
    assert!((estimate.rate - 7.0).abs() < 1e-9 && !estimate.converged);
}

#[test]
fn rate_of_an_idle_server_converges_to_zero() {
    let found = estimates(RateOptions::default(), std::iter::repeat_n(0.0, 100));
    assert_eq!(found.first(), Some(&(48, 0.0)));
}

#[test]
fn rate_error_with_outliers_is_below_20_percent() {
    for seed in 0..20 {
        let mut rng = StdRng::seed_from_u64(seed);
        let poisson = Poisson::new(200.0).unwrap();
        let mut observed = |whole: f64| match rng.random::<f64>() {
            u if u < 0.15 => whole * rng.random_range(0.3..1.0),
            u if u > 0.99 => whole * rng.random_range(1.0..2.0),
            _ => whole,
        };
        let regular: Vec<f64> = (0..3000).map(|_| observed(200.0)).collect();
        let mut counts = StdRng::seed_from_u64(seed + 100);
        let random: Vec<f64> = (0..3000).map(|_| observed(poisson.sample(&mut counts))).collect();
        for counts in [regular, random] {
            let found = estimates(RateOptions::default(), counts);
            assert!(found.len() >= 2, "seed {seed}: {found:?}");
            assert!(found.iter().all(|(_, rate)| (rate / 200.0 - 1.0).abs() < 0.2), "seed {seed}: {found:?}");
        }
    }
}

#[test]
fn estimate_follows_a_changed_rate() {
    let options = RateOptions { tolerance: 1e-5, ..RateOptions::default() };
    let mut rng = StdRng::seed_from_u64(1);
    let mut poisson = |rate: f64| Poisson::new(rate).unwrap().sample(&mut rng);
    let counts: Vec<f64> = (0..2000).map(|i| poisson(if i < 1000 { 300.0 } else { 100.0 })).collect();
    let found = estimates(options, counts);
    let after: Vec<_> = found.iter().filter(|(i, _)| *i >= 1000).collect();
    // The estimate in progress when the server's rate changes is a mixture of both rates; later estimates are not.
    assert!(after.len() >= 3 && after[0].0 < 1600, "{found:?}");
    assert!(after[1..].iter().all(|(_, rate)| (rate / 100.0 - 1.0).abs() < 0.2), "{found:?}");
}

#[test]
fn printed_kernel_underestimates_slightly() {
    let raw = RateOptions { normalise: false, ..RateOptions::default() };
    let (_, rate) = estimates(raw, std::iter::repeat_n(100.0, 100))[0];
    assert!((rate - 99.0866).abs() < 1e-3, "{rate}");
}

#[test]
fn invalid_options_are_refused() {
    let refused = |options: RateOptions| RateEstimator::new(1.0, options).unwrap_err().to_string();
    let good = RateOptions::default();
    assert!(refused(RateOptions { window: 5, ..good }).contains("at least 6"));
    assert!(refused(RateOptions { tolerance: 0.0, ..good }).contains("tolerance"));
    assert!(refused(RateOptions { min_quantiles: 1, ..good }).contains("2 quantiles"));
    assert!(RateEstimator::new(0.0, good).unwrap_err().to_string().contains("period"));
}
