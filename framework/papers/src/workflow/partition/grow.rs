//! Initial cut of a small graph into two halves, which is refined later.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::dag::Dag;

/// Quality of a cut, of which smaller values are better: the larger relative excess of a half over its maximum weight, then the total weight of the
/// cut edges.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Quality {
    excess: f64,
    cut: i64,
}

impl Quality {
    pub(super) fn new(weights: [f64; 2], most: [f64; 2], cut: i64) -> Self {
        let excess = |half: usize| weights[half] / most[half] - 1.0;
        // If a half has weight 0 and a maximum of 0, their quotient is NaN, which `max` ignores.
        Quality { excess: excess(0).max(excess(1)).max(0.0), cut }
    }
}

/// Returns true for each vertex in the second half of a cut. `most` are the maximum weights of the halves. If the graph has at least two vertices,
/// each half has at least one.
///
/// Four cuts are compared and the best is returned. The first half grows from the vertices without predecessors in two orders: the vertex that
/// reduces the weight of the cut edges most is next, or parts of the graph are completed one after the other. The second half grows in the same two
/// orders from the vertices without successors.
pub(super) fn grow(dag: &Dag, most: [f64; 2]) -> Vec<bool> {
    let mut best: Option<(Quality, Vec<bool>)> = None;
    for reversed in [false, true] {
        let end = End { dag, reversed };
        for order in [end.cheapest_first(), end.finishing()] {
            let (quality, count) = end.best_part(&order, most);
            if best.as_ref().is_none_or(|(other, _)| quality < *other) {
                let mut second = vec![!reversed; dag.len()];
                order[..count].iter().for_each(|&vertex| second[vertex] = reversed);
                best = Some((quality, second));
            }
        }
    }
    best.map_or(Vec::new(), |(_, second)| second)
}

/// End of a graph from which a half of the cut grows: the vertices without predecessors, or those without successors if `reversed` is true.
struct End<'a> {
    dag: &'a Dag,
    reversed: bool,
}

impl<'a> End<'a> {
    fn before(&self, vertex: usize) -> &'a [(usize, u64)] {
        if self.reversed { self.dag.outputs(vertex) } else { self.dag.inputs(vertex) }
    }

    fn after(&self, vertex: usize) -> &'a [(usize, u64)] {
        if self.reversed { self.dag.inputs(vertex) } else { self.dag.outputs(vertex) }
    }

    fn cost(&self, vertex: usize) -> i64 {
        let behind = self.dag.cost_behind(vertex);
        if self.reversed { behind } else { -behind }
    }

    /// Returns all vertices in an order in which a half can grow: of the vertices that can join, the one that adds least to the weight of the cut
    /// edges is next.
    fn cheapest_first(&self) -> Vec<usize> {
        let mut missing: Vec<usize> = (0..self.dag.len()).map(|vertex| self.before(vertex).len()).collect();
        let key = |vertex| Reverse((self.cost(vertex), vertex));
        let mut ready: BinaryHeap<_> =
            (0..self.dag.len()).filter(|&vertex| missing[vertex] == 0).map(key).collect();
        let mut order = Vec::with_capacity(self.dag.len());
        while let Some(Reverse((_, vertex))) = ready.pop() {
            order.push(vertex);
            for &(next, _) in self.after(vertex) {
                missing[next] -= 1;
                if missing[next] == 0 {
                    ready.push(key(next));
                }
            }
        }
        order
    }

    /// Returns all vertices in an order in which a half can grow: each vertex without successors in the direction of growth comes directly after
    /// those of its predecessors that are not in the order yet. Unconnected parts of a graph thus come one after the other; the order of
    /// `cheapest_first` begins with a little of each part.
    fn finishing(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.dag.len());
        let mut has_started = vec![false; self.dag.len()];
        // Stack of a depth-first search: vertices, each with the number of its predecessors that have been examined.
        let mut open: Vec<(usize, usize)> = Vec::new();
        for last in (0..self.dag.len()).filter(|&vertex| self.after(vertex).is_empty()) {
            has_started[last] = true;
            open.push((last, 0));
            while let Some((vertex, looked_at)) = open.last_mut() {
                match self.before(*vertex).get(*looked_at) {
                    None => {
                        order.push(*vertex);
                        open.pop();
                    }
                    Some(&(before, _)) => {
                        *looked_at += 1;
                        if !std::mem::replace(&mut has_started[before], true) {
                            open.push((before, 0));
                        }
                    }
                }
            }
        }
        order
    }

    /// Returns the quality of the best cut whose growing half consists of the first vertices of `order`, and the number of vertices in this half. The
    /// half never has all vertices of the graph.
    fn best_part(&self, order: &[usize], most: [f64; 2]) -> (Quality, usize) {
        let (total, mut weight, mut cut) = (self.dag.total(), 0.0, 0);
        let mut best: Option<(Quality, usize)> = None;
        for (count, &vertex) in (1..self.dag.len()).zip(order) {
            weight += self.dag.weight(vertex);
            cut += self.cost(vertex);
            let weights = if self.reversed { [total - weight, weight] } else { [weight, total - weight] };
            let quality = Quality::new(weights, most, cut);
            if best.is_none_or(|(other, _)| quality < other) {
                best = Some((quality, count));
            }
        }
        best.unwrap_or((Quality::new([total, 0.0], most, 0), order.len()))
    }
}
