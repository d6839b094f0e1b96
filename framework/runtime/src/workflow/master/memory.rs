//! Memory of ranks, as the master counts it when no plan is active: each value counts on the rank that computes it. The master does not
//! know the copies on ranks that read a value; each rank starts tasks according to the memory that it really holds.

use super::Master;

/// Divisor of a rank's memory: above this part in use, the rank prefers tasks that free memory. With a larger divisor ranks would read
/// values of other ranks long before memory is short; with a smaller one too little memory would be left for inputs from other ranks.
const FULL_PART: u64 = 2;

impl Master {
    /// Counts `bytes` for the value of a task on `rank`, instead of the bytes counted before.
    pub(super) fn count(&mut self, task: usize, rank: usize, bytes: u64) {
        let before = std::mem::replace(&mut self.tasks[task].counted, bytes);
        self.ranks[rank].values = self.ranks[rank].values.saturating_sub(before).saturating_add(bytes);
    }

    /// Returns true if half of a rank's memory is in use, or will be when its orders are done.
    pub(super) fn is_short_of_memory(&self, rank: usize) -> bool {
        self.ranks[rank].values >= (self.ranks[rank].memory / FULL_PART).max(1)
    }

    /// Returns true if a task frees memory: its inputs, each divided by the number of tasks that still read it, are larger than its value.
    pub(super) fn frees_memory(&self, task: usize) -> bool {
        let share = |parent: usize| self.tasks[parent].counted / u64::from(self.tasks[parent].readers.max(1));
        let inputs: u64 = self.graph.parents(task).map(share).fold(0, u64::saturating_add);
        inputs > self.graph.output(task)
    }
}
