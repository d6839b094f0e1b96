//! Refinement of a cut of a graph by moving vertices between the halves.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::dag::Dag;
use super::grow::Quality;

/// Moves vertices between the halves while that improves the cut (Fiduccia and Mattheyses 1982).
///
/// A vertex may move to the second half when all of its successors are there, and to the first half when all of its predecessors are there, so that
/// no edge ever leads from the second half to the first. The cost of a move does not depend on other moves: before the move all edges of the vertex
/// on one side are cut, and after the move all edges on the other side.
pub(super) fn refine(dag: &Dag, most: [f64; 2], second: &mut [bool]) {
    loop {
        let before = second.to_vec();
        let cut = pass(dag, most, second);
        // A refinement pass adds and subtracts weights of vertices, so its sums have rounding errors. With these
        // sums, two cuts could each count as better than the other for ever. The comparison of the cuts before and
        // after the pass therefore adds up the weights again, in the order of the vertices.
        if Quality::new(weights(dag, second), most, cut) >= Quality::new(weights(dag, &before), most, 0) {
            second.copy_from_slice(&before);
            return;
        }
    }
}

fn weights(dag: &Dag, second: &[bool]) -> [f64; 2] {
    let mut weights = [0.0; 2];
    for (vertex, &second) in second.iter().enumerate() {
        weights[usize::from(second)] += dag.weight(vertex);
    }
    weights
}

/// Moves each vertex to the other half at most once, the cheapest first, even if the cut becomes worse, and then restores the best cut found. Returns
/// the change of the total weight of the cut edges.
fn pass(dag: &Dag, most: [f64; 2], second: &mut [bool]) -> i64 {
    let mut state = RefinementPass::new(dag, second);
    let (mut best, mut kept, mut cut) = (Quality::new(state.weights, most, 0), 0, 0);
    let mut moved_vertices = Vec::new();
    while let Some(vertex) = state.next(most) {
        state.skip(vertex);
        moved_vertices.push(vertex);
        let quality = Quality::new(state.weights, most, state.cut);
        let both = state.count[0] > 0 && state.count[1] > 0;
        if both && quality < best {
            (best, kept, cut) = (quality, moved_vertices.len(), state.cut);
        }
        if moved_vertices.len() - kept > patience(dag.len()) {
            break;
        }
    }
    let undo = moved_vertices.split_off(kept);
    for vertex in undo {
        state.second[vertex] = !state.second[vertex];
    }
    cut
}

/// Number of consecutive moves of vertices without a better cut after which a refinement pass ends. It grows with the
/// square root of `vertices`, as the number of vertices along a cut of a square grid does.
fn patience(vertices: usize) -> usize {
    2 * vertices.isqrt() + 1
}

struct RefinementPass<'a> {
    dag: &'a Dag,
    second: &'a mut [bool],
    moved_vertices: Vec<bool>,
    /// For each vertex, the number of neighbours that must move to the other half before the vertex can move there.
    blocked: Vec<usize>,
    /// For each half, the vertices that may leave it, those with the lowest cost of a move first.
    ready: [BinaryHeap<Reverse<(i64, usize)>>; 2],
    weights: [f64; 2],
    count: [usize; 2],
    /// Change of the total weight of the cut edges since the beginning of the refinement pass.
    cut: i64,
}

impl<'a> RefinementPass<'a> {
    fn new(dag: &'a Dag, second: &'a mut [bool]) -> Self {
        let mut pass = RefinementPass {
            moved_vertices: vec![false; dag.len()],
            blocked: vec![0; dag.len()],
            ready: Default::default(),
            weights: weights(dag, second),
            count: [0; 2],
            cut: 0,
            dag,
            second,
        };
        for vertex in 0..dag.len() {
            let half = usize::from(pass.second[vertex]);
            pass.count[half] += 1;
            pass.blocked[vertex] = pass
                .in_the_way(vertex)
                .iter()
                .filter(|end| pass.second[end.0] == pass.second[vertex])
                .count();
            pass.offer(vertex);
        }
        pass
    }

    /// Returns the neighbours that must be in the other half of the cut before a vertex moves there.
    fn in_the_way(&self, vertex: usize) -> &'a [(usize, u64)] {
        if self.second[vertex] { self.dag.inputs(vertex) } else { self.dag.outputs(vertex) }
    }

    fn cost(&self, vertex: usize) -> i64 {
        let behind = self.dag.cost_behind(vertex);
        if self.second[vertex] { -behind } else { behind }
    }

    fn offer(&mut self, vertex: usize) {
        if self.blocked[vertex] == 0 && !self.moved_vertices[vertex] {
            let half = usize::from(self.second[vertex]);
            self.ready[half].push(Reverse((self.cost(vertex), vertex)));
        }
    }

    /// Removes and returns the next vertex to move: the cheapest one whose move does not overload the other half, or, if a half is overloaded, the
    /// cheapest one of this half.
    fn next(&mut self, most: [f64; 2]) -> Option<usize> {
        let heavy = (0..2).find(|&half| self.weights[half] > most[half]);
        let mut best: Option<(i64, usize, usize)> = None;
        for half in 0..2 {
            self.drop_stale(half);
            let Some(&Reverse((cost, vertex))) = self.ready[half].peek() else { continue };
            let fits = self.weights[1 - half] + self.dag.weight(vertex) <= most[1 - half];
            let allowed = heavy.map_or(fits, |heavy| heavy == half);
            if allowed && best.is_none_or(|other| (cost, vertex, half) < other) {
                best = Some((cost, vertex, half));
            }
        }
        let (_, vertex, half) = best?;
        self.ready[half].pop();
        Some(vertex)
    }

    /// Removes from the head of the queue of a half the vertices that can no longer move to the other half.
    fn drop_stale(&mut self, half: usize) {
        while let Some(&Reverse((_, vertex))) = self.ready[half].peek() {
            let there = usize::from(self.second[vertex]) == half;
            if there && self.blocked[vertex] == 0 && !self.moved_vertices[vertex] {
                return;
            }
            self.ready[half].pop();
        }
    }

    fn skip(&mut self, vertex: usize) {
        self.cut += self.cost(vertex);
        let half = usize::from(self.second[vertex]);
        self.weights[half] -= self.dag.weight(vertex);
        self.weights[1 - half] += self.dag.weight(vertex);
        self.count[half] -= 1;
        self.count[1 - half] += 1;
        self.moved_vertices[vertex] = true;
        self.second[vertex] = half == 0;
        // After a vertex has moved, its neighbours in the half that it left have one blocking neighbour fewer, and its neighbours in the half that it
        // joined have one more.
        let (leaves, joins) = if half == 0 {
            (self.dag.inputs(vertex), self.dag.outputs(vertex))
        } else {
            (self.dag.outputs(vertex), self.dag.inputs(vertex))
        };
        for &(neighbour, _) in leaves {
            self.blocked[neighbour] -= 1;
            self.offer(neighbour);
        }
        for &(neighbour, _) in joins {
            self.blocked[neighbour] += 1;
        }
    }
}
