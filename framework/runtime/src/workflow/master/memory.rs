//! Memory of ranks, as the master counts it where no plan says what runs next: values are counted at the rank that makes them.
//! Copies at their readers are not known here; ranks themselves admit tasks by what they really hold.

use super::Master;

/// The part of its memory, as a divisor, beyond which a rank prefers tasks that free memory. Less would make ranks read values
/// of others long before memory is short; more would leave too little room for the inputs that come from other ranks.
const FULL_PART: u64 = 2;

impl Master {
    /// Counts the bytes of a task's value at `rank`, instead of what was counted for it there before.
    pub(super) fn count(&mut self, task: usize, rank: usize, bytes: u64) {
        let before = std::mem::replace(&mut self.tasks[task].counted, bytes);
        self.ranks[rank].values = self.ranks[rank].values.saturating_sub(before).saturating_add(bytes);
    }

    /// Returns true if a rank has half of its memory in use, or will have when it has done what it is ordered.
    pub(super) fn is_short_of_memory(&self, rank: usize) -> bool {
        self.ranks[rank].values >= (self.ranks[rank].memory / FULL_PART).max(1)
    }

    /// Returns true if less memory is in use after a task than before: its inputs, each shared among the tasks that still read
    /// it, are larger than what it gives.
    pub(super) fn frees_memory(&self, task: usize) -> bool {
        let share = |parent: usize| self.tasks[parent].counted / u64::from(self.tasks[parent].readers.max(1));
        let inputs: u64 = self.graph.parents(task).map(share).fold(0, u64::saturating_add);
        inputs > self.graph.output(task)
    }
}
