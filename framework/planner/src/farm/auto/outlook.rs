//! What lies ahead, by what has come back and what is out.

use std::collections::BTreeSet;

use super::super::by_worker::ByWorker;
use super::super::policy::View;
use super::course::Course;
use super::synthetic::{Likeness, Synthetic};

/// While few chunks have come back, tasks are taken to differ by this part of their mean as well; it weighs as much as
/// so many chunks.
const PRIOR_SPREAD: f64 = 0.5;
const PRIOR_WEIGHT: f64 = 4.0;

/// A chunk that is out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    pub(super) worker: usize,
    /// Number of its first task in the iteration.
    pub(super) first: u64,
    pub(super) tasks: u64,
    /// When it was handed out (s, by the caller's clock).
    pub(super) given: f64,
    /// When its worker can begin it, as far as is known: it is there, and the one before it has come back.
    pub(super) arrives: f64,
}

/// A worker, and when it has computed what it holds (s from now).
type Free = (usize, f64);

/// What the tasks ahead will be like, how fast the workers are, and when they will ask.
#[derive(Debug)]
pub(super) struct Outlook<'a> {
    view: &'a View<'a>,
    out: &'a [Out],
    likeness: Likeness,
    slowness: ByWorker<f64>,
}

impl<'a> Outlook<'a> {
    pub(super) fn new(view: &'a View<'a>, out: &'a [Out], course: &Course) -> Self {
        let likeness = likeness(view, out, course);
        Outlook { slowness: slowness(view, &likeness), likeness, view, out }
    }

    pub(super) fn likeness(&self) -> &Likeness {
        &self.likeness
    }

    /// How many times as long as the mean each worker takes for a task; once, if it is not known.
    pub(super) fn slowness(&self) -> &ByWorker<f64> {
        &self.slowness
    }

    /// Workers differ.
    pub(super) fn unequal(&self) -> bool {
        self.slowness.values().any(|slow| (slow - 1.0).abs() > 0.02)
    }

    /// Tasks that are out.
    pub(super) fn out(&self) -> u64 {
        self.out.iter().fold(0, |tasks, out| tasks.saturating_add(out.tasks))
    }

    /// When each worker will ask, and when each has computed what it holds (s from now), if tasks take what `row` says: those
    /// that are out come in it before those that are left. The worker that asks now is among those that hold nothing.
    pub(super) fn asks(&self, row: &Synthetic) -> (Vec<(f64, usize)>, Vec<Free>) {
        let knowledge = self.view.knowledge;
        let mut place = 0_u64;
        let mut asks = Vec::new();
        let mut free = Vec::with_capacity(self.view.workers.len());
        for &worker in self.view.workers {
            let slow = self.slowness.get(worker).copied().unwrap_or(1.0);
            let (mut at, mut chunks) = (f64::NEG_INFINITY, 0);
            for out in self.out.iter().filter(|out| out.worker == worker) {
                let end = place.saturating_add(out.tasks);
                let computing = slow * (row.until(end) - row.until(place));
                place = end;
                let end = (out.arrives - knowledge.now).max(at) + computing;
                // A chunk that is overdue is still somewhere within its last tasks.
                at = end.max(0.5 * self.likeness.mean * slow);
                let way_back =
                    if knowledge.master == Some(worker) { 0.0 } else { knowledge.return_time(out.tasks) };
                asks.push((at + way_back, worker));
                chunks += 1;
            }
            free.push((worker, at.max(0.0)));
            asks.extend((chunks..=knowledge.ahead).map(|_| (0.0, worker)));
        }
        asks.sort_by(|a, b| a.0.total_cmp(&b.0));
        (asks, free)
    }
}

/// Mean time of a task, by the chunks that have come back and by those that have been out for long.
///
/// The first ones to come back are the short ones: their mean alone says too little where chunks differ. The times
/// that the others have taken so far are the least that they can take. With them the estimate is that of largest
/// likelihood for chunk times with Weibull's distribution, whose exponent follows from how the first ones
/// [scatter](Course::scatter), scaled so that it is the plain mean when all are back. A chunk behind another one of its
/// worker has not been begun.
pub(super) fn mean(view: &View<'_>, out: &[Out], course: &Course) -> f64 {
    let mean = view.statistics.all().mean();
    let exponent = 1.0 / course.scatter();
    // Chunks of earlier iterations count as those of this one do.
    let all = view.statistics.chunk_squares() / (mean * mean);
    let done = match (course.powers(mean, exponent), course.powers(mean, 2.0)) {
        (Some(powers), Some(squares)) => powers * (all / squares).max(1.0),
        _ => all,
    };
    let waited = |out: &Out| {
        let tasks = out.tasks.max(1) as f64;
        tasks * ((view.knowledge.now - out.arrives).max(0.0) / (tasks * mean)).powf(exponent)
    };
    let mut busy = BTreeSet::new();
    let begun = out.iter().filter(|out| busy.insert(out.worker));
    let waiting: f64 = begun.map(waited).sum();
    if done > 0.0 && waiting.is_finite() { mean * (1.0 + waiting / done).powf(1.0 / exponent) } else { mean }
}

