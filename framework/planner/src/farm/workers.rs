//! Choice of the number of workers of a farm.

use std::ops::RangeInclusive;

use super::model::tried;
use super::stream::Repeated;
use crate::error::Result;
use crate::tuner::{Candidate, ChangeOutcome, Decision, Situation, Tuner, TunerOptions};

/// Factor by which the time of an iteration must exceed both the earlier and the predicted time for a new number of workers to be rejected. The
/// number is not rejected if the performance index (time divided by efficiency) rises by at most this factor. Times of iterations vary by some per
/// cent.
const SLOWER: f64 = 1.1;

/// Decides between iterations how many workers a farm uses.
///
/// The wanted number is the one with the smallest performance index Pi (time divided by efficiency; equation 13 of Cesar et al. 2006) among those
/// that the master can serve. The number changes by the rules of [`Tuner`]: only if the change pays, and only if the gain is found in several
/// consecutive evaluations ([`persistence`](TunerOptions::persistence)). With n workers, the time Tt of an iteration and the total computing time Tc,
/// Pi is n Tt²/Tc. The tuner compares √n Tt, which is proportional to √Pi, instead of the time, so that both a shorter time and fewer workers are
/// gains. An "item" of the tuner is an iteration, or a task of a stream ([`StreamModel`](super::StreamModel)).
///
/// A change should be [taken back](CountOutcome::take_back) if the iterations are slower by a tenth or more than before the change and than
/// predicted, unless the smaller number of workers compensates for the loss (Pi has not increased by more than a tenth, and more than one worker is
/// left). The rejected number and the numbers beyond it are not tried again. A farm that the model does not fit loses only a few iterations in this
/// way.
///
/// ```
/// use armature_planner::farm::{IterationModel, MessageCosts, Protocol, WorkerCount};
///
/// let model = IterationModel {
///     messages: MessageCosts::new(1e-3, 1e-6),
///     volume: 4096.0,
///     out: 0.5,
///     compute: 1.6,
///     master: 0.0,
///     protocol: Protocol::Asynchronous,
/// };
/// let mut count = WorkerCount::new(WorkerCount::options())?;
/// let mut workers = 60;
/// for iteration in 1..=10 {
///     let now = f64::from(iteration) * 0.1;
///     if count.evaluate(now, 0.1, workers, 1..=60, &model, None, 1e-4).is_act() {
///         workers = count.wanted(1..=60, &model);
///         count.acted(now, 1e-4);
///     }
/// }
/// assert_eq!(workers, 23);
/// # Ok::<(), armature_planner::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct WorkerCount {
    tuner: Tuner<usize>,
    first_start: Option<f64>,
    /// Numbers of workers before and after the last change that was decided.
    change: (usize, usize),
    trades: bool,
    /// Minimum number of workers that is still tried, because an earlier change to fewer workers was slower than predicted. The field `most` is the
    /// maximum.
    least: usize,
    most: usize,
}

/// Effect of a change of the number of workers. Times are those of an iteration, or of a task of a stream, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountOutcome {
    /// Number of workers before the change.
    pub before: usize,
    /// Number of workers after the change.
    pub after: usize,
    /// Median time of the last iterations with the old number of workers, or the predicted time if no iteration was measured.
    pub before_s: f64,
    /// Time of an iteration or task that was predicted for the new number of workers.
    pub predicted_s: f64,
    /// Median time of the first iterations after the change.
    pub after_s: f64,
    /// True if the caller should restore the old number of workers: the iterations are slower than before and than predicted, and the smaller number
    /// of workers does not compensate for the loss. In a stream, fewer workers never compensate for a loss.
    pub take_back: bool,
}

impl CountOutcome {
    /// Converts an outcome of the tuner, which compares times of iterations multiplied by the square root of the number of workers.
    fn new(outcome: &ChangeOutcome, (before, after): (usize, usize), trades: bool) -> Self {
        let (then, now) = ((before.max(1) as f64).sqrt(), (after.max(1) as f64).sqrt());
        let (predicted_before, predicted_s) =
            (outcome.predicted_before / then, outcome.predicted_after / now);
        let (before_s, after_s) = (
            outcome.measured_before.unwrap_or(outcome.predicted_before) / then,
            outcome.measured_after / now,
        );
        // Predicted time of an iteration with the new number of workers, divided by that with the old one; at least 1. Iterations that are slower by
        // this ratio are as expected.
        let promised = (predicted_s / predicted_before).max(1.0);
        let slower = outcome.measured_before.is_some() && after_s > SLOWER * promised * before_s;
        let pays = outcome.measured_gain().is_some_and(|gain| (1.0 - gain).powi(2) <= SLOWER);
        let take_back = slower && !(trades && after > 1 && pays);
        CountOutcome { before, after, before_s, predicted_s, after_s, take_back }
    }
}

