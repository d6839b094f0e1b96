//! Outstanding chunks that were sent to two ranks: an original and its second copy, with the same tasks. Each task counts once.

use std::ops::Range;

/// A chunk and its second copy, which contain the same tasks.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) chunks: [u64; 2],
    pub(super) first: u64,
    /// For each task, from number `first` on: true while it has no result and was not requeued.
    pub(super) open: Vec<bool>,
}

impl Pair {
    /// Closes those of `tasks` that are open (without a result, and not requeued) and for which `closes` returns true. Returns the closed tasks as
    /// ranges.
    pub(super) fn close(&mut self, tasks: Range<u64>, closes: impl Fn(u64) -> bool) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for task in tasks {
            let open = task.checked_sub(self.first).and_then(|place| self.open.get_mut(place as usize));
            let Some(open) = open.filter(|open| **open && closes(task)) else { continue };
            *open = false;
            match runs.last_mut() {
                Some(run) if run.end == task => run.end += 1,
                _ => runs.push(task..task + 1),
            }
        }
        runs
    }

    pub(super) fn other(&self, id: u64) -> u64 {
        if self.chunks[0] == id { self.chunks[1] } else { self.chunks[0] }
    }
}

#[derive(Debug, Default)]
pub(super) struct SecondCopies(pub(super) Vec<Pair>);

impl SecondCopies {
    pub(super) fn position(&self, id: u64) -> Option<usize> {
        self.0.iter().position(|pair| pair.chunks.contains(&id))
    }
}
