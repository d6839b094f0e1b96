//! Estimate of the rest of a farm's iteration, from completed and outstanding chunks.

use super::super::by_worker::ByWorker;
use super::super::policy::View;
use super::outstanding::Outstanding;
use super::sample::{Distribution, Sample};

/// Standard deviation of task times, as a fraction of their mean, that is assumed while few chunks of tasks have
/// completed. The assumption has the weight of [`PRIOR_WEIGHT`] measured chunks.
const PRIOR_SPREAD: f64 = 0.5;
const PRIOR_WEIGHT: f64 = 4.0;

/// Number of a worker, and the time at which it has finished all its chunks of tasks (s from now).
type Free = (usize, f64);

/// Estimate of the times of the remaining tasks, the speeds of the workers, and the times at which workers request chunks.
#[derive(Debug)]
pub(super) struct Estimate<'a> {
    view: &'a View<'a>,
    out: &'a Outstanding,
    /// Number of tasks of all outstanding chunks.
    out_tasks: u64,
    distribution: Distribution,
    slowness: ByWorker<f64>,
}

impl<'a> Estimate<'a> {
    pub(super) fn new(view: &'a View<'a>, out: &'a Outstanding) -> Self {
        let distribution = distribution(view);
        let out_tasks = out.iter().fold(0_u64, |tasks, (_, out)| tasks.saturating_add(out.tasks));
        Estimate { slowness: slowness(view, &distribution), distribution, view, out, out_tasks }
    }

    pub(super) fn distribution(&self) -> &Distribution {
        &self.distribution
    }

    /// Returns the mean task time of a worker as a multiple of the mean of all workers; 1 if it is unknown.
    pub(super) fn slowness(&self, worker: usize) -> f64 {
        self.slowness.get(worker).copied().unwrap_or(1.0)
    }

    pub(super) fn out(&self) -> u64 {
        self.out_tasks
    }

    /// Returns the times at which workers request chunks of tasks, and the time at which each worker has finished all
    /// its chunks (s from now). The task times are those of `sample`, in which the outstanding tasks precede the
    /// remaining tasks. A worker without outstanding chunks requests a chunk at once.
    pub(super) fn requests(&self, sample: &Sample) -> (Vec<(f64, usize)>, Vec<Free>) {
        let knowledge = self.view.knowledge;
        let mut place = 0_u64;
        let mut requests = Vec::new();
        let mut free = Vec::with_capacity(self.view.workers.len());
        for &worker in self.view.workers {
            let slow = self.slowness(worker);
            let (mut at, mut chunks) = (f64::NEG_INFINITY, 0);
            for out in self.out.of(worker) {
                let end = place.saturating_add(out.tasks);
                let computing = slow * (sample.until(end) - sample.until(place));
                place = end;
                let end = (out.arrives - knowledge.now).max(at) + computing;
                // An overdue chunk is assumed to take half of the mean task time from now on.
                at = end.max(0.5 * self.distribution.mean * slow);
                let way_back =
                    if knowledge.master == Some(worker) { 0.0 } else { knowledge.return_time(out.tasks) };
                requests.push((at + way_back, worker));
                chunks += 1;
            }
            free.push((worker, at.max(0.0)));
            requests.extend((chunks..=knowledge.ahead).map(|_| (0.0, worker)));
        }
        requests.sort_by(|a, b| a.0.total_cmp(&b.0));
        (requests, free)
    }
}

fn distribution(view: &View<'_>) -> Distribution {
    let (all, chunks) = (view.statistics.all(), view.statistics.chunks() as f64);
    let with_prior =
        |measured: f64, prior: f64| (measured * chunks + prior * PRIOR_WEIGHT) / (chunks + PRIOR_WEIGHT);
    let (mean, size) = (all.mean(), all.count() as f64 / chunks);
    let variance = with_prior(all.variance(), (PRIOR_SPREAD * mean).powi(2));
    // Tasks of one chunk may have similar times. While few chunks have completed, all tasks of a chunk are assumed to be similar.
    let block = with_prior(view.statistics.block(), size.max(1.0));
    Distribution { mean, deviation: variance.sqrt(), block }
}

/// Returns the mean task time of each worker as a multiple of the overall mean, reduced by the part of the difference
/// that chance explains (the empirical Bayes estimate of normal means). For a worker without measurements it follows
/// from the expected speeds of the workers.
fn slowness(view: &View<'_>, distribution: &Distribution) -> ByWorker<f64> {
    let Distribution { deviation, block, .. } = *distribution;
    let mean = view.statistics.all().mean();
    let mut slowness = ByWorker::default();
    let expected = |worker: usize| 1.0 / view.statistics.expected_speed(worker);
    let mean_expected = view.workers.iter().map(|&worker| expected(worker)).sum::<f64>() / view.n() as f64;
    for &worker in view.workers.iter().filter(|&&worker| view.statistics.of(worker).is_none()) {
        slowness.insert(worker, expected(worker) / mean_expected);
    }
    let seen: Vec<(usize, f64, f64)> = view
        .workers
        .iter()
        .filter_map(|&worker| {
            let times = view.statistics.of(worker)?;
            let chance = (deviation / mean).powi(2) * block / times.count() as f64;
            Some((worker, times.mean() / mean - 1.0, chance))
        })
        .collect();
    let (mut differ, mut by_chance) = (0.0, 0.0);
    for (_, off, chance) in &seen {
        differ += off * off;
        by_chance += chance;
    }
    // `real` is the mean squared difference of the workers' mean task times from the overall mean, without the part `by_chance` that chance explains.
    // If all workers are equally fast, the sum of the squares, `differ`, rarely exceeds `by_chance` by more than two standard deviations. This limit
    // is doubled, because a chunk may show only part of a long block of similar tasks.
    let real = (differ - by_chance) / seen.len().max(1) as f64;
    if seen.len() < 2 || differ <= 2.0 * by_chance * (1.0 + 2.0 * (2.0 / seen.len() as f64).sqrt()) {
        return slowness;
    }
    for (worker, off, chance) in seen {
        slowness.insert(worker, 1.0 + off * real / (real + chance));
    }
    slowness
}

