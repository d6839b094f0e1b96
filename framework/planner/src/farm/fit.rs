//! Estimates the parameters of the farm model from measurements.

use std::collections::VecDeque;

use super::messages::{MessageCosts, StartUp};
use super::model::{IterationModel, Protocol};
use crate::range;

/// Number of measured messages that the fit of message costs keeps; older ones are forgotten.
const MEMORY: usize = 512;
/// Minimum number of measured messages below, and also above, the border between small and large messages, for
/// separate start-up times.
const ENOUGH: usize = 8;
/// Two start-up times (for small and for large messages) are accepted if they reduce the sum of the squared residuals to at most this fraction of the
/// sum with one start-up time.
const CLEARER: f64 = 0.5;
/// Weight of the latest iteration of a farm in the running means of bytes and times per iteration.
const NEWEST: f64 = 0.3;

/// Collects measurements of messages and iterations, and fits the parameters of an [`IterationModel`] to them: message costs, volume, computing time
/// and the time of the master.
///
/// ```
/// use armature_planner::farm::{FarmFit, MessageCosts, Protocol};
///
/// let mut fit = FarmFit::new(MessageCosts::FREE);
/// for i in 0..100 {
///     let bytes = f64::from(i * 100);
///     let start_up = if bytes <= 3200.0 { 1.32e-3 } else { 2.145e-3 };
///     fit.message(bytes, start_up + 1.93e-7 * bytes);
/// }
/// fit.iteration(30_000.0, 70_000.0, 5.0, 0.0);
/// let model = fit.model(Protocol::Asynchronous).unwrap();
/// assert!((model.messages.start_up.small - 1.32e-3).abs() < 1e-6);
/// assert!((model.messages.start_up.large - 2.145e-3).abs() < 1e-6);
/// assert!((model.messages.per_byte - 1.93e-7).abs() < 1e-10);
/// assert_eq!((model.volume, model.out, model.compute), (1e5, 0.3, 5.0));
/// ```
#[derive(Clone, Debug)]
pub struct FarmFit {
    prior: MessageCosts,
    messages: VecDeque<(f64, f64)>,
    iteration: Option<Iteration>,
}

#[derive(Clone, Copy, Debug)]
struct Iteration {
    out: f64,
    back: f64,
    compute: f64,
    master: f64,
}

impl FarmFit {
    /// Creates a fit without measurements. Messages cost `prior` until messages of different sizes are measured; negative numbers and NaN in
    /// `prior` count as 0.
    pub fn new(prior: MessageCosts) -> Self {
        FarmFit { prior: prior.usable(), messages: VecDeque::new(), iteration: None }
    }

    /// Records that a message of `bytes` occupied the sender or its port for `seconds`. Numbers that are negative, above 1e60 or NaN are ignored.
    /// The last 512 messages are kept.
    pub fn message(&mut self, bytes: f64, seconds: f64) {
        let (Some(bytes), Some(seconds)) = (range::amount(bytes), range::amount(seconds)) else { return };
        if self.messages.len() == MEMORY {
            self.messages.pop_front();
        }
        self.messages.push_back((bytes, seconds));
    }

    /// Records an iteration that sent `out` bytes to the workers and `back` bytes from them. The workers computed for `compute` seconds in total,
    /// and the master took `master` seconds to prepare the iteration. Later iterations have larger weights. An iteration with a number that is
    /// negative, above 1e60 or NaN is ignored.
    pub fn iteration(&mut self, out: f64, back: f64, compute: f64, master: f64) {
        if [out, back, compute, master].iter().any(|value| range::amount(*value).is_none()) {
            return;
        }
        let mix = |before: f64, now: f64| before + NEWEST * (now - before);
        self.iteration = Some(match self.iteration {
            None => Iteration { out, back, compute, master },
            Some(before) => Iteration {
                out: mix(before.out, out),
                back: mix(before.back, back),
                compute: mix(before.compute, compute),
                master: mix(before.master, master),
            },
        });
    }

    /// Returns the message costs: the least squares line through the measurements, or two parallel lines, one below and one above a border, if they
    /// fit clearly better. A negative slope or start-up time becomes 0. Measurements of more than four times the median of messages of similar size
    /// contain waiting time and are excluded.
    pub fn messages(&self) -> MessageCosts {
        let mut points: Vec<(f64, f64)> = self.messages.iter().copied().collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let points = without_outliers(without_spikes(&points));
        let one = Lines::fit(&points, points.len());
        let Some(one) = one else { return self.without_slope(&points) };
        let borders = ENOUGH..(points.len() + 1).saturating_sub(ENOUGH);
        let two = borders
            .filter(|&border| points[border - 1].0 < points[border].0)
            .filter_map(|border| Some((Lines::fit(&points, border)?, border)))
            .min_by(|a, b| a.0.squares.total_cmp(&b.0.squares));
        let costs = |lines: &Lines, border: f64| MessageCosts {
            start_up: StartUp { small: lines.small.max(0.0), border, large: lines.large.max(0.0) },
            per_byte: lines.slope.max(0.0),
        };
        // If one line fits the message times except for rounding errors, a second line is not needed.
        let total: f64 = points.iter().map(|point| point.1 * point.1).sum();
        match two {
            Some((two, border))
                if two.squares < CLEARER * one.squares && one.squares > range::ROUNDING * total =>
            {
                costs(&two, points[border - 1].0)
            }
            _ => costs(&one, f64::INFINITY),
        }
    }

