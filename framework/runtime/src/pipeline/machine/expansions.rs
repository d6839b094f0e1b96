//! Unfinished batches of expanding stages of this rank: batches of which a stage has made some but not all pieces of its output.
//!
//! The first piece of a batch is sent when it is made. For every other piece the rank needs permission from rank 0, which limits the batches in
//! flight. The more pieces the rank has made of a batch, the more it requests at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::fill::Fill;
use super::batch::Batch;
use super::sequence_number::SequenceNumber;
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::messages::{Grant, RoomRequest, RoomReturn};

/// Maximum number of pieces of a stage's output for which one request to rank 0 asks permission: enough to continue while rank 0's answer to the next
/// request is in transit.
const MOST_REQUESTED: u64 = 16;

/// Message to rank 0 about further pieces of a stage's output for a batch: requests permission to make them, or returns permission that is not
/// needed.
pub(super) enum Room {
    Request(RoomRequest),
    RoomReturn(RoomReturn),
}

/// Expanding stages of this rank with their unfinished batches; see the module documentation.
#[derive(Debug)]
pub(super) struct Expansions {
    /// By stage: true if the stage produces several items from one.
    expanding: Vec<bool>,
    /// Batches for which an expanding stage has made some but not all pieces of its output.
    open: BTreeMap<SequenceNumber, Open>,
    /// Serial expanding stages that have an unfinished batch. They start the next batch only when that batch is finished.
    busy: BTreeSet<usize>,
    /// Limits at which no more items are added to a piece of a stage's output.
    pub(super) fill: Fill,
}

/// Batch for which an expanding stage has made some but not all pieces of its output.
#[derive(Debug)]
struct Open {
    /// The batch without its items, which the expanding stage keeps.
    batch: Batch,
    /// Number of pieces of the output for the batch that have been made. `granted` counts further pieces that rank 0 has permitted, `requested` those
    /// for which it was asked and has not answered.
    produced: u64,
    granted: u64,
    requested: u64,
    /// True while user code makes a further piece of the stage's output for the batch.
    is_in_work: bool,
}

impl Expansions {
    pub(super) fn new(expanding: Vec<bool>, fill: Fill) -> Self {
        Expansions { expanding, open: BTreeMap::new(), busy: BTreeSet::new(), fill }
    }

    pub(super) fn is_expanding(&self, stage: usize) -> bool {
        self.expanding.get(stage).copied().unwrap_or(false)
    }

    /// Returns the number of stages before `stage` that make several items from one.
    pub(super) fn levels(&self, stage: usize) -> usize {
        self.expanding.iter().take(stage).filter(|&&expands| expands).count()
    }

    /// Returns the sequence number of the first batch of the stream at each of `stages` stages and at the sink.
    pub(super) fn first_numbers(&self, stages: usize) -> Vec<SequenceNumber> {
        (0..=stages).map(|stage| SequenceNumber::first(self.levels(stage))).collect()
    }

    /// Returns the first of `stages` that one job (call of user code) can run on a batch. If one of them makes several items from one, and
    /// it or a later one is serial, the job ends behind that stage, because a serial stage takes the pieces of its output one after the
    /// other.
    pub(super) fn in_one_job(&self, stages: Range<usize>, is_serial: impl Fn(usize) -> bool) -> Range<usize> {
        match stages.clone().find(|&stage| self.is_expanding(stage)) {
            Some(stage) if (stage..stages.end).any(is_serial) => stages.start..stage + 1,
            _ => stages,
        }
    }

    /// Returns true if `stage` is a serial expanding stage and has not made all pieces of its output for its last batch.
    pub(super) fn is_busy(&self, stage: usize) -> bool {
        self.busy.contains(&stage)
    }

    /// Registers that this rank starts to process a batch with the stages `stages`. Those of them that are serial and make several items from one
    /// take no other batch until this one is finished. `is_serial` returns true for serial stages.
    pub(super) fn begin(&mut self, stages: Range<usize>, is_serial: impl Fn(usize) -> bool) {
        let expanding = &self.expanding;
        self.busy.extend(stages.filter(|&stage| expanding.get(stage) == Some(&true) && is_serial(stage)));
    }

    /// Returns the oldest batch for which this rank may make another piece of output now, and marks that piece as in progress.
    pub(super) fn next_batch(&mut self) -> Option<Batch> {
        let open = self.open.values_mut().find(|open| open.granted > 0 && !open.is_in_work)?;
        open.granted -= 1;
        open.is_in_work = true;
        Some(open.batch.kept_on(open.produced))
    }

    /// Registers a piece of the output of the expanding stage `stage` for a batch. Returns a message to rank 0: after the last piece, the return of
    /// permission that is not needed; before, a request for permission to make further pieces, if there is need.
    pub(super) fn produced(&mut self, stage: usize, batch: &Batch, epoch: u32) -> Result<Option<Room>> {
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
            return Ok((unused > 0).then_some(Room::RoomReturn(RoomReturn { epoch, whole, pieces: unused })));
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
        // At most one request for further pieces of the output is sent at a time for a batch. While rank 0 permits further pieces, a request is
        // sent only if it asks for at least half of `MOST_REQUESTED` pieces.
        if open.requested > 0 || (open.granted > 0 && wanted * 2 < MOST_REQUESTED) || wanted == 0 {
            return Ok(None);
        }
        open.requested += wanted;
        let first = open.batch.number.piece(produced + open.granted);
        Ok(Some(Room::Request(RoomRequest { epoch, first, pieces: wanted })))
    }

    /// Registers that rank 0 permits further pieces of a stage's output for a batch. Returns a message that returns the permission, if the last piece
    /// was made while the permission was in transit.
    pub(super) fn granted(&mut self, grant: &Grant, epoch: u32) -> Option<Room> {
        self.fill.items = (grant.items as usize).max(1);
        let (whole, pieces) = (grant.whole.clone(), grant.pieces);
        match self.open.get_mut(&whole) {
            Some(open) => {
                open.requested = open.requested.saturating_sub(pieces);
                open.granted += pieces;
                None
            }
            None => (pieces > 0).then_some(Room::RoomReturn(RoomReturn { epoch, whole, pieces })),
        }
    }

    /// Returns the number of batches for which expanding stages have made some but not all pieces of their output.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }
}
