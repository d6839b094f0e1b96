//! Chunk policies that need only the numbers of tasks and workers, and the policy of Kruskal and Weiss.

use super::super::knowledge::Knowledge;
use super::batches::{Prepared, share};
use super::view::{Policy, View};

#[derive(Clone, Debug, Default)]
pub(super) struct Static(Prepared);

impl Policy for Static {
    fn begin(&mut self, view: &View<'_>) {
        self.0.clear();
        self.0.rest(view.n(), view.left);
    }

    fn next(&mut self, _worker: usize, most: u64, view: &View<'_>) -> u64 {
        if self.0.is_empty() {
            self.0.rest(view.n(), view.left);
        }
        self.0.take(most).unwrap_or(1)
    }

    fn copy(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

#[derive(Clone, Debug)]
pub(super) struct Fixed(pub(super) u64);

impl Policy for Fixed {
    fn begin(&mut self, _view: &View<'_>) {}

    fn next(&mut self, _worker: usize, _most: u64, _view: &View<'_>) -> u64 {
        self.0
    }

    fn copy(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

/// Guided self-scheduling: a chunk has ⌈R/n⌉ tasks, with R remaining tasks and n workers.
#[derive(Clone, Debug)]
pub(super) struct Gss;

impl Policy for Gss {
    fn begin(&mut self, _view: &View<'_>) {}

    fn next(&mut self, _worker: usize, _most: u64, view: &View<'_>) -> u64 {
        view.left.div_ceil(view.n())
    }

    fn copy(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

/// Trapezoid self-scheduling of M tasks on n workers (Tzen and Ni, 1993): chunk sizes decrease from f = ⌈M/(2n)⌉ to l = 1. With N = ⌈2M/(f + l)⌉
/// chunks and δ = (f − l)/(N − 1), chunk k has max(l, ⌊f − kδ⌋) tasks.
#[derive(Clone, Debug, Default)]
pub(super) struct Tss {
    first: f64,
    last: f64,
    step: f64,
    /// Number of chunks begun. The field `rest` counts the tasks of the latest chunk that were not dispatched because
    /// the caller limits the size.
    dispatched: f64,
    rest: u64,
    /// Number of remaining tasks at the next request, if no tasks are added. If there are more, the policy starts
    /// again.
    expected: u64,
}

impl Policy for Tss {
    fn begin(&mut self, view: &View<'_>) {
        let first = view.left.div_ceil(2 * view.n());
        (self.first, self.last) = (first as f64, 1.0);
        let chunks = (2.0 * view.left as f64 / (self.first + self.last)).ceil();
        self.step = if chunks > 1.0 { (self.first - self.last) / (chunks - 1.0) } else { 0.0 };
        (self.dispatched, self.rest) = (0.0, 0);
        self.expected = view.left;
    }

    fn next(&mut self, _worker: usize, most: u64, view: &View<'_>) -> u64 {
        if view.left > self.expected {
            self.begin(view);
        }
        if self.rest == 0 {
            self.rest = (self.first - self.dispatched * self.step).floor().max(self.last) as u64;
            self.dispatched += 1.0;
        }
        let size = self.rest;
        self.rest -= size.min(most);
        self.expected = view.left.saturating_sub(size.min(most));
        size
    }

    fn copy(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

#[derive(Clone, Debug)]
pub(super) struct KruskalWeiss;

impl Policy for KruskalWeiss {
    fn begin(&mut self, _view: &View<'_>) {}

    /// While the standard deviation of task times is unknown, the chunk has the size of
    /// [`Published::Fac2`](super::super::Published::Fac2).
    fn next(&mut self, _worker: usize, _most: u64, view: &View<'_>) -> u64 {
        let all = view.statistics.all();
        let even = view.total.div_ceil(view.n());
        if all.count() < 2 {
            return share(view.left, 2.0 * view.n() as f64);
        }
        // Seconds per chunk that do not depend on its size: the start-up times of two messages.
        let overhead = 2.0 * view.knowledge.messages.start_up.of(mean_bytes(view.knowledge));
        let size = kruskal_weiss_size(view.total, view.workers.len(), overhead, all.deviation());
        // If overhead and deviation are 0, the computed size is NaN; if only the deviation is 0, it is infinite. In
        // both cases each worker gets one chunk.
        if size < even as f64 { size.ceil().max(1.0) as u64 } else { even }
    }

    fn copy(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

fn mean_bytes(knowledge: &Knowledge) -> f64 {
    0.5 * (knowledge.task_bytes + knowledge.result_bytes)
}

/// Returns the chunk size of Kruskal and Weiss, (√2 M h / (σ n √ln n))^(2/3), for M `tasks`, n `workers`, the `overhead` h of a chunk (s) and the
/// standard `deviation` σ of task times (s).
pub(in super::super) fn kruskal_weiss_size(tasks: u64, workers: usize, overhead: f64, deviation: f64) -> f64 {
    let n = workers as f64;
    (std::f64::consts::SQRT_2 * tasks as f64 * overhead / (deviation * n * n.ln().sqrt())).powf(2.0 / 3.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::farm::TaskStatistics;

    /// The policy TSS reduces the chunk size with the number of remaining tasks, and not with each chunk, even if a
    /// request may get at most ten tasks.
    #[test]
    fn trapezoid_chunks_do_not_shrink_with_limited_room() {
        let (statistics, knowledge) = (TaskStatistics::default(), Knowledge::default());
        let view = |left| View {
            iteration: 1,
            total: 4000,
            left,
            workers: &[0, 1],
            statistics: &statistics,
            knowledge: &knowledge,
        };
        let mut tss = Tss::default();
        tss.begin(&view(4000));
        let (mut left, mut chunks) = (4000, 0);
        while left > 0 {
            left -= tss.next(0, 10, &view(left)).clamp(1, left.min(10));
            chunks += 1;
        }
        assert!(chunks < 410, "{chunks} chunks, where 400 would be the fewest");
    }
}
