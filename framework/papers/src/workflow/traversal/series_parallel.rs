//! Order of the optimal traversal of a series-parallel graph that contains all precedences of a block, and more.
//!
//! Each task is an edge with the memory need of the task as weight, between a vertex where its inputs end and a
//! vertex where its outputs begin (the fork of the task). Vertices are visited in topological order. Edges whose
//! consumers have not been visited yet (open edges) are attached to a tree of forks. If the inputs of a task come
//! from different branches of a fork, these branches are joined. If the branches have other open edges, all of these
//! edges first pass through an additional vertex of synchronisation. An edge that is parallel to a longer path is
//! replaced: its weight is added to that path. Joined branches are composed as [`Cuts`] at once, so that there is no
//! second pass and no recursion.

use armature_planner::workflow::{TaskBlock, breadth_first};

use super::fork_tree::ForkTree;
use super::segments::{Composer, Cuts};

/// Number of the graph's source, which is the fork (vertex where outputs begin) before all tasks.
const SOURCE: usize = 0;

/// Returns the tasks of a block in the order of the optimal traversal of its series-parallel graph.
pub(super) fn order(block: &TaskBlock) -> Vec<usize> {
    if block.is_empty() {
        return Vec::new();
    }
    let mut graph = Growing::new(block);
    for task in visits(block) {
        graph.visit(task);
    }
    graph.finish()
}

/// Returns the tasks sorted by the difference of two lengths in edges: of the longest path that ends at the task, minus that of the longest path that
/// begins there. Parents come before children.
fn visits(block: &TaskBlock) -> Vec<usize> {
    let order = breadth_first(block);
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

/// Number and total weight of the open edges (edges to unvisited tasks) that begin at one fork (vertex where outputs
/// begin).
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

/// Visited part of the graph. Its forks (vertices where outputs begin) are numbered: the source, then the end of each
/// task, then vertices of synchronisation.
struct Growing<'a> {
    block: &'a TaskBlock,
    tree: ForkTree,
    composer: Composer,
    /// For each fork (vertex where outputs begin), the traversal of the graph between it and its parent in the tree
    /// of forks.
    link: Vec<Option<Cuts>>,
    /// For each fork (vertex where outputs begin), the traversal of that part of the graph below it that has been
    /// composed.
    below: Vec<Option<Cuts>>,
    /// For each fork (vertex where outputs begin), its edges to tasks that have not been visited.
    open: Vec<Open>,
    /// Replaced edges are edges whose weight was added to a parallel path. For each fork (vertex where outputs begin):
    /// total weight of the replaced edges that end there, minus that of the replaced edges that begin there.
    laid: Vec<i64>,
    /// For each removed fork (vertex where outputs begin), the vertex of synchronisation that took over its open
    /// edges, or another removed fork whose entry leads there in turn; for all other forks, the fork itself.
    moved_forks: Vec<usize>,
}

impl<'a> Growing<'a> {
    fn new(block: &'a TaskBlock) -> Self {
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
            moved_forks: (0..forks).collect(),
        }
    }

    /// Returns the fork (vertex where outputs begin) that now has the open edges of `fork`, which may have been
    /// removed.
    fn holder(&mut self, mut fork: usize) -> usize {
        while self.moved_forks[fork] != fork {
            self.moved_forks[fork] = self.moved_forks[self.moved_forks[fork]];
            fork = self.moved_forks[fork];
        }
        fork
    }

    /// Adds a task, whose parents must have been visited, to the visited part of the graph.
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

    /// Closes the open edges in `inputs`, which all lead to one task. Returns the fork (vertex where outputs begin)
    /// below which this task is attached, and the traversal between fork and task.
    fn join(&mut self, inputs: &mut Vec<(usize, Open)>) -> (usize, Cuts) {
        inputs.sort_unstable_by_key(|&(fork, _)| (std::cmp::Reverse(self.tree.depth(fork)), fork));
        inputs.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1.add(next.1);
            }
            same
        });
        // Lowest common ancestor of the forks (vertices where outputs begin) at which the edges begin. A fork that is
        // an ancestor of the other forks is skipped, because its edges are replaced by adding their weight to the
        // path from this fork.
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
        let joined = Composer::parallel(self.merge(above, &ends), Composer::edge(laid));
        if left.edges == 0 {
            return (above, joined);
        }
        let synchronised = self.add_fork(above, joined, left);
        for fork in ends {
            self.moved_forks[fork] = synchronised;
        }
        (synchronised, Composer::edge(laid + closed.weight))
    }

    /// Composes branches of the fork `above` (a vertex where outputs begin) with all of their open edges. `ends`
    /// lists the forks of the branches, parents first.
    fn merge(&mut self, above: usize, ends: &[usize]) -> Cuts {
        let merged_cuts = |cuts: Option<Cuts>, other| match cuts {
            Some(cuts) => Composer::parallel(cuts, other),
            None => other,
        };
        for &fork in ends.iter().rev() {
            let mut below = self.below[fork].take();
            let open = std::mem::take(&mut self.open[fork]);
            if open.edges > 0 {
                below = Some(merged_cuts(below, Composer::edge(open.weight)));
            }
            let laid = self.laid[fork];
            let link = merged_cuts(self.link[fork].take(), Composer::edge(laid));
            let branch = match below {
                Some(below) => self.composer.series(link, None, below),
                None => link,
            };
            let parent = self.tree.parent(fork);
            self.laid[parent] += laid;
            self.below[parent] = Some(merged_cuts(self.below[parent].take(), branch));
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
        self.moved_forks.push(fork);
        fork
    }

    fn finish(mut self) -> Vec<usize> {
        let mut inputs: Vec<(usize, Open)> =
            self.open.iter().copied().enumerate().filter(|(_, open)| open.edges > 0).collect();
        let (fork, link) = self.join(&mut inputs);
        self.add_fork(fork, link, Open::default());
        let ends = self.tree.cut_off(&self.tree.children(SOURCE));
        let all = self.merge(SOURCE, &ends);
        self.composer.tasks(all)
    }
}

/// Returns the edge from the source to a task that has no parents or reads files of other blocks that need memory;
/// `None` for other tasks.
fn from_source(block: &TaskBlock, task: usize) -> Option<Open> {
    let weight = block.arriving(task) as i64;
    (weight > 0 || block.inputs(task).is_empty()).then_some(Open { edges: 1, weight })
}

/// Returns the edge from a task that has no children, or writes files for other blocks that need memory, to the sink;
/// `None` for other tasks.
fn to_sink(block: &TaskBlock, task: usize) -> Option<Open> {
    let weight = block.leaving(task) as i64;
    (weight > 0 || block.outputs(task).is_empty()).then_some(Open { edges: 1, weight })
}
