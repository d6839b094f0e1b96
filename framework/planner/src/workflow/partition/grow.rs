//! A first cut of a small graph.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::dag::Dag;

/// How good a cut is, the smaller the better: how much the heavier half is above its bound, then what is cut.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Quality {
    excess: f64,
    cut: i64,
}

impl Quality {
    /// Halves of these weights, with so much between them.
    pub(super) fn new(weights: [f64; 2], most: [f64; 2], cut: i64) -> Self {
        let excess = |half: usize| weights[half] / most[half] - 1.0;
        // No weight at all fits any bound.
        Quality { excess: excess(0).max(excess(1)).max(0.0), cut }
    }
}

/// Which vertices are in the second half, if halves may weigh at most `most`. Each has at least one of two or more vertices.
///
/// The first half grows from the first vertices by those that reduce the cut most; the second likewise from the last ones. The
/// better one is taken.
pub(super) fn grow(dag: &Dag, most: [f64; 2]) -> Vec<bool> {
    let first = grown(dag, most, false);
    let second = grown(dag, most, true);
    let (grown, reversed) = if second.0 < first.0 { (second.1, true) } else { (first.1, false) };
    grown.into_iter().map(|grown| grown == reversed).collect()
}

/// Which vertices are in the half that has grown: the first, or, in reverse, the second.
fn grown(dag: &Dag, most: [f64; 2], reversed: bool) -> (Quality, Vec<bool>) {
    let before = |vertex| if reversed { dag.outputs(vertex) } else { dag.inputs(vertex) };
    let after = |vertex| if reversed { dag.inputs(vertex) } else { dag.outputs(vertex) };
    let cost = |vertex| if reversed { dag.cost_behind(vertex) } else { -dag.cost_behind(vertex) };
    let mut missing: Vec<usize> = (0..dag.len()).map(|vertex| before(vertex).len()).collect();
    let key = |vertex| Reverse((cost(vertex), vertex));
    let mut ready: BinaryHeap<_> = (0..dag.len()).filter(|&vertex| missing[vertex] == 0).map(key).collect();
    let mut order = Vec::with_capacity(dag.len());
    let mut best: Option<(Quality, usize)> = None;
    let (total, mut weight, mut cut) = (dag.total(), 0.0, 0);
    while let Some(Reverse((cost, vertex))) = ready.pop() {
        order.push(vertex);
        weight += dag.weight(vertex);
        cut += cost;
        let weights = if reversed { [total - weight, weight] } else { [weight, total - weight] };
        let quality = Quality::new(weights, most, cut);
        if order.len() < dag.len() && best.is_none_or(|(other, _)| quality < other) {
            best = Some((quality, order.len()));
        }
        for &(next, _) in after(vertex) {
            missing[next] -= 1;
            if missing[next] == 0 {
                ready.push(key(next));
            }
        }
    }
    let (quality, count) = best.unwrap_or((Quality::new([total, 0.0], most, 0), order.len()));
    let mut grown = vec![false; dag.len()];
    for &vertex in &order[..count] {
        grown[vertex] = true;
    }
    (quality, grown)
}
