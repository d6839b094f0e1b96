//! Tests of rate estimators and sampling periods with arbitrary samples and options: no call panics.

use armature_papers::{
    Period, PeriodOptions, PeriodState, RateEstimator, RateOptions, Sample, gaussian, laplacian_of_gaussian,
    reading_probability, writing_probability,
};
use armature_planner::estimate::Running;
use proptest::prelude::*;

use crate::numbers::{count, in_time, index, mostly_positive, number, some};

fn options() -> impl Strategy<Value = RateOptions> {
    let numbers = (mostly_positive(), mostly_positive(), mostly_positive(), mostly_positive());
    (index(), index(), any::<(bool, bool, bool)>(), numbers, index(), count()).prop_map(
        |(window, radius, (normalise, zero_sum, relative), numbers, convergence_window, min_quantiles)| {
            let (quantile, log_sigma, tolerance, deviation) = numbers;
            RateOptions {
                window,
                radius,
                normalise,
                quantile,
                log_sigma,
                zero_sum,
                relative,
                tolerance,
                convergence_window,
                min_quantiles,
                deviation,
            }
        },
    )
}

proptest! {
    #[test]
    fn rate_of_any_samples_is_finite(
        options in options(),
        period in mostly_positive(),
        samples in prop::collection::vec((number(), number(), any::<bool>()), 0..60),
    ) {
        in_time(move || {
            let chosen = RateEstimator::new(period, options).ok();
            let usual = RateEstimator::new(1.0, RateOptions { window: 6, ..RateOptions::default() }).ok();
            for mut estimator in chosen.into_iter().chain(usual) {
                let period = estimator.period();
                for &(items, length, blocked) in &samples {
                    let _ = estimator.add(Sample { items, period: length, blocked });
                    let _ = estimator.add(Sample { items, period, blocked: false });
                    // Invalid samples must not make later estimates infinite or NaN.
                    let rate = estimator.estimate().map(|found| found.rate);
                    assert!(rate.is_none_or(f64::is_finite), "{rate:?}");
                }
            }
        });
    }

    #[test]
    fn period_search_accepts_any_observations(
        latency in mostly_positive(),
        (deviation, growth) in (mostly_positive(), number()),
        (unblocked, stable, patience, longest) in (0..4_u32, any::<u32>(), any::<u32>(), count()),
        periods in prop::collection::vec((number(), any::<bool>()), 0..60),
    ) {
        in_time(move || {
            let options = PeriodOptions { unblocked, stable, deviation, patience, growth, longest };
            for mut period in [Period::new(latency, options), Period::new(1e-6, PeriodOptions::default())].into_iter().flatten() {
                for &(realised, blocked) in &periods {
                    period.observe(realised, blocked);
                    period.observe(period.seconds(), blocked);
                }
                assert!(period.seconds() > 0.0, "{period:?}");
                let quick = PeriodOptions { unblocked: 1, stable: 1, longest, ..options };
                if let Ok(mut all) = Period::new(latency, quick) {
                    let mut looks = 0;
                    while all.state() == PeriodState::Searching && looks < 1000 {
                        all.observe(all.seconds(), false);
                        looks += 1;
                    }
                }
            }
        });
    }

    #[test]
    fn series_and_formulas_accept_any_numbers(
        values in some(number()),
        sums in some((count(), number(), number())),
        (radius, sigma) in (index(), number()),
        (rate, utilisation, period, capacity) in (number(), number(), number(), count()),
    ) {
        in_time(move || {
            let mut running = Running::new();
            values.iter().for_each(|&value| running.add(value));
            for (count, sum, squares) in sums {
                running.merge(&Running::from_sums(count, sum, squares));
                running.add(1.0);
            }
            let _ = (running.mean(), running.variance(), running.deviation(), running.standard_error());
            assert!(gaussian(radius, true).len() <= 1 << 17);
            let _ = laplacian_of_gaussian(sigma, true);
            let _ = (reading_probability(rate, utilisation, period), writing_probability(rate, utilisation, period, capacity));
        });
    }
}

#[test]
fn huge_windows_are_refused_without_allocation() {
    for (window, radius) in [(usize::MAX, 2), (1 << 40, 2), (64, usize::MAX), (usize::MAX, usize::MAX)] {
        let options = RateOptions { window, radius, ..RateOptions::default() };
        assert!(
            RateEstimator::new(1.0, options).unwrap_err().message().contains("window"),
            "{window} {radius}"
        );
    }
}
