//! Tree that grows at its leaves, with ancestor queries in logarithmic time.

/// Tree with root 0 whose other nodes are numbered by the caller.
pub(super) struct ForkTree {
    parent: Vec<usize>,
    depth: Vec<usize>,
    /// For each node, an ancestor further up than its parent, as in Myers' random-access lists (1983). With these
    /// jumps, any ancestor is O(log depth) steps away.
    jump: Vec<usize>,
    children: Vec<Vec<usize>>,
    removed: Vec<bool>,
}

impl ForkTree {
    pub(super) fn new(nodes: usize) -> Self {
        ForkTree {
            parent: vec![0; nodes],
            depth: vec![0; nodes],
            jump: vec![0; nodes],
            children: vec![Vec::new(); nodes],
            removed: vec![false; nodes],
        }
    }

    /// Adds space for one more node, which [`hang`](ForkTree::hang) can attach.
    pub(super) fn add_room(&mut self) {
        self.parent.push(0);
        self.depth.push(0);
        self.jump.push(0);
        self.children.push(Vec::new());
        self.removed.push(false);
    }

    pub(super) fn hang(&mut self, node: usize, parent: usize) {
        let far = self.jump[parent];
        let further = self.jump[far];
        self.parent[node] = parent;
        self.depth[node] = self.depth[parent] + 1;
        self.jump[node] = if self.depth[parent] - self.depth[far] == self.depth[far] - self.depth[further] {
            further
        } else {
            parent
        };
        self.children[parent].push(node);
    }

    pub(super) fn parent(&self, node: usize) -> usize {
        self.parent[node]
    }

    pub(super) fn children(&self, node: usize) -> Vec<usize> {
        self.children[node].iter().copied().filter(|&child| !self.removed[child]).collect()
    }

    pub(super) fn depth(&self, node: usize) -> usize {
        self.depth[node]
    }

    /// Returns the ancestor of a node at a depth, which must not exceed the depth of the node. A node is its own ancestor.
    pub(super) fn ancestor(&self, mut node: usize, depth: usize) -> usize {
        while self.depth[node] > depth {
            let far = self.jump[node];
            node = if self.depth[far] >= depth { far } else { self.parent[node] };
        }
        node
    }

    pub(super) fn lowest_above(&self, one: usize, other: usize) -> usize {
        let depth = self.depth[one].min(self.depth[other]);
        let (mut one, mut other) = (self.ancestor(one, depth), self.ancestor(other, depth));
        while one != other {
            if self.jump[one] == self.jump[other] {
                (one, other) = (self.parent[one], self.parent[other]);
            } else {
                (one, other) = (self.jump[one], self.jump[other]);
            }
        }
        one
    }

    /// Removes the subtrees of the nodes in `branches`, none of which is below another. Returns the removed nodes,
    /// each after its parent.
    pub(super) fn cut_off(&mut self, branches: &[usize]) -> Vec<usize> {
        let mut nodes = branches.to_vec();
        let mut next = 0;
        while let Some(&node) = nodes.get(next) {
            self.removed[node] = true;
            nodes.extend(self.children(node));
            next += 1;
        }
        nodes
    }
}

#[cfg(test)]
mod tests {
    use armature_planner::random::Random;

    use super::*;

    #[test]
    fn ancestors_equal_those_of_a_step_by_step_search() {
        let mut random = Random::new(1);
        let mut tree = ForkTree::new(400);
        for node in 1..400 {
            // The random tree is deep, because the parent of a node is one of the four nodes before it.
            let parent = node - 1 - (random.uniform() * node.min(4) as f64) as usize;
            tree.hang(node, parent);
        }
        let path = |mut node: usize| {
            let mut path = vec![node];
            while node != 0 {
                node = tree.parent(node);
                path.push(node);
            }
            path
        };
        for one in (0..400).step_by(7) {
            let above = path(one);
            assert_eq!(tree.depth(one), above.len() - 1);
            for depth in 0..above.len() {
                assert_eq!(tree.ancestor(one, depth), above[above.len() - 1 - depth]);
            }
            for other in (0..400).step_by(11) {
                let expected = *path(other).iter().find(|node| above.contains(node)).unwrap();
                assert_eq!(tree.lowest_above(one, other), expected);
            }
        }
    }

    #[test]
    fn cut_branches_are_removed() {
        let mut tree = ForkTree::new(7);
        for (node, parent) in [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 0)] {
            tree.hang(node, parent);
        }
        assert_eq!(tree.cut_off(&[3]), [3]);
        assert_eq!(tree.cut_off(&[1, 6]), [1, 6, 4]);
        assert_eq!(tree.children(0), [2]);
        assert_eq!(tree.cut_off(&[2]), [2, 5]);
    }
}
