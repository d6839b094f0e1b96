//! Layered layout of a graph: each node is to the right of the nodes that it depends on, with few
//! edge crossings.

/// Maximum number of nodes in a column. A layer with more nodes has several columns.
pub(super) const ROWS: usize = 40;
/// Maximum number of points at which edges pass through layers. If a graph needs more, all edges are drawn as straight lines.
const MAX_POINTS: usize = 2000;
/// Maximum number of passes over the layers that reduce the number of edge crossings; most of the reduction happens in the first passes.
const SWEEPS: usize = 12;

/// Layout of a graph. The place of a node is its column and its row; the rows of a column are centred on 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Layout {
    pub(super) places: Vec<(f64, f64)>,
    /// For each edge, the positions of the points through which it passes.
    pub(super) ways: Vec<Vec<(f64, f64)>>,
    pub(super) columns: usize,
    /// Number of rows of the column with the most nodes.
    pub(super) rows: usize,
}

/// Returns the layout of a graph with `nodes` nodes. Edges of cycles, which only a damaged log contains, are ignored.
pub(super) fn layout(nodes: usize, edges: &[(usize, usize)]) -> Layout {
    let layer = layers(nodes, edges);
    let mut points = Points::new(&layer, edges);
    points.order();
    let mut places = vec![(0.0, 0.0); points.layer.len()];
    let (mut columns, mut rows) = (0, 0);
    for row in &points.rows {
        let wide = row.len().div_ceil(ROWS).max(1);
        let high = row.len().div_ceil(wide);
        for (n, &point) in row.iter().enumerate() {
            places[point] = ((columns + n % wide) as f64, (n / wide) as f64 - (high - 1) as f64 / 2.0);
        }
        columns += wide;
        rows = rows.max(high);
    }
    let ways = points.ways.iter().map(|way| way.iter().map(|&point| places[point]).collect()).collect();
    places.truncate(nodes);
    Layout { places, ways, columns, rows }
}

/// Returns the layer of each node: the length of the longest path to the node. A node without dependencies is moved next to the first node that
/// depends on it.
fn layers(nodes: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let (mut after, mut missing) = (vec![Vec::new(); nodes], vec![0usize; nodes]);
    for &(from, to) in edges {
        after[from].push(to);
        missing[to] += 1;
    }
    let mut layer = vec![0usize; nodes];
    let is_source: Vec<bool> = missing.iter().map(|missing| *missing == 0).collect();
    let mut ready: Vec<usize> = (0..nodes).filter(|&node| is_source[node]).collect();
    while let Some(node) = ready.pop() {
        for &next in &after[node] {
            layer[next] = layer[next].max(layer[node] + 1);
            missing[next] -= 1;
            if missing[next] == 0 {
                ready.push(next);
            }
        }
    }
    for node in (0..nodes).filter(|&node| is_source[node]) {
        let first = after[node].iter().map(|&next| layer[next]).min();
        layer[node] = first.map_or(0, |first| first.saturating_sub(1));
    }
    layer
}

/// Points of the layout: the nodes, and the points at which edges pass through layers between their ends. Edges from the same node share their
/// points.
struct Points {
    layer: Vec<usize>,
    /// For each layer, its points (nodes and passing edges) from top to bottom.
    rows: Vec<Vec<usize>>,
    /// For each point, the points of the next layer to which its edges lead. The field `before` has those of the
    /// previous layer.
    next: Vec<Vec<usize>>,
    before: Vec<Vec<usize>>,
    /// For each edge, the points through which it passes.
    ways: Vec<Vec<usize>>,
}

