//! A graph cut into a first and a second half.

use super::coarsen::clusters;
use super::dag::Dag;
use super::grow::grow;
use super::refine::refine;
use crate::random::Random;

/// A graph is coarse enough for a first cut when it has this many vertices. This and the following are what dagP has for
/// graphs that it halves.
const ENOUGH: usize = 100;
/// A cluster has at most this part of a block's weight.
const CLUSTER: f64 = 0.1;
/// Coarser graphs are no use when one has more than this part of the vertices of the one before.
const SHRINKS: f64 = 0.9;

/// What is asked of a cut.
pub(super) struct Bisection {
    /// Most weight of each half.
    pub(super) most: [f64; 2],
    cluster: f64,
}

impl Bisection {
    /// For each half, how many blocks it is to be divided into, and the most that a block may weigh.
    pub(super) fn new(dag: &Dag, parts: [usize; 2], most: f64) -> Self {
        let total = dag.total();
        let count = (parts[0] + parts[1]) as f64;
        // What may still be added at each cut so that the bound holds at the last one.
        let cuts = count.log2().ceil();
        let slack = (most * count / total).powf(1.0 / cuts).max(1.0);
        Bisection {
            most: parts.map(|part| slack * total * part as f64 / count),
            cluster: CLUSTER * total / count,
        }
    }

    /// Which vertices are in the second half. There is at least one vertex in each, and no edge from the second to the first.
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