impl WorkerCount {
    /// Returns tuner options for one evaluation per iteration, however short the iteration is. The pause after a change depends on its cost alone,
    /// and a gain of half a per cent must persist for three consecutive evaluations. The performance index Pi is so flat around its minimum that one
    /// per cent of it is more than a tenth of the workers.
    pub fn options() -> TunerOptions {
        TunerOptions { threshold: 0.005, cool_down: 0.0, ..TunerOptions::default() }
    }

    /// Creates a chooser of the number of workers, without measurements.
    ///
    /// # Errors
    /// See [`TunerOptions::validate`].
    pub fn new(options: TunerOptions) -> Result<Self> {
        Ok(WorkerCount {
            tuner: Tuner::new(options)?,
            first_start: None,
            change: (1, 1),
            trades: false,
            least: 1,
            most: usize::MAX,
        })
    }

    /// Returns the number of workers in `range` with the smallest performance index Pi, limited to the number that the master can serve. Numbers that
    /// are larger than the first by a million or more are not evaluated.
    pub fn wanted(&self, range: RangeInclusive<usize>, model: &impl Repeated) -> usize {
        let most = (*range.end()).min(self.most).max(1);
        let least = (*range.start()).max(self.least).clamp(1, most);
        tried(least..=model.most_workers(least..=most).max(least))
            .min_by(|&a, &b| index(model, a).total_cmp(&index(model, b)))
            .unwrap_or(least)
    }

    /// Decides after an iteration whether the number of workers changes. `now` is the time and `period` the duration of the iteration, both in
    /// seconds. `workers` is the current number and `range` the allowed numbers of workers. `model` is the fitted model, `remaining` the number of
    /// remaining iterations if it is known, and `cost` the seconds that a change takes. On [`Action::Act`](crate::tuner::Action::Act) the caller
    /// changes to the number of the decision's candidate.
    #[allow(clippy::too_many_arguments)]
    pub fn evaluate(
        &mut self,
        now: f64,
        period: f64,
        workers: usize,
        range: RangeInclusive<usize>,
        model: &impl Repeated,
        remaining: Option<u64>,
        cost: f64,
    ) -> Decision<usize> {
        let first_start = *self.first_start.get_or_insert(now - period);
        let wanted = self.wanted(range, model);
        let situation = Situation {
            now,
            period,
            elapsed: now - first_start,
            current: workers,
            current_time: index(model, workers),
            measured_time: Some((workers as f64).sqrt() * period),
            remaining_items: remaining,
            settled: model.is_known(),
        };
        let decision = self
            .tuner
            .consider(situation, Some(Candidate { arrangement: wanted, time: index(model, wanted), cost }));
        if decision.is_act() {
            self.change = (workers, wanted);
            self.trades = model.trades_time();
        }
        decision
    }

    /// Records that the decided change of the number of workers was complete at `now` and took `cost` seconds.
    pub fn acted(&mut self, now: f64, cost: f64) {
        self.tuner.acted(now, cost);
    }

    /// Records that the decided change of the number of workers was not made.
    pub fn abandoned(&mut self, now: f64) {
        self.tuner.abandoned(now);
    }

    /// Returns the outcome of the last change, only on the first call after it is known; see [`Tuner::outcome`]. The caller restores the old number
    /// of workers if [`take_back`](CountOutcome::take_back) is true.
    pub fn outcome(&mut self) -> Option<CountOutcome> {
        let outcome = CountOutcome::new(&self.tuner.outcome()?, self.change, self.trades);
        if outcome.take_back {
            let (before, after) = self.change;
            if after < before {
                self.least = before;
            } else {
                self.most = before;
            }
        }
        Some(outcome)
    }

