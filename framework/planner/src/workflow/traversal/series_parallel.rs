//! The order of the best traversal of a series-parallel graph that has all of a block's precedences, and more.
//!
//! Each task is an edge that weighs what it needs, between a vertex where its inputs end and one where its outputs
//! begin. Vertices are visited in a topological order. What is open, the edges whose consumers come later, hangs on a
//! tree of forks. Where the inputs of a task come from different branches of a fork, these branches are joined; if they have
//! other open edges, too, all of them pass through a vertex of synchronisation first. An edge beside which there is a longer path is laid along
//! that path. Branches that are joined are put together as [`Cuts`] at once, so there is no second pass and no recursion.

use super::block::Block;
use super::fork_tree::ForkTree;
use super::segments::{Composer, Cuts};

/// The number of the vertex before all tasks.
const SOURCE: usize = 0;

/// The tasks of the block in the order found.
pub(super) fn order(block: &Block) -> Vec<usize> {
    if block.len() == 0 {
        return Vec::new();
    }
    let mut graph = Growing::new(block);
    for task in visits(block) {
        graph.visit(task);
    }
    graph.finish()
}

/// Tasks by how much further they are from the first than from the last, in edges; parents before children.
fn visits(block: &Block) -> Vec<usize> {
    let order = super::simple::breadth_first(block);
    let mut top = vec![0_i64; block.len()];
    let mut bottom = vec![0_i64; block.len()];
    for &task in &order {
        top[task] = block.inputs(task).iter().map(|edge| top[edge.from] + 1).max().unwrap_or(0);
    }
    for &task in order.iter().rev() {
        bottom[task] = block.outputs(task).iter().map(|edge| bottom[edge.to] + 1).max().unwrap_or(0);
    }
    let mut visits: Vec<usize> = (0..block.len()).collect();
    visits.sort_by_key(|&task| (top[task] - bottom[task], task));
    visits
}

/// Edges from one fork to one task, or from one fork to any.
#[derive(Clone, Copy, Default)]
struct Open {
    edges: usize,
    weight: i64,
}

impl Open {
    fn add(&mut self, other: Open) {
        self.edges += other.edges;
        self.weight += other.weight;
    }

    fn remove(&mut self, other: Open) {
        self.edges -= other.edges;
        self.weight -= other.weight;
    }
}

/// The graph as far as it has been visited. Forks are the source, then each task's end, then vertices of synchronisation.
struct Growing<'a> {
    block: &'a Block,
    tree: ForkTree,
    composer: Composer,
    /// What lies between each fork's parent and the fork.
    link: Vec<Option<Cuts>>,
    /// What has been put together of what comes after each fork.
    below: Vec<Option<Cuts>>,
    /// What leaves each fork and is not joined yet.
    open: Vec<Open>,
    /// What is laid along the path to each fork, and ends there, less what begins there.
    laid: Vec<i64>,
    /// For forks that are no more, the vertex of synchronisation that has their open edges, or one on the way to it.
    moved: Vec<usize>,
}

impl<'a> Growing<'a> {
    fn new(block: &'a Block) -> Self {
        let forks = block.len() + 1;
        let none = || std::iter::repeat_with(|| None).take(forks).collect();
        let mut open = vec![Open::default(); forks];
        for task in 0..block.len() {
            if let Some(edge) = from_source(block, task) {
                open[SOURCE].add(edge);
            }
        }
        Growing {
            block,
            tree: ForkTree::new(forks),
            composer: Composer::default(),
            link: none(),
            below: none(),
            open,
            laid: vec![0; forks],
            moved: (0..forks).collect(),
        }
    }

    /// The fork that has the open edges of this one now.
    fn holder(&mut self, mut fork: usize) -> usize {
        while self.moved[fork] != fork {
            self.moved[fork] = self.moved[self.moved[fork]];
            fork = self.moved[fork];
        }
        fork
    }

    /// Passes a task, whose parents have been passed.
    fn visit(&mut self, task: usize) {
        let block = self.block;
        let mut inputs: Vec<(usize, Open)> = block
            .inputs(task)
            .iter()
            .map(|edge| (self.holder(edge.from + 1), Open { edges: 1, weight: edge.size as i64 }))
            .chain(from_source(block, task).map(|edge| (SOURCE, edge)))
            .collect();
        let (fork, entry) = self.join(&mut inputs);
        let need = Composer::edge(block.need(task) as i64);
        self.link[task + 1] = Some(self.composer.series(entry, Some(task), need));
        self.tree.hang(task + 1, fork);
        for edge in block.outputs(task) {
            self.open[task + 1].add(Open { edges: 1, weight: edge.size as i64 });
        }
        if let Some(edge) = to_sink(block, task) {
            self.open[task + 1].add(edge);
        }
    }