#[cfg(test)]
mod tests {
    use super::super::outstanding::Out;
    use super::*;
    use crate::farm::{ChunkDone, Knowledge, TaskStatistics};

    fn with_view(now: f64, done: &[ChunkDone], check: impl FnOnce(&View<'_>)) {
        let mut statistics = TaskStatistics::default();
        done.iter().for_each(|done| statistics.add(done));
        let knowledge = Knowledge { now, ..Knowledge::default() };
        check(&View {
            iteration: 2,
            total: 100,
            left: 40,
            workers: &[0, 1, 2],
            statistics: &statistics,
            knowledge: &knowledge,
        });
    }

    #[test]
    fn few_chunks_give_an_uncertain_distribution() {
        // The distribution is estimated from two chunks of ten equal tasks, then from 400 such chunks.
        let equal = |chunks: usize| vec![ChunkDone::timed(0, 10, 2.0); chunks];
        with_view(5.0, &equal(2), |view| {
            let Distribution { mean, deviation, block } = distribution(view);
            assert_eq!(mean, 0.2);
            assert!((0.05..0.1).contains(&deviation) && (5.0..10.0).contains(&block), "{deviation} {block}");
        });
        with_view(5.0, &equal(400), |view| {
            let Distribution { deviation, block, .. } = distribution(view);
            assert!(deviation < 0.02 && block < 1.2, "{deviation} {block}");
        });
    }

    #[test]
    fn slowness_reflects_only_significant_differences() {
        // Each worker has completed 40 chunks of 100 tasks; the standard deviation of the task times is half of their mean.
        let chunk = |worker: usize, time: f64| ChunkDone {
            squares: 125.0 * time * time,
            ..ChunkDone::timed(worker, 100, 100.0 * time)
        };
        let done = |seconds: [f64; 3]| (0..120).map(|i| chunk(i % 3, seconds[i % 3])).collect::<Vec<_>>();
        let of = |seconds: [f64; 3]| {
            let mut found = [0.0; 3];
            with_view(5.0, &done(seconds), |view| {
                let none = Outstanding::default();
                let estimate = Estimate::new(view, &none);
                found = [0, 1, 2].map(|worker| estimate.slowness(worker));
            });
            found
        };
        assert_eq!(of([1.0, 1.0, 1.0]), [1.0; 3]);
        let [a, b, c] = of([0.5, 1.0, 1.5]);
        assert!(a < 0.7 && (b - 1.0).abs() < 0.05 && c > 1.3, "{a} {b} {c}");
    }

    #[test]
    fn unmeasured_workers_have_their_expected_slowness() {
        let mut statistics = TaskStatistics::default();
        statistics.expect_speed(0, 2.0);
        statistics.expect_speed(2, f64::NAN);
        statistics.add(&ChunkDone::timed(1, 10, 1.0));
        let knowledge = Knowledge::default();
        let (statistics, knowledge) = (&statistics, &knowledge);
        let view = View { iteration: 2, total: 100, left: 40, workers: &[0, 1, 2], statistics, knowledge };
        let none = Outstanding::default();
        let slowness = [0, 1, 2].map(|worker| Estimate::new(&view, &none).slowness(worker));
        let expected = [0.6, 1.0, 1.2];
        assert!(slowness.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{slowness:?}");
        assert_eq!([view.expected_speed(0), view.expected_speed(1)], [1.5, 0.75]);
    }

    #[test]
    fn request_times_follow_from_outstanding_chunks() {
        let sample = Sample::draw(&Distribution { mean: 0.2, deviation: 0.0, block: 1.0 }, 65, 0);
        let mut out = Outstanding::default();
        for (worker, tasks, arrives) in [(1, 10, 4.0), (2, 10, 1.0), (1, 5, 4.5)] {
            out.push(worker, Out { tasks, dispatched_at: 0.0, arrives });
        }
        let done = [ChunkDone::timed(0, 1000, 200.0), ChunkDone::timed(1, 1000, 200.0)];
        with_view(5.0, &done, |view| {
            let estimate = Estimate::new(view, &out);
            assert_eq!((estimate.out(), estimate.slowness(1)), (25, 1.0));
            let (requests, free) = estimate.requests(&sample);
            // Worker 0 has no chunk and requests one at once. The chunk of worker 2 is overdue and takes half of a
            // task time longer. Worker 1 needs 1 s for its first chunk, and 1 s for its second chunk.
            let expected = [(0.0, 0), (0.5 * estimate.distribution().mean, 2), (1.0, 1), (2.0, 1)];
            assert_eq!(requests.len(), expected.len());
            assert!(free[0] == (0, 0.0) && (free[1].1 - 2.0).abs() < 1e-9, "{free:?}");
            for (found, expected) in requests.iter().zip(expected) {
                assert!(found.1 == expected.1 && (found.0 - expected.0).abs() < 1e-9, "{requests:?}");
            }
        });
    }
}
