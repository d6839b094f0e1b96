//! Migration of serial stages from one rank to another.

use std::collections::BTreeMap;

use super::job::Job;
use super::sequence_number::SequenceNumber;
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::messages::Token;

/// Serial stages that this rank is saving or restoring.
#[derive(Debug, Default)]
pub(super) struct Migration {
    /// Stages that this rank no longer owns and whose state it has not saved yet.
    leaving: Vec<usize>,
    /// By stage that is being saved: the batch that the next owner takes first.
    saving: BTreeMap<usize, SequenceNumber>,
    /// Received stages with their states, which this rank has not restored yet.
    arrived: Vec<(usize, Vec<u8>)>,
    /// By stage that is being restored: the batch that it takes first on this rank.
    restoring: BTreeMap<usize, SequenceNumber>,
}

impl Migration {
    /// Registers that this rank has given up a stage, which takes batch `next` first on its next owner.
    pub(super) fn leave(&mut self, stage: usize, next: SequenceNumber) {
        self.leaving.push(stage);
        self.saving.insert(stage, next);
    }

    /// Registers that a stage has been saved. Returns the batch that the next owner takes first.
    pub(super) fn saved(&mut self, stage: usize) -> Result<SequenceNumber> {
        self.saving
            .remove(&stage)
            .ok_or_else(|| Error::new(ErrorKind::Wire, format!("stage {stage} was saved without a request")))
    }

    /// Registers a stage that is to continue on this rank.
    pub(super) fn receive(&mut self, token: Token) {
        self.restoring.insert(token.stage as usize, token.next);
        self.arrived.push((token.stage as usize, token.state));
    }

    /// Registers that a stage has been restored. Returns the batch that it takes first.
    pub(super) fn restored(&mut self, stage: usize) -> Option<SequenceNumber> {
        self.restoring.remove(&stage)
    }

    /// Returns true if this rank is saving or restoring `stage`.
    pub(super) fn holds(&self, stage: usize) -> bool {
        self.saving.contains_key(&stage) || self.restoring.contains_key(&stage)
    }

    /// Returns the job that saves or restores the next stage.
    pub(super) fn next_job(&mut self) -> Option<Job> {
        if let Some(stage) = self.leaving.pop() {
            return Some(Job::Release { stage });
        }
        self.arrived.pop().map(|(stage, state)| Job::Restore { stage, state })
    }

    /// Returns the number of stages that are being saved or restored on this rank.
    pub(super) fn len(&self) -> usize {
        self.saving.len() + self.restoring.len()
    }
}
