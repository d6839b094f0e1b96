//! Migration of serial stages from one rank to another.

use std::collections::BTreeMap;

use super::job::Job;
use super::sequence_number::SequenceNumber;

/// Serial stages that this rank is saving or restoring.
#[derive(Debug, Default)]
pub(super) struct Migration {
    /// Stages that this rank has given up and not saved.
    pub(super) leaving: Vec<usize>,
    /// By stage that is being saved: the batch that the next owner takes first.
    pub(super) saving: BTreeMap<usize, SequenceNumber>,
    /// Received stages that are not restored, with their states.
    pub(super) coming: Vec<(usize, Vec<u8>)>,
    /// By stage that is being restored: the batch that it takes first on this rank.
    pub(super) restoring: BTreeMap<usize, SequenceNumber>,
}

impl Migration {
    /// Returns the job that saves or restores the next stage.
    pub(super) fn next_job(&mut self) -> Option<Job> {
        if let Some(stage) = self.leaving.pop() {
            return Some(Job::Release { stage });
        }
        self.coming.pop().map(|(stage, state)| Job::Restore { stage, state })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.saving.is_empty() && self.restoring.is_empty()
    }

    /// Returns the number of stages that are being saved or restored on this rank.
    pub(super) fn len(&self) -> usize {
        self.saving.len() + self.restoring.len()
    }
}
