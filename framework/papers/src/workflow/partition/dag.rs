//! Directed acyclic graph for partitioning a workflow into blocks of tasks.

use armature_planner::workflow::Workflow;

/// Directed acyclic graph with weights of vertices and edges.
pub(in crate::workflow) struct Dag {
    weights: Vec<f64>,
    outputs: Links,
    inputs: Links,
}

/// For each vertex, the vertices at the other end of its edges, and the weights of the edges.
struct Links {
    first: Vec<usize>,
    ends: Vec<(usize, u64)>,
}

impl Links {
    /// Creates the edges of each vertex; `edges` must be sorted by their first vertex.
    fn new(vertices: usize, edges: &[(usize, usize, u64)]) -> Self {
        let first = (0..=vertices).map(|vertex| edges.partition_point(|edge| edge.0 < vertex)).collect();
        Links { first, ends: edges.iter().map(|&(_, to, weight)| (to, weight)).collect() }
    }

    fn of(&self, vertex: usize) -> &[(usize, u64)] {
        &self.ends[self.first[vertex]..self.first[vertex + 1]]
    }
}

impl Dag {
    /// Creates a graph from the weights of its vertices and from edges (from, to, weight). The weights of parallel edges are added.
    fn new(weights: Vec<f64>, mut edges: Vec<(usize, usize, u64)>) -> Self {
        edges.sort_unstable();
        edges.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 += next.2;
            }
            same
        });
        let outputs = Links::new(weights.len(), &edges);
        for edge in &mut edges {
            *edge = (edge.1, edge.0, edge.2);
        }
        edges.sort_unstable();
        Dag { inputs: Links::new(weights.len(), &edges), outputs, weights }
    }

    /// Creates the graph of some tasks of a workflow, given in ascending order. A vertex has the work of its task as weight, or weight 1 if no task
    /// has work.
    pub(in crate::workflow) fn of_tasks(workflow: &Workflow, tasks: &[usize]) -> Self {
        let mut weights: Vec<f64> = tasks.iter().map(|&task| workflow.work(task)).collect();
        if weights.iter().all(|&weight| weight == 0.0) {
            weights.fill(1.0);
        }
        let edges = tasks.iter().enumerate().flat_map(|(from, &task)| {
            workflow
                .outputs(task)
                .iter()
                .filter_map(move |edge| tasks.binary_search(&edge.to).ok().map(|to| (from, to, edge.size)))
        });
        Dag::new(weights, edges.collect())
    }

    /// Returns the subgraph of the given vertices, which must be in ascending order.
    pub(super) fn part(&self, vertices: &[usize]) -> Dag {
        let mut number = vec![None; self.len()];
        for (new, &old) in vertices.iter().enumerate() {
            number[old] = Some(new);
        }
        let edges = vertices.iter().enumerate().flat_map(|(from, &old)| {
            let number = &number;
            self.outputs(old).iter().filter_map(move |&(to, weight)| number[to].map(|to| (from, to, weight)))
        });
        Dag::new(vertices.iter().map(|&old| self.weights[old]).collect(), edges.collect())
    }

    /// Returns the graph of `clusters` clusters of vertices; vertex `v` belongs to cluster number `cluster[v]`.
    pub(super) fn contract(&self, cluster: &[usize], clusters: usize) -> Dag {
        let mut weights = vec![0.0; clusters];
        let mut edges = Vec::new();
        for from in 0..self.len() {
            weights[cluster[from]] += self.weights[from];
            let between = self.outputs(from).iter().filter(|end| cluster[end.0] != cluster[from]);
            edges.extend(between.map(|&(to, weight)| (cluster[from], cluster[to], weight)));
        }
        Dag::new(weights, edges)
    }

    pub(super) fn len(&self) -> usize {
        self.weights.len()
    }

    pub(super) fn weight(&self, vertex: usize) -> f64 {
        self.weights[vertex]
    }

    pub(super) fn total(&self) -> f64 {
        self.weights.iter().sum()
    }

    pub(super) fn outputs(&self, vertex: usize) -> &[(usize, u64)] {
        self.outputs.of(vertex)
    }

    pub(super) fn inputs(&self, vertex: usize) -> &[(usize, u64)] {
        self.inputs.of(vertex)
    }

    /// Returns the change of the total weight of the cut edges when a vertex moves from the first half to the second.
    pub(super) fn cost_behind(&self, vertex: usize) -> i64 {
        let sum = |ends: &[(usize, u64)]| ends.iter().map(|&(_, weight)| weight as i64).sum::<i64>();
        sum(self.inputs(vertex)) - sum(self.outputs(vertex))
    }

    /// Returns for each vertex the number of edges of the longest path to it, or from it if `reversed` is true.
    pub(super) fn levels(&self, reversed: bool) -> Vec<usize> {
        let (before, after) =
            if reversed { (&self.outputs, &self.inputs) } else { (&self.inputs, &self.outputs) };
        let mut missing: Vec<usize> = (0..self.len()).map(|vertex| before.of(vertex).len()).collect();
        let mut ready: Vec<usize> = (0..self.len()).filter(|&vertex| missing[vertex] == 0).collect();
        let mut levels = vec![0; self.len()];
        while let Some(vertex) = ready.pop() {
            for &(next, _) in after.of(vertex) {
                levels[next] = levels[next].max(levels[vertex] + 1);
                missing[next] -= 1;
                if missing[next] == 0 {
                    ready.push(next);
                }
            }
        }
        levels
    }
}