    /// Returns the `count` workers that remain active, in ascending order: those with the fewest seconds per task. A worker of unknown speed counts
    /// as the mean of the others; among equal workers the lower number is preferred. The other workers are parked.
    ///
    /// ```
    /// use armature_planner::farm::WorkerCount;
    ///
    /// let times = [(1, Some(0.2)), (2, Some(0.1)), (3, None), (4, Some(0.4))];
    /// assert_eq!(WorkerCount::active(&times, 2), [1, 2]);
    /// assert_eq!(WorkerCount::active(&times, 3), [1, 2, 3]);
    /// ```
    pub fn active(times: &[(usize, Option<f64>)], count: usize) -> Vec<usize> {
        let known: Vec<f64> = times.iter().filter_map(|&(_, time)| time).collect();
        let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
        let mut order: Vec<(f64, usize)> =
            times.iter().map(|&(worker, time)| (time.unwrap_or(mean), worker)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut active: Vec<usize> = order.into_iter().take(count).map(|(_, worker)| worker).collect();
        active.sort_unstable();
        active
    }
}

/// Returns the value that the tuner compares: the time of an iteration multiplied by the square root of the number of workers, which is proportional
/// to the square root of the performance index.
fn index(model: &impl Repeated, workers: usize) -> f64 {
    let workers = workers.max(1);
    (workers as f64).sqrt() * model.time(workers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::farm::{IterationModel, MessageCosts, Protocol};

    fn settle(mut workers: usize, model: &IterationModel) -> usize {
        let mut count = WorkerCount::new(WorkerCount::options()).unwrap();
        let mut now = 0.0;
        for iteration in 0..10_u32 {
            let off = 1.0 + 0.1 * f64::from((iteration * 7) % 11) / 11.0 - 0.05;
            let measured = IterationModel { compute: off * model.compute, ..*model };
            let time = model.time(workers);
            now += time;
            let decision = count.evaluate(now, time, workers, 1..=100, &measured, None, 0.01 * time);
            if decision.is_act() {
                workers = count.wanted(1..=100, &measured);
                count.acted(now, 0.01 * time);
            }
        }
        workers
    }

    #[test]
    fn worker_count_settles_within_ten_iterations() {
        for (start_up, per_byte, compute) in
            [(1e-3, 1e-6, 1.6), (1e-4, 1e-7, 5.0), (2e-3, 1e-6, 10.0), (5e-4, 1e-8, 0.3)]
        {
            for protocol in [Protocol::Asynchronous, Protocol::Synchronous] {
                let messages = MessageCosts::new(start_up, per_byte);
                let model =
                    IterationModel { messages, volume: 1e5, out: 0.5, compute, master: 1e-3, protocol };
                let best = model.best(1..=model.most_workers(1..=100));
                for first in [1, 100] {
                    let found = settle(first, &model);
                    let off = (found as f64 - best as f64).abs() / best as f64;
                    assert!(off <= 0.15, "{first} -> {found}, best {best}: {model:?}");
                }
            }
        }
    }

    #[test]
    fn single_outlier_iteration_does_not_change_the_count() {
        let messages = MessageCosts::new(1e-3, 1e-6);
        let protocol = Protocol::Asynchronous;
        let model =
            IterationModel { messages, volume: 4096.0, out: 0.5, compute: 1.6, master: 0.0, protocol };
        let mut count = WorkerCount::new(WorkerCount::options()).unwrap();
        for i in 0..20 {
            let odd = IterationModel { compute: if i % 4 == 0 { 16.0 } else { 1.6 }, ..model };
            let decision = count.evaluate(f64::from(i), 0.1, 23, 1..=60, &odd, None, 0.0);
            assert!(!decision.is_act(), "{decision}");
        }
    }

    #[test]
    fn slowing_change_is_reverted_and_not_repeated() {
        let messages = MessageCosts::new(1e-3, 1e-6);
        let protocol = Protocol::Asynchronous;
        // The model predicts the best time for 23 workers. The simulated farm, however, takes 0.1 s with the first number of workers and 0.2 s with
        // any other.
        let model =
            IterationModel { messages, volume: 4096.0, out: 0.5, compute: 1.6, master: 0.0, protocol };
        for (most, first) in [(60, 40), (23, 12)] {
            let mut count = WorkerCount::new(WorkerCount::options()).unwrap();
            let (mut workers, mut now, mut changes) = (first, 0.0, Vec::new());
            for _ in 0..60 {
                let time = if workers == first { 0.1 } else { 0.2 };
                now += time;
                if count.evaluate(now, time, workers, 1..=most, &model, None, 1e-4).is_act() {
                    workers = count.wanted(1..=most, &model);
                    count.acted(now, 1e-4);
                    changes.push(workers);
                }
                if let Some(outcome) = count.outcome() {
                    assert!(
                        outcome.take_back && (outcome.before, outcome.after) == (first, 23),
                        "{outcome:?}"
                    );
                    assert!((outcome.after_s / outcome.before_s - 2.0).abs() < 1e-9, "{outcome:?}");
                    workers = outcome.before;
                    count.acted(now, 1e-4);
                }
            }
            assert_eq!((workers, changes), (first, vec![23]));
        }
    }
}
