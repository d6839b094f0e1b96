//! Edit: a change of a pipeline's mapping (of stages to processors), described so that it can be evaluated before it is applied.

use std::ops::Range;

/// Change of a mapping: ranges of its blocks of stages, and the new blocks that replace each range.
#[derive(Clone, Debug, Default)]
pub(in crate::pipeline) struct Edit {
    cuts: Vec<Cut>,
    blocks: Vec<NewBlock>,
    hosts: Vec<usize>,
}

/// Range of blocks of stages of the mapping, and the range of new blocks that replaces it.
#[derive(Clone, Debug)]
pub(in crate::pipeline) struct Cut {
    pub(in crate::pipeline) old: Range<usize>,
    pub(in crate::pipeline) new: Range<usize>,
}

#[derive(Clone, Debug)]
struct NewBlock {
    stages: Range<usize>,
    hosts: Range<usize>,
}

impl Edit {
    pub(in crate::pipeline) fn clear(&mut self) -> &mut Self {
        self.cuts.clear();
        self.blocks.clear();
        self.hosts.clear();
        self
    }

    /// Removes the blocks `old` of the mapping; the new blocks added next replace them. Ranges of removed blocks must not overlap.
    pub(in crate::pipeline) fn cut(&mut self, old: Range<usize>) -> &mut Self {
        let new = self.blocks.len()..self.blocks.len();
        self.cuts.push(Cut { old, new });
        self
    }

    pub(in crate::pipeline) fn block(
        &mut self,
        stages: Range<usize>,
        hosts: impl IntoIterator<Item = usize>,
    ) -> &mut Self {
        let start = self.hosts.len();
        self.hosts.extend(hosts);
        self.blocks.push(NewBlock { stages, hosts: start..self.hosts.len() });
        if let Some(cut) = self.cuts.last_mut() {
            cut.new.end = self.blocks.len();
        }
        self
    }

    pub(in crate::pipeline) fn cuts(&mut self) -> &[Cut] {
        if !self.cuts.is_sorted_by_key(|cut| cut.old.start) {
            self.cuts.sort_unstable_by_key(|cut| cut.old.start);
        }
        &self.cuts
    }

    pub(in crate::pipeline) fn old_blocks(&self) -> impl Iterator<Item = usize> {
        self.cuts.iter().flat_map(|cut| cut.old.clone())
    }

    pub(in crate::pipeline) fn new_block(&self, i: usize) -> (&Range<usize>, &[usize]) {
        let block = &self.blocks[i];
        (&block.stages, &self.hosts[block.hosts.clone()])
    }

    pub(in crate::pipeline) fn new_blocks(&self) -> impl Iterator<Item = (&Range<usize>, &[usize])> {
        (0..self.blocks.len()).map(|i| self.new_block(i))
    }
}
