//! Migration of serial stages from one rank to another.

use std::collections::BTreeMap;

use super::job::Job;
use super::sequence_number::SequenceNumber;
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::messages::Token;

/// Serial stages that migrate to or from this rank, and that this rank is saving or restoring.
#[derive(Debug, Default)]
pub(super) struct Migration {
    /// Serial stages that the current mapping assigns to another rank and whose state this rank has not saved yet.
    leaving: Vec<usize>,
    /// By stage that this rank is saving: sequence number of the first batch that the stage processes on its next rank.
    saving: BTreeMap<usize, SequenceNumber>,
    /// Serial stages whose states have arrived from another rank and have not been restored yet.
    arrived: Vec<(usize, Vec<u8>)>,
    /// By stage that this rank is restoring: sequence number of the first batch that the stage processes on this rank.
    restoring: BTreeMap<usize, SequenceNumber>,
}

impl Migration {
    /// Registers that this rank gives up a serial stage; the next rank of the stage processes batch `next` first.
    pub(super) fn leave(&mut self, stage: usize, next: SequenceNumber) {
        self.leaving.push(stage);
        self.saving.insert(stage, next);
    }

    /// Registers that the state of a serial stage has been saved. Returns the sequence number of the first batch that the stage processes on its next
    /// rank.
    pub(super) fn saved(&mut self, stage: usize) -> Result<SequenceNumber> {
        self.saving
            .remove(&stage)
            .ok_or_else(|| Error::new(ErrorKind::Wire, format!("stage {stage} was saved without a request")))
    }

    /// Registers that the state of a serial stage has arrived, so that the stage continues on this rank.
    pub(super) fn receive(&mut self, token: Token) {
        self.restoring.insert(token.stage as usize, token.next);
        self.arrived.push((token.stage as usize, token.state));
    }

    /// Registers that a serial stage has been restored on this rank. Returns the sequence number of the first batch that it processes here.
    pub(super) fn restored(&mut self, stage: usize) -> Option<SequenceNumber> {
        self.restoring.remove(&stage)
    }

    /// Returns true if this rank is saving or restoring `stage`.
    pub(super) fn holds(&self, stage: usize) -> bool {
        self.saving.contains_key(&stage) || self.restoring.contains_key(&stage)
    }

    /// Returns the job (call of user code) that saves or restores the next migrating stage, if there is one.
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