impl Points {
    fn new(layer: &[usize], edges: &[(usize, usize)]) -> Self {
        let nodes = layer.len();
        // For each node, the number of layers that its longest edge passes through.
        let mut reach = vec![0usize; nodes];
        for &(from, to) in edges {
            reach[from] = reach[from].max(layer[to].saturating_sub(layer[from] + 1));
        }
        let is_straight = reach.iter().sum::<usize>() > MAX_POINTS;
        let mut all = Points {
            layer: layer.to_vec(),
            rows: Vec::new(),
            next: vec![Vec::new(); nodes],
            before: vec![Vec::new(); nodes],
            ways: Vec::with_capacity(edges.len()),
        };
        let mut tracks: Vec<Vec<usize>> = vec![Vec::new(); nodes];
        for (node, &reach) in reach.iter().enumerate().filter(|_| !is_straight) {
            let mut last = node;
            for step in 1..=reach {
                let point = all.layer.len();
                all.layer.push(layer[node] + step);
                all.next.push(Vec::new());
                all.before.push(Vec::new());
                all.link(last, point);
                tracks[node].push(point);
                last = point;
            }
        }
        for &(from, to) in edges {
            let between = layer[to].saturating_sub(layer[from] + 1);
            let way = tracks[from].get(..between).unwrap_or_default().to_vec();
            if layer[to] > layer[from] {
                all.link(way.last().copied().unwrap_or(from), to);
            }
            all.ways.push(way);
        }
        all.rows = vec![Vec::new(); all.layer.iter().max().map_or(0, |last| last + 1)];
        for (point, &layer) in all.layer.iter().enumerate() {
            all.rows[layer].push(point);
        }
        all
    }

    fn link(&mut self, from: usize, to: usize) {
        self.next[from].push(to);
        self.before[to].push(from);
    }

    /// Orders the points (nodes and passing edges) of each layer by the mean position of their neighbours in the
    /// adjacent layer, alternately forwards and backwards. Keeps the order with the fewest crossings of edges.
    fn order(&mut self) {
        let (mut best, mut fewest) = (self.rows.clone(), self.crossings());
        for sweep in 0..SWEEPS {
            if fewest == 0 {
                break;
            }
            let forwards = sweep % 2 == 0;
            let all = 0..self.rows.len();
            let order: Vec<usize> = if forwards { all.collect() } else { all.rev().collect() };
            let mut place = self.positions();
            for layer in order {
                let neighbours = if forwards { &self.before } else { &self.next };
                let mut row: Vec<(f64, usize)> = self.rows[layer]
                    .iter()
                    .map(|&point| {
                        let of = &neighbours[point];
                        let sum: usize = of.iter().map(|&other| place[other]).sum();
                        // A point without neighbours in the adjacent layer keeps its position.
                        (
                            if of.is_empty() { place[point] as f64 } else { sum as f64 / of.len() as f64 },
                            point,
                        )
                    })
                    .collect();
                row.sort_by(|a, b| a.0.total_cmp(&b.0));
                self.rows[layer] = row.into_iter().map(|(_, point)| point).collect();
                self.rows[layer].iter().enumerate().for_each(|(n, &point)| place[point] = n);
            }
            let crossings = self.crossings();
            if crossings < fewest {
                (best, fewest) = (self.rows.clone(), crossings);
            }
        }
        self.rows = best;
    }

    /// Returns for each point its position in its layer, counted from the top.
    fn positions(&self) -> Vec<usize> {
        let mut place = vec![0; self.layer.len()];
        for row in &self.rows {
            row.iter().enumerate().for_each(|(n, &point)| place[point] = n);
        }
        place
    }

