//! Coarsening of a graph: vertices are clustered such that the graph of the clusters is acyclic.

use std::cmp::Reverse;

use armature_planner::random::Random;

use super::dag::Dag;

/// Combines vertices to clusters of at most the weight `most`. Returns the number of each vertex's cluster, and the
/// number of clusters.
///
/// The level of a vertex is the number of edges of the longest path that ends at the vertex or, if `reversed` is true,
/// that begins there. Every edge thus raises (if `reversed` is true, lowers) the level by at least one. The vertices
/// of a cluster have one level or two successive levels, and an edge from one cluster of several vertices to another
/// changes the level by at least two.
///
/// The graph of the clusters therefore has no cycle: a path that leaves a cluster of several vertices changes the
/// level by at least two until it enters the next such cluster, and the step between two vertices inside a cluster
/// undoes at most one.
pub(super) fn clusters(dag: &Dag, most: f64, reversed: bool, random: &mut Random) -> (Vec<usize>, usize) {
    let levels = dag.levels(reversed);
    let heaviest = |vertex| dag.inputs(vertex).iter().chain(dag.outputs(vertex)).map(|end| end.1).max();
    let mut visits: Vec<(Reverse<Option<u64>>, u64, usize)> = (0..dag.len())
        .map(|vertex| (Reverse(heaviest(vertex)), random.uniform().to_bits(), vertex))
        .collect();
    visits.sort_unstable();
    let mut clusters = Clusters {
        dag,
        leader: (0..dag.len()).collect(),
        single: vec![true; dag.len()],
        weight: (0..dag.len()).map(|vertex| dag.weight(vertex)).collect(),
        span: levels.iter().map(|&level| (level, level)).collect(),
        adjacent: vec![Adjacent::None; dag.len()],
        levels,
        most,
    };
    for (.., vertex) in visits {
        if clusters.single[vertex]
            && let Some(neighbour) = clusters.best_neighbour(vertex)
        {
            clusters.join(vertex, neighbour);
        }
    }
    clusters.numbered()
}

/// For a vertex, the number of clusters of several vertices that contain a neighbour of the vertex
/// whose level differs by one from its own: none, one, or several.
#[derive(Clone, Copy, PartialEq)]
enum Adjacent {
    None,
    One(usize),
    Several,
}

struct Clusters<'a> {
    dag: &'a Dag,
    levels: Vec<usize>,
    most: f64,
    /// For each vertex, the vertex that represents its cluster (the leader).
    leader: Vec<usize>,
    single: Vec<bool>,
    /// Weight of each cluster of vertices, by the leader (representative vertex) of the cluster.
    weight: Vec<f64>,
    /// Lowest and highest level of the vertices of each cluster, by the leader (representative vertex) of the
    /// cluster.
    span: Vec<(usize, usize)>,
    adjacent: Vec<Adjacent>,
}

impl Clusters<'_> {
    /// Returns the neighbour whose cluster a vertex joins, if it may join any: the neighbour with the largest ratio
    /// of edge weight to cluster weight.
    fn best_neighbour(&self, vertex: usize) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        for &(neighbour, edge) in self.dag.inputs(vertex).iter().chain(self.dag.outputs(vertex)) {
            let leader = self.leader[neighbour];
            if !self.may_join(vertex, neighbour) {
                continue;
            }
            // A neighbour whose cluster has weight 0 has an infinite ratio and is preferred.
            let value = edge as f64 / self.weight[leader];
            if best.is_none_or(|(other, _)| value > other) {
                best = Some((value, neighbour));
            }
        }
        best.map(|(_, neighbour)| neighbour)
    }

    fn may_join(&self, vertex: usize, neighbour: usize) -> bool {
        let leader = self.leader[neighbour];
        let level = self.levels[vertex];
        let (low, high) = self.span[leader];
        let near = high.max(level) - low.min(level) <= 1;
        let light = self.weight[leader] + self.dag.weight(vertex) <= self.most;
        let free = |of: usize, cluster| match self.adjacent[of] {
            Adjacent::None => true,
            Adjacent::One(other) => other == cluster,
            Adjacent::Several => false,
        };
        // A neighbour that is still alone becomes the leader of the new cluster. Then the neighbour, too, must not be
        // adjacent to another cluster of several vertices.
        near && light && free(vertex, leader) && (!self.single[neighbour] || free(neighbour, leader))
    }

    fn join(&mut self, vertex: usize, neighbour: usize) {
        let leader = self.leader[neighbour];
        self.leader[vertex] = leader;
        self.weight[leader] += self.dag.weight(vertex);
        let level = self.levels[vertex];
        let (low, high) = self.span[leader];
        self.span[leader] = (low.min(level), high.max(level));
        for member in [vertex, neighbour] {
            if self.single[member] {
                self.single[member] = false;
                self.update_neighbours(member, leader);
            }
        }
    }

    fn update_neighbours(&mut self, member: usize, leader: usize) {
        for &(neighbour, _) in self.dag.inputs(member).iter().chain(self.dag.outputs(member)) {
            if self.levels[neighbour].abs_diff(self.levels[member]) == 1 {
                let adjacent = &mut self.adjacent[neighbour];
                *adjacent = match *adjacent {
                    Adjacent::None => Adjacent::One(leader),
                    Adjacent::One(other) if other == leader => Adjacent::One(leader),
                    _ => Adjacent::Several,
                };
            }
        }
    }

    fn numbered(self) -> (Vec<usize>, usize) {
        let mut number = vec![0; self.leader.len()];
        let leaders: Vec<usize> =
            (0..self.leader.len()).filter(|&vertex| self.leader[vertex] == vertex).collect();
        for (new, &leader) in leaders.iter().enumerate() {
            number[leader] = new;
        }
        (self.leader.iter().map(|&leader| number[leader]).collect(), leaders.len())
    }
}
