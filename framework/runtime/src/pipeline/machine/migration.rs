//! Migration of a pipeline's serial stages from one rank to another.

use std::collections::BTreeMap;

use super::job::Job;
use super::sequence_number::SequenceNumber;
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::messages::StageToken;

#[derive(Debug, Default)]
pub(super) struct Migration {
    /// Serial stages that the current mapping assigns to another rank and whose state this rank has not begun to save.
    leaving: Vec<usize>,
    /// For each stage that this rank is saving: sequence number of the first batch that the stage processes on its next rank.
    saving: BTreeMap<usize, SequenceNumber>,
    /// Serial stages whose states have arrived from another rank and that this rank has not begun to restore.
    arrived: Vec<(usize, Vec<u8>)>,
    /// For each stage that this rank is restoring: sequence number of the first batch that the stage processes on this rank.
    restoring: BTreeMap<usize, SequenceNumber>,
}

impl Migration {
    /// Records that this rank gives up a serial stage, which processes batch `next` first on its next rank.
    pub(super) fn leave(&mut self, stage: usize, next: SequenceNumber) {
        self.leaving.push(stage);
        self.saving.insert(stage, next);
    }

    /// Records that the state of a serial stage has been saved. Returns the sequence number of the first batch that the stage processes on its next
    /// rank.
    pub(super) fn saved(&mut self, stage: usize) -> Result<SequenceNumber> {
        self.saving
            .remove(&stage)
            .ok_or_else(|| Error::new(ErrorKind::Wire, format!("stage {stage} was saved without a request")))
    }

    /// Records that the state of a serial stage has arrived, so that the stage can continue on this rank.
    pub(super) fn receive(&mut self, token: StageToken) {
        self.restoring.insert(token.stage as usize, token.next);
        self.arrived.push((token.stage as usize, token.state));
    }

    /// Records that a serial stage has been restored on this rank. Returns the sequence number of the first batch that it processes here.
    pub(super) fn restored(&mut self, stage: usize) -> Option<SequenceNumber> {
        self.restoring.remove(&stage)
    }

    pub(super) fn holds(&self, stage: usize) -> bool {
        self.saving.contains_key(&stage) || self.restoring.contains_key(&stage)
    }

    pub(super) fn next_job(&mut self) -> Option<Job> {
        if let Some(stage) = self.leaving.pop() {
            return Some(Job::Release { stage });
        }
        self.arrived.pop().map(|(stage, state)| Job::Restore { stage, state })
    }

    pub(super) fn len(&self) -> usize {
        self.saving.len() + self.restoring.len()
    }
}
