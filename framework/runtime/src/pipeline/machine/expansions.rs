//! Batches that expanding stages of this rank have begun, and the room for their pieces.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::fill::Fill;
use super::batch::Batch;
use super::sequence_number::SequenceNumber;

/// Expanding stages of this rank with their unfinished batches; see the module documentation.
#[derive(Debug)]
pub(super) struct Expansions {
    /// By stage: true if the stage makes several items of one.
    expanding: Vec<bool>,
    /// Batches of which pieces have been made and more pieces are to be made.
    pub(super) open: BTreeMap<SequenceNumber, Open>,
    /// Serial expanding stages that have an unfinished batch. The next batch waits for its end.
    pub(super) busy: BTreeSet<usize>,
    /// Limits at which a piece is full.
    pub(super) fill: Fill,
}

/// Batch of which pieces have been made.
#[derive(Debug)]
pub(super) struct Open {
    /// Batch as the stage gets it for the next piece.
    pub(super) batch: Batch,
    /// Number of pieces made. `granted` counts further pieces for which room is granted, and `asked` those for which it is requested.
    pub(super) made: u64,
    pub(super) granted: u64,
    pub(super) asked: u64,
    /// True while the compute side makes a piece of the batch.
    pub(super) is_in_work: bool,
}

impl Expansions {
    pub(super) fn new(expanding: Vec<bool>, fill: Fill) -> Self {
        Expansions { expanding, open: BTreeMap::new(), busy: BTreeSet::new(), fill }
    }

    pub(super) fn is_expanding(&self, stage: usize) -> bool {
        self.expanding.get(stage).copied().unwrap_or(false)
    }

    /// Returns the number of expanding stages before `stage`.
    pub(super) fn levels(&self, stage: usize) -> usize {
        self.expanding.iter().take(stage).filter(|&&expands| expands).count()
    }

    /// Returns the number of the first batch at each of `stages` stages and at the sink.
    pub(super) fn first_numbers(&self, stages: usize) -> Vec<SequenceNumber> {
        (0..=stages).map(|stage| SequenceNumber::first(self.levels(stage))).collect()
    }

    /// Returns the part of `stages` that a batch passes in one job. If the expanding stage or a stage behind it is serial, the job ends behind the
    /// expanding stage, because each piece waits for its turn.
    pub(super) fn in_one_job(&self, stages: Range<usize>, is_serial: impl Fn(usize) -> bool) -> Range<usize> {
        match stages.clone().find(|&stage| self.is_expanding(stage)) {
            Some(stage) if (stage..stages.end).any(is_serial) => stages.start..stage + 1,
            _ => stages,
        }
    }

    /// Returns true if `stage` is serial and has an unfinished batch that it expands.
    pub(super) fn is_busy(&self, stage: usize) -> bool {
        self.busy.contains(&stage)
    }

    /// Registers that the compute side starts a batch at these stages. `is_serial` returns true for the serial ones.
    pub(super) fn begin(&mut self, stages: Range<usize>, is_serial: impl Fn(usize) -> bool) {
        let expanding = &self.expanding;
        self.busy.extend(stages.filter(|&stage| expanding.get(stage) == Some(&true) && is_serial(stage)));
    }

    /// Returns the oldest batch of which another piece may be made now, and marks it as in progress.
    pub(super) fn next_batch(&mut self) -> Option<Batch> {
        let open = self.open.values_mut().find(|open| open.granted > 0 && !open.is_in_work)?;
        open.granted -= 1;
        open.is_in_work = true;
        Some(open.batch.kept_on(open.made))
    }
}
