//! Bottom-up merging of the regions of an image on the graph of adjacent regions.

use crate::picture::Picture;
use std::collections::BTreeSet;

struct Node {
    area: u32,
    /// Number of pixels whose four neighbours also belong to the region.
    core: u32,
    sums: [u64; 3],
    neighbours: BTreeSet<u32>,
    merged_into: Option<u32>,
}

impl Node {
    fn mean(&self) -> [f32; 3] {
        self.sums.map(|sum| sum as f32 / self.area as f32)
    }

    /// Returns true if the region is smaller than `min_area`, or so narrow that it probably is the blurred border of two other regions.
    fn is_tiny(&self, min_area: u32) -> bool {
        self.area < min_area || self.core < min_area / 4
    }
}

/// Merges adjacent regions of an image until no tiny region (or only one region) and at most `max_regions` regions remain. Returns the new region
/// number of each pixel, counted by first appearance, and the number of regions. A region is tiny if it has fewer than `min_area` pixels, or fewer
/// than a quarter of `min_area` pixels that are not at its border.
///
/// Tiny regions are merged first, the smallest one first, into the neighbour of most similar colour. Then the pair of adjacent regions whose union
/// increases the squared error least (Ward's criterion) is merged repeatedly.
pub(crate) fn coarsen(
    picture: &Picture,
    labels: &[u32],
    count: usize,
    min_area: u32,
    max_regions: usize,
) -> (Vec<u8>, u8) {
    let mut graph = build(picture, labels, count);
    let mut alive = count;
    let mut tiny: BTreeSet<(u32, u32)> = (0..count as u32)
        .filter(|&id| graph[id as usize].is_tiny(min_area))
        .map(|id| (graph[id as usize].area, id))
        .collect();
    while let Some((_, id)) = tiny.pop_first() {
        let Some(into) = most_alike(&graph, id, distance) else { break };
        tiny.remove(&(graph[into as usize].area, into));
        merge(&mut graph, id, into);
        alive -= 1;
        if graph[into as usize].is_tiny(min_area) {
            tiny.insert((graph[into as usize].area, into));
        }
    }
    while alive > max_regions {
        let best = (0..count as u32)
            .filter(|&id| graph[id as usize].merged_into.is_none())
            .filter_map(|id| {
                let other = most_alike(&graph, id, ward)?;
                Some((ward(&graph[id as usize], &graph[other as usize]), id, other))
            })
            .min_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let Some((_, id, into)) = best else { break };
        merge(&mut graph, id, into);
        alive -= 1;
    }
    relabel(&graph, labels)
}

fn build(picture: &Picture, labels: &[u32], count: usize) -> Vec<Node> {
    let mut graph: Vec<Node> = (0..count)
        .map(|_| Node { area: 0, core: 0, sums: [0; 3], neighbours: BTreeSet::new(), merged_into: None })
        .collect();
    for (pixel, &label) in picture.rgb.chunks_exact(3).zip(labels) {
        let node = &mut graph[label as usize];
        node.area += 1;
        for (sum, &value) in node.sums.iter_mut().zip(pixel) {
            *sum += u64::from(value);
        }
    }
    let width = picture.width as usize;
    let mut touch = |a: u32, b: u32| {
        if a != b {
            graph[a as usize].neighbours.insert(b);
            graph[b as usize].neighbours.insert(a);
        }
    };
    for (p, &label) in labels.iter().enumerate() {
        if (p + 1) % width != 0 {
            touch(label, labels[p + 1]);
        }
        if let Some(&below) = labels.get(p + width) {
            touch(label, below);
        }
    }
    for (p, &label) in labels.iter().enumerate() {
        let same = |q: Option<usize>| q.and_then(|q| labels.get(q)).is_none_or(|&other| other == label);
        let (left, right) = (p % width != 0, (p + 1) % width != 0);
        let across = same(left.then(|| p - 1)) && same(right.then_some(p + 1));
        if across && same(p.checked_sub(width)) && same(Some(p + width)) {
            graph[label as usize].core += 1;
        }
    }
    graph
}

fn distance(a: &Node, b: &Node) -> f32 {
    let (a, b) = (a.mean(), b.mean());
    (0..3).map(|c| (a[c] - b[c]) * (a[c] - b[c])).sum()
}

fn ward(a: &Node, b: &Node) -> f32 {
    let (m, n) = (a.area as f32, b.area as f32);
    m * n / (m + n) * distance(a, b)
}

fn most_alike(graph: &[Node], id: u32, cost: impl Fn(&Node, &Node) -> f32) -> Option<u32> {
    let node = &graph[id as usize];
    node.neighbours
        .iter()
        .copied()
        .map(|other| (cost(node, &graph[other as usize]), other))
        .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
        .map(|(_, other)| other)
}

fn merge(graph: &mut [Node], id: u32, into: u32) {
    let neighbours = std::mem::take(&mut graph[id as usize].neighbours);
    for other in neighbours {
        let node = &mut graph[other as usize];
        node.neighbours.remove(&id);
        if other != into {
            node.neighbours.insert(into);
            graph[into as usize].neighbours.insert(other);
        }
    }
    let Node { area, core, sums, .. } = graph[id as usize];
    graph[id as usize].merged_into = Some(into);
    let target = &mut graph[into as usize];
    target.area += area;
    target.core += core;
    for (sum, added) in target.sums.iter_mut().zip(sums) {
        *sum += added;
    }
}

fn relabel(graph: &[Node], labels: &[u32]) -> (Vec<u8>, u8) {
    let mut number: Vec<Option<u8>> = vec![None; graph.len()];
    let mut count = 0u8;
    let labels = labels
        .iter()
        .map(|&label| {
            let mut id = label;
            while let Some(next) = graph[id as usize].merged_into {
                id = next;
            }
            *number[id as usize].get_or_insert_with(|| {
                let fresh = count;
                count += 1;
                fresh
            })
        })
        .collect();
    (labels, count)
}