    /// Returns the number of crossings of lines between adjacent layers. Lines over several layers are not counted.
    fn crossings(&self) -> u64 {
        let place = self.positions();
        let mut all = 0;
        for (layer, row) in self.rows.iter().enumerate() {
            let mut ends: Vec<(usize, usize)> = Vec::new();
            for &point in row {
                let near = self.next[point].iter().filter(|&&next| self.layer[next] == layer + 1);
                ends.extend(near.map(|&next| (place[point], place[next])));
            }
            ends.sort_unstable();
            // The lines are sorted by their starts. A line crosses the preceding lines that end at
            // a later position. The Fenwick tree `seen` counts the ends of the preceding lines.
            let mut seen = vec![0u64; self.rows.get(layer + 1).map_or(0, Vec::len) + 1];
            for (count, &(_, end)) in (0..).zip(&ends) {
                let (mut not_beyond, mut at) = (0, end + 1);
                while at > 0 {
                    not_beyond += seen[at];
                    at &= at - 1;
                }
                all += count - not_beyond;
                let mut at = end + 1;
                while at < seen.len() {
                    seen[at] += 1;
                    at += at & at.wrapping_neg();
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nodes_are_placed_to_the_right_of_their_predecessors() {
        // Nodes 0, 1, 2 and 3 form a diamond. Node 3 of the last layer also depends on node 4, and no edge leads to or from node 5.
        let edges = [(0, 1), (0, 2), (1, 3), (2, 3), (4, 3), (0, 3)];
        let Layout { places, ways, columns, rows } = layout(6, &edges);
        let column: Vec<f64> = places.iter().map(|place| place.0).collect();
        assert_eq!(column, [0.0, 1.0, 1.0, 2.0, 1.0, 0.0]);
        assert_eq!((columns, rows), (3, 4));
        // The edge from node 0 to node 3 passes between the nodes of the middle layer.
        assert_eq!(ways.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 1]);
        assert!(places.iter().all(|place| *place != ways[5][0]));
    }

    #[test]
    fn ordering_removes_avoidable_edge_crossings() {
        // Each of the ten nodes of the first layer has one successor; the successors are in the opposite order.
        let edges: Vec<(usize, usize)> = (0..10).map(|n| (n, 19 - n)).collect();
        let layer = layers(20, &edges);
        let mut points = Points::new(&layer, &edges);
        assert_eq!(points.crossings(), 45);
        points.order();
        assert_eq!(points.crossings(), 0);
    }

    #[test]
    fn layer_of_many_nodes_is_no_higher_than_a_page() {
        let edges: Vec<(usize, usize)> = (1..=450).map(|n| (0, n)).collect();
        let found = layout(451, &edges);
        assert!(
            found.rows <= ROWS && found.columns == 1 + 450usize.div_ceil(ROWS),
            "{} {}",
            found.rows,
            found.columns
        );
    }

    proptest! {
        /// For any graph, including one with cycles, no two nodes have the same column and row. Without cycles, all edges lead to the right.
        #[test]
        fn nodes_do_not_overlap_and_edges_point_right(ends in proptest::collection::vec((0..30usize, 0..30usize), 0..80), sane: bool) {
            let edges: Vec<(usize, usize)> =
                if sane { ends.into_iter().filter(|(a, b)| a < b).collect() } else { ends };
            let Layout { places, ways, .. } = layout(30, &edges);
            let mut seen: Vec<(u64, i64)> = places.iter().map(|p| (p.0 as u64, (2.0 * p.1) as i64)).collect();
            seen.sort_unstable();
            seen.dedup();
            prop_assert_eq!(seen.len(), 30);
            prop_assert_eq!(ways.len(), edges.len());
            if sane {
                prop_assert!(edges.iter().all(|&(a, b)| places[a].0 < places[b].0));
            }
        }

        /// The number of crossings equals that found by a comparison of all pairs of lines. The chosen order has no more crossings than the original
        /// order.
        #[test]
        fn ordering_never_increases_edge_crossings(ends in proptest::collection::vec((0..12usize, 12..24usize), 0..40)) {
            let layer = layers(24, &ends);
            let mut points = Points::new(&layer, &ends);
            let all_pairs = |points: &Points| {
                let place = points.positions();
                let lines: Vec<(usize, usize)> = ends.iter().map(|&(a, b)| (place[a], place[b])).collect();
                let crosses = |a: &(usize, usize), b: &(usize, usize)| a.0 < b.0 && a.1 > b.1;
                lines.iter().map(|a| lines.iter().filter(|b| crosses(a, b)).count() as u64).sum::<u64>()
            };
            let first = points.crossings();
            prop_assert_eq!(first, all_pairs(&points));
            points.order();
            prop_assert!(points.crossings() <= first);
            prop_assert_eq!(points.crossings(), all_pairs(&points));
        }
    }
}
