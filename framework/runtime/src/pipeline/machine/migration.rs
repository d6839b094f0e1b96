//! Serial stages on their way from one rank to another.

use std::collections::BTreeMap;

use super::job::Job;
use super::sequence_number::SequenceNumber;

/// Serial stages that are neither here nor away.
#[derive(Debug, Default)]
pub(super) struct Migration {
    /// Given up here, and not yet saved.
    pub(super) leaving: Vec<usize>,
    /// By stage: the batch that the next owner takes first, while the stage is being saved.
    pub(super) saving: BTreeMap<usize, SequenceNumber>,
    /// Came here, with its state, and not yet restored.
    pub(super) coming: Vec<(usize, Vec<u8>)>,
    /// By stage: the batch that it takes first here, while it is being restored.
    pub(super) restoring: BTreeMap<usize, SequenceNumber>,
}

impl Migration {
    /// The next stage to save or restore.
    pub(super) fn next_job(&mut self) -> Option<Job> {
        if let Some(stage) = self.leaving.pop() {
            return Some(Job::Release { stage });
        }
        self.coming.pop().map(|(stage, state)| Job::Restore { stage, state })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.saving.is_empty() && self.restoring.is_empty()
    }

    /// How many stages are between two ranks, as seen from here.
    pub(super) fn len(&self) -> usize {
        self.saving.len() + self.restoring.len()
    }
}
