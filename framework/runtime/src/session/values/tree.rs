//! Binomial tree along which values are sent from rank 0 to all ranks, and from all ranks to rank 0. This module only computes the tree; it sends
//! nothing.

/// Binomial tree of ranks with rank 0 at the root. The subtree of a rank contains the next higher ranks, so that values are combined in the
/// order of the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    members: Vec<usize>,
}

impl Tree {
    /// Creates the tree of `size` ranks without the ranks in `lost`, which are dead; rank 0 must not be among them.
    pub(super) fn new(size: usize, lost: &[usize]) -> Self {
        Tree { members: (0..size).filter(|rank| !lost.contains(rank)).collect() }
    }

    fn place(&self, rank: usize) -> Option<usize> {
        self.members.binary_search(&rank).ok()
    }

    pub(super) fn parent(&self, rank: usize) -> Option<usize> {
        let place = self.place(rank).filter(|&place| place > 0)?;
        self.members.get(place & (place - 1)).copied()
    }

    /// Returns the children of a rank in the tree, ascending. The subtree of a child contains the ranks up to the next child.
    pub(super) fn children(&self, rank: usize) -> Vec<usize> {
        let Some(place) = self.place(rank) else { return Vec::new() };
        let levels = if place == 0 { usize::BITS } else { place.trailing_zeros() };
        let below = (0..levels).map(|level| place + (1 << level));
        below.map_while(|place| self.members.get(place).copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn under(tree: &Tree, rank: usize) -> Vec<usize> {
        let children = tree.children(rank);
        assert!(children.iter().all(|&child| tree.parent(child) == Some(rank)), "{tree:?}");
        std::iter::once(rank).chain(children.into_iter().flat_map(|child| under(tree, child))).collect()
    }

    #[test]
    fn tree_contains_every_rank_once_with_logarithmic_depth() {
        for size in 1..70 {
            let tree = Tree::new(size, &[]);
            assert_eq!(under(&tree, 0), (0..size).collect::<Vec<_>>());
            let depth = |mut rank| {
                let mut steps = 0;
                while let Some(parent) = tree.parent(rank) {
                    (rank, steps) = (parent, steps + 1);
                }
                steps
            };
            let log = usize::BITS - (size - 1).leading_zeros();
            assert!((0..size).map(depth).max() <= Some(log), "{size} ranks");
        }
    }

    #[test]
    fn lost_ranks_are_excluded() {
        let tree = Tree::new(6, &[2, 4]);
        assert_eq!(under(&tree, 0), [0, 1, 3, 5]);
        assert_eq!((tree.parent(2), tree.children(4)), (None, vec![]));
    }
}
