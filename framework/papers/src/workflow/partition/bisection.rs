//! Bisection of a directed acyclic graph into two halves of limited weights.

use armature_planner::random::Random;

use super::coarsen::clusters;
use super::dag::Dag;
use super::grow::grow;
use super::refine::refine;

/// Number of vertices at which a coarsened graph is small enough for the initial cut. The constants of this module
/// are those of the partitioner dagP for bisections.
const ENOUGH: usize = 100;
/// Maximum weight of a cluster of vertices in the coarsened graph, as a fraction of the weight of a final block of
/// tasks.
const CLUSTER: f64 = 0.1;
/// Coarsening ends when the coarser graph still has more than this fraction of the vertices of the finer graph.
const SHRINKS: f64 = 0.9;

/// Limits of a bisection of a graph: maximum weights of the halves and of clusters of vertices.
pub(super) struct Bisection {
    pub(super) most: [f64; 2],
    cluster: f64,
}

impl Bisection {
    /// Creates the limits of a bisection of `dag`. The halves will be divided into `parts[0]` and `parts[1]` blocks
    /// of tasks, and `most` is the maximum weight of a block.
    pub(super) fn new(dag: &Dag, parts: [usize; 2], most: f64) -> Self {
        let total = dag.total();
        let count = (parts[0] + parts[1]) as f64;
        // At each level of the recursive bisection, the weight of a half may exceed its share by the same factor
        // (slack). The product of the slacks of all levels is the factor by which a block of tasks may exceed the
        // mean weight.
        let cuts = count.log2().ceil();
        let slack = (most * count / total).powf(1.0 / cuts).max(1.0);
        Bisection {
            most: parts.map(|part| slack * total * part as f64 / count),
            cluster: CLUSTER * total / count,
        }
    }

    /// Returns true for each vertex that is in the second half. Each half has at least one vertex, and no edge leads from the second half to the
    /// first.
    pub(super) fn run(&self, dag: &Dag, random: &mut Random) -> Vec<bool> {
        let mut coarser: Vec<(Vec<usize>, Dag)> = Vec::new();
        loop {
            let coarsest = coarser.last().map_or(dag, |(_, dag)| dag);
            if coarsest.len() <= ENOUGH {
                break;
            }
            let (cluster, count) = clusters(coarsest, self.cluster, coarser.len() % 2 == 1, random);
            if count as f64 > SHRINKS * coarsest.len() as f64 {
                break;
            }
            let next = coarsest.contract(&cluster, count);
            coarser.push((cluster, next));
        }
        let mut second = grow(coarser.last().map_or(dag, |(_, dag)| dag), self.most);
        while let Some((cluster, coarse)) = coarser.pop() {
            refine(&coarse, self.most, &mut second);
            second = cluster.iter().map(|&cluster| second[cluster]).collect();
        }
        refine(dag, self.most, &mut second);
        second
    }
}
