//! Tree that is unknown before it has been searched. A task of uneven length computes a node and creates tasks for
//! the node's children; the sizes of subtrees are very uneven.
//!
//! The subtree of a node depends only on the node, so every program finds the same tree, in any order.

use std::time::{Duration, Instant};

use armature::farm::Farm;
use armature::{Config, Progress};
use mpi::{collective::CommunicatorCollectives, collective::SystemOperation, traits::Communicator};

use crate::{
    RunResult,
    ranks::Launch,
    synthetic_work::{advance, advance_directly},
};

/// Modulus of the number of children of a node, which is between 0 and 4. With a mean of two children the tree grows,
/// although many of its branches end early.
const MAX_CHILDREN: u64 = 5;

/// Parameters of the tree of tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tree {
    /// Number of root nodes, at which the search begins.
    pub roots: u64,
    /// Maximum depth below a root.
    pub depth: u32,
    /// Mean length of a task in generator steps.
    pub steps: u64,
}

/// Node of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    number: u64,
    depth: u32,
}

/// Program that searches the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Searcher {
    /// Search by plain recursion on one rank.
    Serial,
    /// Hand-written MPI: half of the roots on each of two ranks, each with a plain recursion.
    Halves,
    /// Search with the framework on two ranks.
    Farm,
}

impl Tree {
    /// Returns the nodes at which a search begins.
    pub fn roots(self) -> impl Iterator<Item = Node> {
        (1..=self.roots).map(move |number| Node { number: mix(number), depth: self.depth })
    }

    /// Returns the number of nodes, the total number of generator steps of their tasks, and the sum of their results.
    pub fn expected(self) -> (u64, u64, u64) {
        let mut open: Vec<Node> = self.roots().collect();
        let (mut nodes, mut steps, mut sum) = (0, 0, 0u64);
        while let Some(node) = open.pop() {
            let length = node.steps(self.steps);
            (nodes, steps) = (nodes + 1, steps + length);
            sum = sum.wrapping_add(advance_directly(node.number, length));
            open.extend(node.children());
        }
        (nodes, steps, sum)
    }

    /// Runs `searcher` and returns the seconds of the search.
    ///
    /// # Errors
    /// If the ranks cannot be started; also errors of [`main`].
    pub fn measure(self, searcher: Searcher) -> RunResult<f64> {
        let Tree { roots, depth, steps } = self;
        let arguments =
            [roots.to_string(), depth.to_string(), steps.to_string(), searcher.name().to_string()];
        let ranks = if searcher == Searcher::Serial { 1 } else { 2 };
        let values = Launch { bind: true, ..Launch::ranks(ranks) }.run("tree", &arguments)?;
        values.get("seconds").copied().ok_or_else(|| "the search printed no seconds".into())
    }

    fn parse(arguments: &[String]) -> RunResult<(Self, Searcher)> {
        let expected = || format!("expected ROOTS DEPTH STEPS serial|halves|farm, got {arguments:?}");
        let [roots, depth, steps, searcher] = arguments else { return Err(expected().into()) };
        let searcher =
            [Searcher::Serial, Searcher::Halves, Searcher::Farm].into_iter().find(|s| s.name() == searcher);
        let tree = Tree { roots: roots.parse()?, depth: depth.parse()?, steps: steps.parse()? };
        Ok((tree, searcher.ok_or_else(expected)?))
    }
}

impl Searcher {
    fn name(self) -> &'static str {
        match self {
            Searcher::Serial => "serial",
            Searcher::Halves => "halves",
            Searcher::Farm => "farm",
        }
    }
}

/// Returns a hash of a number, by the last step of the random generator SplitMix64.
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

impl Node {
    fn steps(self, mean: u64) -> u64 {
        (self.number >> 32) % (2 * mean.max(1))
    }

    fn into_task(self) -> (u64, u32) {
        (self.number, self.depth)
    }

    fn work(self, mean: u64) -> u64 {
        advance(self.number, self.steps(mean))
    }

    fn children(self) -> impl Iterator<Item = Node> {
        let children = if self.depth == 0 { 0 } else { self.number % MAX_CHILDREN };
        (0..children).map(move |child| Node { number: mix(self.number ^ child), depth: self.depth - 1 })
    }

    fn search(self, mean: u64) -> u64 {
        self.children().fold(self.work(mean), |sum, node| sum.wrapping_add(node.search(mean)))
    }
}

/// Runs the rank program; prints `result seconds S` on rank 0.
///
/// # Errors
/// If the arguments are wrong or the sum is wrong.
pub fn main(arguments: &[String]) -> RunResult {
    let (tree, searcher) = Tree::parse(arguments)?;
    let Some((took, sum)) = (match searcher {
        Searcher::Farm => with_farm(tree)?,
        Searcher::Serial | Searcher::Halves => by_hand(tree)?,
    }) else {
        return Ok(());
    };
    if sum != tree.expected().2 {
        return Err(format!("the results are wrong: sum {sum:#x}").into());
    }
    println!("result seconds {}", took.as_secs_f64());
    Ok(())
}

fn with_farm(tree: Tree) -> RunResult<Option<(Duration, u64)>> {
    let config = Config::from_env()?.progress(Progress::Off);
    Ok(armature::run(&config, |session| {
        let mut farm = Farm::exploring("tree", |&(number, depth): &(u64, u32), more| {
            let node = Node { number, depth };
            more.extend(node.children().map(Node::into_task));
            node.work(tree.steps)
        });
        // An unmeasured search from one root establishes the connections and starts the threads.
        farm.explore(session, [(0, 0)], |_| ())?;
        let mut sum = 0u64;
        let roots: Vec<_> = tree.roots().map(Node::into_task).collect();
        let run = farm.explore(session, roots, |result| sum = sum.wrapping_add(result))?;
        Ok(run.into_summary().map(|summary| (summary.elapsed, sum)))
    })?)
}

fn by_hand(tree: Tree) -> RunResult<Option<(Duration, u64)>> {
    let universe = mpi::initialize().ok_or("MPI could not be started")?;
    let world = universe.world();
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    let share = tree.roots.div_ceil(size);
    world.barrier();
    let start = Instant::now();
    let mine = tree.roots().skip((rank * share) as usize).take(share as usize);
    let sum = mine.fold(0u64, |sum, node| sum.wrapping_add(node.search(tree.steps)));
    let mut all = 0u64;
    world.all_reduce_into(&sum, &mut all, SystemOperation::sum());
    Ok((rank == 0).then(|| (start.elapsed(), all)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: Tree = Tree { roots: 4, depth: 6, steps: 10 };

    #[test]
    fn serial_and_farm_search_find_the_known_sum() {
        let (nodes, steps, sum) = TREE.expected();
        assert!(nodes > 50 && steps > nodes, "{nodes} nodes, {steps} steps");
        assert_eq!(TREE.roots().fold(0u64, |sum, node| sum.wrapping_add(node.search(10))), sum);
        let (took, found) = with_farm(TREE).unwrap().unwrap();
        assert!(found == sum && took > Duration::ZERO);
    }

    #[test]
    fn tree_search_arguments_round_trip() {
        let arguments = ["4", "6", "10", "halves"].map(String::from);
        assert_eq!(Tree::parse(&arguments).unwrap(), (TREE, Searcher::Halves));
        assert!(Tree::parse(&["4", "6", "10", "nobody"].map(String::from)).is_err());
    }
}
