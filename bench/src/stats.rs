//! Medians, quantiles, and their confidence intervals.

use crate::verdict::Interval;

/// Returns the `q`-quantile (0 ≤ q ≤ 1), interpolated between neighbours (the usual "type 7"). NaN for no samples.
pub fn quantile(samples: &[f64], q: f64) -> f64 {
    let sorted = sorted(samples);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = q.clamp(0.0, 1.0) * last as f64;
    let (below, part) = (place.floor() as usize, place.fract());
    sorted[below] + part * (sorted[(below + 1).min(last)] - sorted[below])
}

/// Returns the median. NaN for no samples.
pub fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// Returns the arithmetic mean. NaN for no samples.
pub fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

/// Formats the smallest and the largest sample with three decimals; a dash for no samples.
pub fn spread(samples: &[f64]) -> String {
    match sorted(samples)[..] {
        [] => "-".to_string(),
        [least, .., most] => format!("{least:.3} to {most:.3}"),
        [only] => format!("{only:.3}"),
    }
}

/// Returns the ratios of paired samples: `a[i] / b[i]`.
///
/// # Panics
/// If the numbers of samples differ.
pub fn paired_ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    assert_eq!(a.len(), b.len(), "pairs need as many samples on both sides");
    a.iter().zip(b).map(|(a, b)| a / b).collect()
}

/// Returns the median with its 95 % interval by order statistics, which makes no assumption about the distribution.
///
/// The interval reaches from the j-th smallest to the j-th largest sample, for the largest j with P(Binomial(n, 1/2)
/// < j) ≤ 2.5 %. For fewer than six samples no such j exists, and the interval is infinite.
pub fn median_interval(samples: &[f64]) -> Interval {
    let sorted = sorted(samples);
    let j = rank_of_interval(sorted.len());
    let (low, high) = match j {
        0 => (f64::NEG_INFINITY, f64::INFINITY),
        j => (sorted[j - 1], sorted[sorted.len() - j]),
    };
    Interval { value: median(samples), low, high }
}

fn rank_of_interval(n: usize) -> usize {
    let mut log_probability = -(n as f64) * std::f64::consts::LN_2;
    let mut below = 0.0;
    for j in 0..=n {
        below += log_probability.exp();
        if below > 0.025 {
            return j;
        }
        log_probability += ((n - j) as f64).ln() - ((j + 1) as f64).ln();
    }
    0
}

/// Returns the mean with its 95 % interval by Student's t, for averages over many independent instances.
///
/// The interval is infinite for fewer than two samples.
pub fn mean_interval(samples: &[f64]) -> Interval {
    let (value, n) = (mean(samples), samples.len() as f64);
    if samples.len() < 2 {
        return Interval { value, low: f64::NEG_INFINITY, high: f64::INFINITY };
    }
    let variance = samples.iter().map(|sample| (sample - value).powi(2)).sum::<f64>() / (n - 1.0);
    let half = student_975(n - 1.0) * (variance / n).sqrt();
    Interval { value, low: value - half, high: value + half }
}

/// Returns the 97.5 % quantile of Student's t (Abramowitz and Stegun 26.7.5; error within 1 % for three or more
/// degrees of freedom).
fn student_975(degrees: f64) -> f64 {
    // Exact quantiles, because the series is too imprecise for one and two degrees of freedom.
    match degrees {
        d if d < 1.5 => return 12.706,
        d if d < 2.5 => return 4.303,
        _ => {}
    }
    let z: f64 = 1.959_964;
    let powers = |exponent| z.powi(exponent);
    z + (powers(3) + z) / (4.0 * degrees)
        + (5.0 * powers(5) + 16.0 * powers(3) + 3.0 * z) / (96.0 * degrees.powi(2))
        + (3.0 * powers(7) + 19.0 * powers(5) + 17.0 * powers(3) - 15.0 * z) / (384.0 * degrees.powi(3))
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let samples = [4.0, 1.0, 3.0, 2.0];
        assert_eq!((median(&samples), quantile(&samples, 0.0), quantile(&samples, 1.0)), (2.5, 1.0, 4.0));
        assert!((quantile(&samples, 0.25) - 1.75).abs() < 1e-12);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn spread_reaches_from_minimum_to_maximum() {
        assert_eq!(spread(&[0.5, 0.25, 0.75]), "0.250 to 0.750");
        assert_eq!([spread(&[0.5]), spread(&[])], ["0.500", "-"]);
    }

    #[test]
    fn order_statistics_of_the_median_interval_match_published_tables() {
        // Numbers of samples n and ranks j for the 95 % interval of the median, from Conover, Practical Nonparametric
        // Statistics.
        for (n, j) in
            [(5, 0), (6, 1), (8, 1), (9, 2), (10, 2), (15, 4), (20, 6), (25, 8), (50, 18), (100, 40)]
        {
            assert_eq!(rank_of_interval(n), j, "{n} samples");
        }
        let large = rank_of_interval(10_000);
        assert!((4890..=4910).contains(&large), "{large}");
    }

    #[test]
    fn interval_of_the_median_is_bounded_by_samples() {
        let samples: Vec<f64> = (1..=20).map(f64::from).collect();
        let interval = median_interval(&samples);
        assert_eq!((interval.low, interval.value, interval.high), (6.0, 10.5, 15.0));
        assert_eq!(median_interval(&samples[..5]).high, f64::INFINITY);
    }

    #[test]
    fn interval_of_the_mean_uses_students_t() {
        for (degrees, t) in
            [(1.0, 12.706), (2.0, 4.303), (3.0, 3.182), (4.0, 2.776), (9.0, 2.262), (99.0, 1.984)]
        {
            assert!((student_975(degrees) / t - 1.0).abs() < 0.01, "{degrees}: {}", student_975(degrees));
        }
        let interval = mean_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((interval.high - 4.963).abs() < 0.01 && (interval.value - 3.0).abs() < 1e-12);
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        assert_eq!(paired_ratios(&[2.0, 9.0], &[1.0, 3.0]), [2.0, 3.0]);
    }
}
