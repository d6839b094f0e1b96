//! Unfinished batches of this rank's expanding stages (those that make several items from one): a stage has sent some parts (pieces) of its output
//! for the batch, but not all.
//!
//! The first piece for a batch is sent when it is made. For every other piece the rank needs permission from rank 0, which limits the batches in
//! flight. The more pieces the rank has made for a batch, the more it requests at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::fill::Fill;
use super::batch::Batch;
use super::sequence_number::SequenceNumber;
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::messages::{Grant, WindowRequest, WindowReturn};

/// Maximum number of parts of a stage's output for which one request to rank 0 asks permission: enough to continue while rank 0's answer to the next
/// request is in transit.
const MOST_REQUESTED: u64 = 16;

/// Message to rank 0 about further parts of a stage's output for a batch: requests permission to make them, or returns unused permission.
pub(super) enum WindowMessage {
    Request(WindowRequest),
    Return(WindowReturn),
}

/// State of this rank's stages that make several items from one: their unfinished batches.
#[derive(Debug)]
pub(super) struct Expansions {
    /// For each stage: true if it makes several items from one.
    expanding: Vec<bool>,
    open: BTreeMap<SequenceNumber, Open>,
    /// Serial stages that have made some but not all of their output for a batch. They start the next batch only when that batch is finished.
    busy: BTreeSet<usize>,
    pub(super) fill: Fill,
}

/// Batch for which a stage has made some but not all of its output.
#[derive(Debug)]
struct Open {
    /// The batch without its items, which the stage keeps.
    batch: Batch,
    /// Number of parts of the output that the stage has made for the batch. `granted` counts further parts that rank 0 has permitted, and `requested`
    /// those for which rank 0 was asked and has not answered.
    produced: u64,
    granted: u64,
    requested: u64,
    is_in_work: bool,
}

impl Expansions {
    pub(super) fn new(expanding: Vec<bool>, fill: Fill) -> Self {
        Expansions { expanding, open: BTreeMap::new(), busy: BTreeSet::new(), fill }
    }

    pub(super) fn is_expanding(&self, stage: usize) -> bool {
        self.expanding.get(stage).copied().unwrap_or(false)
    }

    pub(super) fn levels(&self, stage: usize) -> usize {
        self.expanding.iter().take(stage).filter(|&&expands| expands).count()
    }

    pub(super) fn first_numbers(&self, stages: usize) -> Vec<SequenceNumber> {
        (0..=stages).map(|stage| SequenceNumber::first(self.levels(stage))).collect()
    }

    /// Returns the first of `stages` that one call of user code can run on a batch. If there is an expanding stage (one that makes several items from
    /// one) among them, and it or a later stage is serial, the call ends behind the expanding stage, because a serial stage must get the parts of the
    /// output one after the other.
    pub(super) fn in_one_job(&self, stages: Range<usize>, is_serial: impl Fn(usize) -> bool) -> Range<usize> {
        match stages.clone().find(|&stage| self.is_expanding(stage)) {
            Some(stage) if (stage..stages.end).any(is_serial) => stages.start..stage + 1,
            _ => stages,
        }
    }

    pub(super) fn is_busy(&self, stage: usize) -> bool {
        self.busy.contains(&stage)
    }

    /// Records that this rank starts to process a batch with `stages`. Those of them that are serial and make several items from one take no other
    /// batch until this one is finished. `is_serial` returns true for serial stages.
    pub(super) fn begin(&mut self, stages: Range<usize>, is_serial: impl Fn(usize) -> bool) {
        let expanding = &self.expanding;
        self.busy.extend(stages.filter(|&stage| expanding.get(stage) == Some(&true) && is_serial(stage)));
    }

    /// Returns the oldest batch for which a stage may make another part of its output now, and records that the stage makes it.
    pub(super) fn next_batch(&mut self) -> Option<Batch> {
        let open = self.open.values_mut().find(|open| open.granted > 0 && !open.is_in_work)?;
        open.granted -= 1;
        open.is_in_work = true;
        Some(open.batch.kept_on(open.produced))
    }

    /// Records that stage `stage` has made another part of its output, namely `batch`. Returns a message to rank 0: after the last part, the return
    /// of unused permission; before, a request for permission to make further parts, if more are needed.
    pub(super) fn produced(
        &mut self,
        stage: usize,
        batch: &Batch,
        epoch: u32,
    ) -> Result<Option<WindowMessage>> {
        let (Some((whole, at)), Some(piece)) = (batch.number.whole(), batch.pieces.last()) else {
            let text = format!(
                "batch {} was made by an expanding stage, but is not a piece of a batch",
                batch.number
            );
            return Err(Error::new(ErrorKind::Wire, text));
        };
        if piece.is_last {
            let unused = self.open.remove(&whole).map_or(0, |open| open.granted);
            self.busy.remove(&stage);
            return Ok((unused > 0).then_some(WindowMessage::Return(WindowReturn {
                epoch,
                whole,
                pieces: unused,
            })));
        }
        let produced = at + 1;
        let open = self.open.entry(whole.clone()).or_insert_with(|| Open {
            batch: batch.kept(whole, produced),
            produced: 0,
            granted: 0,
            requested: 0,
            is_in_work: true,
        });
        (open.produced, open.is_in_work) = (produced, false);
        let wanted = produced.min(MOST_REQUESTED).saturating_sub(open.granted + open.requested);
        // At most one request per batch is open at a time. While the stage still has permission to make further parts of its output, a request is
        // sent only if it asks for at least half of `MOST_REQUESTED` parts.
        if open.requested > 0 || (open.granted > 0 && wanted * 2 < MOST_REQUESTED) || wanted == 0 {
            return Ok(None);
        }
        open.requested += wanted;
        let first = open.batch.number.piece(produced + open.granted);
        Ok(Some(WindowMessage::Request(WindowRequest { epoch, first, pieces: wanted })))
    }

    /// Records that rank 0 permits further parts of a stage's output for a batch. Returns a message that returns the permission, if the stage has
    /// made the last part in the meantime.
    pub(super) fn granted(&mut self, grant: &Grant, epoch: u32) -> Option<WindowMessage> {
        self.fill.items = (grant.items as usize).max(1);
        let (whole, pieces) = (grant.whole.clone(), grant.pieces);
        match self.open.get_mut(&whole) {
            Some(open) => {
                open.requested = open.requested.saturating_sub(pieces);
                open.granted += pieces;
                None
            }
            None => (pieces > 0).then_some(WindowMessage::Return(WindowReturn { epoch, whole, pieces })),
        }
    }

    pub(super) fn open(&self) -> usize {
        self.open.len()
    }
}