/// What the tasks ahead will be like.
fn likeness(view: &View<'_>, out: &[Out], course: &Course) -> Likeness {
    let (all, chunks) = (view.statistics.all(), view.statistics.chunks() as f64);
    let mean = mean(view, out, course);
    let mix =
        |measured: f64, prior: f64| (measured * chunks + prior * PRIOR_WEIGHT) / (chunks + PRIOR_WEIGHT);
    let few = chunks < 4.0 * PRIOR_WEIGHT;
    let variance = if few { mix(all.variance(), (PRIOR_SPREAD * mean).powi(2)) } else { all.variance() };
    // Tasks of one chunk may well be alike: as long as little is known they are taken for it.
    let size = all.count() as f64 / chunks.max(1.0);
    let block = view.statistics.block();
    let block = if few { mix(block, size.max(1.0)) } else { block };
    Likeness { mean, deviation: variance.sqrt(), block }
}

/// How many times as long as the mean each worker takes for a task, as far as workers differ by more than chance: by
/// the empirical Bayes estimate of normal means.
fn slowness(view: &View<'_>, likeness: &Likeness) -> ByWorker<f64> {
    let Likeness { deviation, block, .. } = *likeness;
    let mean = view.statistics.all().mean();
    let mut slowness = ByWorker::default();
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
    // Chance alone makes as many workers differ by little more than this; it is taken twice, since blocks that are
    // longer than chunks are not seen whole.
    let real = (differ - by_chance) / seen.len().max(1) as f64;
    if seen.len() < 2 || differ <= 2.0 * by_chance * (1.0 + 2.0 * (2.0 / seen.len() as f64).sqrt()) {
        return slowness;
    }
    for (worker, off, chance) in seen {
        slowness.insert(worker, (1.0 + off * real / (real + chance)).max(0.01));
    }
    slowness
}

#[cfg(test)]
mod tests {
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
            mean: None,
            knowledge: &knowledge,
        });
    }

    #[test]
    fn chunks_that_are_late_make_the_mean_larger() {
        // One of 10 tasks took 2 s; two others have been out for 4 s, one is not there yet.
        let out = |worker, arrives| Out { worker, first: 0, tasks: 10, given: 0.0, arrives };
        with_view(5.0, &[ChunkDone::timed(0, 10, 2.0)], |view| {
            let mean = |out: &[Out]| mean(view, out, &Course::default());
            assert_eq!(mean(&[]), 0.2);
            let late = [out(1, 1.0), out(2, 1.0), out(0, 6.0)];
            assert!((mean(&late) - 0.2 * 3.0).abs() < 1e-12);
            let queued = [late, [out(1, 1.0), out(2, 1.5), out(0, 7.0)]].concat();
            assert_eq!(mean(&queued), mean(&late), "those behind them have not been begun");
        });
    }

    #[test]
    fn the_mean_of_the_first_few_of_many_is_not_far_off_where_they_are_alike() {
        // Ten of 100 chunks of 10 tasks have come back within 1 to 1.09 s, the others have been out for 1.1 s.
        let mut course = Course::default();
        let done: Vec<ChunkDone> = (0..10).map(|i| ChunkDone::timed(i, 10, 1.0 + 0.01 * i as f64)).collect();
        done.iter().for_each(|done| course.add(10 * done.worker as u64, 10, done.sum));
        let out: Vec<Out> =
            (10..100).map(|worker| Out { worker, first: 0, tasks: 10, given: 0.0, arrives: 0.0 }).collect();
        with_view(1.1, &done, |view| {
            let mean = mean(view, &out, &course);
            assert!((0.11..0.2).contains(&mean), "{mean}");
        });
    }

    #[test]
    fn workers_ask_when_what_they_hold_is_done() {
        let row = Synthetic::draw(&Likeness { mean: 0.2, deviation: 0.0, block: 1.0 }, None, 65, 0);
        let out = |worker, tasks, arrives| Out { worker, first: 0, tasks, given: 0.0, arrives };
        let out = [out(1, 10, 4.0), out(2, 10, 1.0), out(1, 5, 4.5)];
        let done = [ChunkDone::timed(0, 1000, 200.0), ChunkDone::timed(1, 1000, 200.0)];
        with_view(5.0, &done, |view| {
            let outlook = Outlook::new(view, &out, &Course::default());
            assert!((outlook.out(), outlook.unequal()) == (25, false));
            let (asks, free) = outlook.asks(&row);
            // Worker 2 is overdue and takes half of a task more; worker 1 has 1 s left, and 1 s after that.
            let expected = [(0.0, 0), (0.5 * outlook.likeness().mean, 2), (1.0, 1), (2.0, 1)];
            assert_eq!(asks.len(), expected.len());
            assert!(free[0] == (0, 0.0) && (free[1].1 - 2.0).abs() < 1e-9, "{free:?}");
            for (found, expected) in asks.iter().zip(expected) {
                assert!(found.1 == expected.1 && (found.0 - expected.0).abs() < 1e-9, "{asks:?}");
            }
        });
    }
}