    /// Returns the fitted model of an iteration; `None` before the first iteration.
    pub fn model(&self, protocol: Protocol) -> Option<IterationModel> {
        let Iteration { out, back, compute, master } = self.iteration?;
        let volume = out + back;
        let out = if volume > 0.0 { out / volume } else { 0.5 };
        Some(IterationModel { messages: self.messages(), volume, out, compute, master, protocol })
    }

    /// Returns message costs for messages that all have the same size: the time per byte is the value known before,
    /// and the rest of the measured time is the start-up time.
    fn without_slope(&self, points: &[(f64, f64)]) -> MessageCosts {
        if points.len() < ENOUGH {
            return self.prior;
        }
        let rest = points.iter().map(|&(bytes, seconds)| seconds - self.prior.per_byte * bytes).sum::<f64>();
        MessageCosts::new((rest / points.len() as f64).max(0.0), self.prior.per_byte)
    }
}

/// Returns the points (bytes, seconds) in order of size, without points whose time is more than four times the median
/// of the eight points around them.
fn without_spikes(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let usual = |i: usize| {
        let first = i.saturating_sub(ENOUGH / 2).min(points.len().saturating_sub(ENOUGH));
        let mut near: Vec<f64> = points[first..].iter().take(ENOUGH).map(|point| point.1).collect();
        near.sort_by(f64::total_cmp);
        near[near.len() / 2]
    };
    (0..points.len()).filter(|&i| points[i].1 <= 4.0 * usual(i)).map(|i| points[i]).collect()
}

/// Removes points (bytes, seconds) that lie above a line through all points by more than five times the median distance. Such messages contain
/// waiting time, which only adds to a time.
fn without_outliers(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let Some(line) = Lines::fit(&points, points.len()) else { return points };
    let above = |point: &(f64, f64)| point.1 - line.small - line.slope * point.0;
    let mut distances: Vec<f64> = points.iter().map(|point| above(point).abs()).collect();
    distances.sort_by(f64::total_cmp);
    let limit = 5.0 * distances[distances.len() / 2];
    points.into_iter().filter(|point| above(point) <= limit).collect()
}

/// Two parallel lines for the time of a message as a function of its size: one for small and one for large messages.
struct Lines {
    slope: f64,
    small: f64,
    large: f64,
    squares: f64,
}

impl Lines {
    /// Fits parallel lines to `points` (bytes, seconds) before index `border` and from `border` on; `None` if all points of each part have the same
    /// bytes.
    fn fit(points: &[(f64, f64)], border: usize) -> Option<Lines> {
        if points.len() < ENOUGH {
            return None;
        }
        let center = |part: &[(f64, f64)]| {
            let n = part.len().max(1) as f64;
            let sums = part.iter().fold((0.0, 0.0), |sums, point| (sums.0 + point.0, sums.1 + point.1));
            (sums.0 / n, sums.1 / n)
        };
        let (small, large) = points.split_at(border);
        let (mut xx, mut xy) = (0.0, 0.0);
        for part in [small, large] {
            let (x, y) = center(part);
            for point in part {
                xx += (point.0 - x).powi(2);
                xy += (point.0 - x) * (point.1 - y);
            }
        }
        let slope = xy / xx;
        if slope.is_nan() || slope.abs() > range::LARGEST {
            return None;
        }
        let rest = |part: &[(f64, f64)]| {
            let (x, y) = center(part);
            y - slope * x
        };
        let below = rest(small);
        let above = if large.is_empty() { below } else { rest(large) };
        let squares = |part: &[(f64, f64)], start: f64| {
            part.iter().map(|point| (point.1 - start - slope * point.0).powi(2)).sum::<f64>()
        };
        let squares = squares(small, below) + squares(large, above);
        Some(Lines { slope, small: below, large: above, squares })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn prior_applies_while_all_message_sizes_are_equal() {
        let prior = MessageCosts::new(1e-4, 1e-9);
        let mut fit = FarmFit::new(prior);
        assert_eq!((fit.messages(), fit.model(Protocol::Synchronous)), (prior, None));
        for _ in 0..20 {
            fit.message(1000.0, 51e-6);
            fit.message(f64::NAN, 1.0);
            fit.message(1000.0, -1.0);
        }
        let found = fit.messages();
        assert!((found.start_up.small - 50e-6).abs() < 1e-9 && found.per_byte == 1e-9, "{found:?}");
    }

    proptest! {
        #[test]
        fn cost_line_is_fitted_despite_noise_and_spikes(
            start_up in 1e-5..1e-2_f64,
            kilobyte in 1e-6..1e-3_f64,
            noise in prop::collection::vec(-0.02..0.02_f64, 200),
        ) {
            let mut fit = FarmFit::new(MessageCosts::FREE);
            let costs = MessageCosts::new(start_up, kilobyte / 1e3);
            for (i, noise) in noise.iter().enumerate() {
                let bytes = ((i * 37) % 200) as f64 * 500.0;
                let spike = if i % 23 == 0 { 20.0 } else { 1.0 };
                fit.message(bytes, costs.time(bytes) * (1.0 + noise) * spike);
            }
            let found = fit.messages();
            for bytes in [5e3, 5e4, 1e5] {
                let ratio = found.time(bytes) / costs.time(bytes);
                prop_assert!((ratio - 1.0).abs() < 0.05, "{found:?} for {costs:?}: {ratio}");
            }
        }
    }
}
