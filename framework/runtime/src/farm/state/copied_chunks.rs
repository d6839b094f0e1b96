//! Pairs of outstanding chunks with the same tasks, of which each task counts once.

use std::ops::Range;

/// Two chunks with the same tasks. At least one of them is outstanding for each open task.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) chunks: [u64; 2],
    pub(super) first: u64,
    /// True for each task from `first` on that has neither ended nor been requeued.
    pub(super) open: Vec<bool>,
}

impl Pair {
    /// Closes the open tasks in `tasks` that `closes` accepts. Returns them.
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

/// Pairs of chunks with the same tasks.
#[derive(Debug, Default)]
pub(super) struct SecondCopies(pub(super) Vec<Pair>);

impl SecondCopies {
    pub(super) fn position(&self, id: u64) -> Option<usize> {
        self.0.iter().position(|pair| pair.chunks.contains(&id))
    }
}