    /// Closes these open edges. Returns the fork after which their consumer comes, and what lies between.
    fn join(&mut self, inputs: &mut Vec<(usize, Open)>) -> (usize, Cuts) {
        inputs.sort_unstable_by_key(|&(fork, _)| (std::cmp::Reverse(self.tree.depth(fork)), fork));
        inputs.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1.add(next.1);
            }
            same
        });
        // The lowest fork above all that do not lie above it themselves. From these, edges are laid along the path down to it.
        let above = inputs[1..].iter().fold(inputs[0].0, |lowest, &(fork, _)| {
            let both = self.tree.lowest_above(lowest, fork);
            if both == fork { lowest } else { both }
        });
        let (mut laid, mut closed) = (0, Open::default());
        let mut branches = Vec::new();
        for &(fork, edge) in &*inputs {
            if self.tree.lowest_above(fork, above) == fork {
                laid += edge.weight;
                self.open[fork].remove(edge);
                self.laid[fork] -= edge.weight;
                self.laid[above] += edge.weight;
            } else {
                closed.add(edge);
                branches.push(self.tree.ancestor(fork, self.tree.depth(above) + 1));
            }
        }
        if branches.is_empty() {
            return (above, Composer::edge(laid));
        }
        branches.sort_unstable();
        branches.dedup();
        let ends = self.tree.cut_off(&branches);
        let mut left = Open::default();
        for &fork in &ends {
            left.add(self.open[fork]);
        }
        left.remove(closed);
        let joined = Composer::parallel(self.put_together(above, &ends), Composer::edge(laid));
        if left.edges == 0 {
            return (above, joined);
        }
        let synchronised = self.add_fork(above, joined, left);
        for fork in ends {
            self.moved[fork] = synchronised;
        }
        (synchronised, Composer::edge(laid + closed.weight))
    }

    /// Puts branches of a fork together, with all edges that are open on them. Their forks are given parents first.
    fn put_together(&mut self, above: usize, ends: &[usize]) -> Cuts {
        let beside = |cuts: Option<Cuts>, other| match cuts {
            Some(cuts) => Composer::parallel(cuts, other),
            None => other,
        };
        for &fork in ends.iter().rev() {
            let mut below = self.below[fork].take();
            let open = std::mem::take(&mut self.open[fork]);
            if open.edges > 0 {
                below = Some(beside(below, Composer::edge(open.weight)));
            }
            let laid = self.laid[fork];
            let link = beside(self.link[fork].take(), Composer::edge(laid));
            let branch = match below {
                Some(below) => self.composer.series(link, None, below),
                None => link,
            };
            let parent = self.tree.parent(fork);
            self.laid[parent] += laid;
            self.below[parent] = Some(beside(self.below[parent].take(), branch));
        }
        self.below[above].take().unwrap_or_else(|| Composer::edge(0))
    }

    fn add_fork(&mut self, above: usize, link: Cuts, open: Open) -> usize {
        let fork = self.link.len();
        self.tree.add_room();
        self.tree.hang(fork, above);
        self.link.push(Some(link));
        self.below.push(None);
        self.open.push(open);
        self.laid.push(0);
        self.moved.push(fork);
        fork
    }

    /// Closes what is still open, and puts all together.
    fn finish(mut self) -> Vec<usize> {
        let mut inputs: Vec<(usize, Open)> =
            self.open.iter().copied().enumerate().filter(|(_, open)| open.edges > 0).collect();
        let (fork, link) = self.join(&mut inputs);
        self.add_fork(fork, link, Open::default());
        let ends = self.tree.cut_off(&self.tree.children(SOURCE));
        let all = self.put_together(SOURCE, &ends);
        self.composer.tasks(all)
    }
}

/// The edge from the source to a task, if there has to be one.
fn from_source(block: &Block, task: usize) -> Option<Open> {
    let weight = block.arriving(task) as i64;
    (weight > 0 || block.inputs(task).is_empty()).then_some(Open { edges: 1, weight })
}

/// The edge from a task to the sink, if there has to be one.
fn to_sink(block: &Block, task: usize) -> Option<Open> {
    let weight = block.leaving(task) as i64;
    (weight > 0 || block.outputs(task).is_empty()).then_some(Open { edges: 1, weight })
}
