//! What the expanding stages of this rank have begun, and how much more they may make of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::fill::Fill;
use super::batch::Batch;
use super::sequence_number::SequenceNumber;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Expansions {
    /// By stage: whether it makes several items of one.
    expanding: Vec<bool>,
    /// Batches of which pieces have been made here, and more are to be made.
    pub(super) open: BTreeMap<SequenceNumber, Open>,
    /// Serial stages that are at a batch or have not made all of it: the next one has to wait.
    pub(super) busy: BTreeSet<usize>,
    /// When a piece is full.
    pub(super) fill: Fill,
}

/// A batch of which pieces have been made.
#[derive(Debug)]
pub(super) struct Open {
    /// As it is given to the stage for the next piece.
    pub(super) batch: Batch,
    /// Pieces that were made, that may be made, and that have been asked for beside them.
    pub(super) made: u64,
    pub(super) granted: u64,
    pub(super) asked: u64,
    /// Whether the compute side is at it.
    pub(super) is_in_work: bool,
}

impl Expansions {
    pub(super) fn new(expanding: Vec<bool>, fill: Fill) -> Self {
        Expansions { expanding, open: BTreeMap::new(), busy: BTreeSet::new(), fill }
    }

    pub(super) fn is_expanding(&self, stage: usize) -> bool {
        self.expanding.get(stage).copied().unwrap_or(false)
    }

    /// How many expanding stages come before `stage`.
    pub(super) fn levels(&self, stage: usize) -> usize {
        self.expanding.iter().take(stage).filter(|&&expands| expands).count()
    }

    /// The number that the first batch has at each of `stages` stages and at the sink.
    pub(super) fn first_numbers(&self, stages: usize) -> Vec<SequenceNumber> {
        (0..=stages).map(|stage| SequenceNumber::first(self.levels(stage))).collect()
    }

    /// The part of `stages` that a batch goes through in one job: where order matters at or behind an expanding stage, pieces
    /// wait for their turn one by one.
    pub(super) fn in_one_job(&self, stages: Range<usize>, is_serial: impl Fn(usize) -> bool) -> Range<usize> {
        match stages.clone().find(|&stage| self.is_expanding(stage)) {
            Some(stage) if (stage..stages.end).any(is_serial) => stages.start..stage + 1,
            _ => stages,
        }
    }

    /// Whether `stage` is serial and has not made all of what it has.
    pub(super) fn is_busy(&self, stage: usize) -> bool {
        self.busy.contains(&stage)
    }

    /// A batch is handed to the compute side for these stages, of which `is_serial` is true for some.
    pub(super) fn begin(&mut self, stages: Range<usize>, is_serial: impl Fn(usize) -> bool) {
        let expanding = &self.expanding;
        self.busy.extend(stages.filter(|&stage| expanding.get(stage) == Some(&true) && is_serial(stage)));
    }

    /// The oldest batch of which another piece may be made now.
    pub(super) fn next_batch(&mut self) -> Option<Batch> {
        let open = self.open.values_mut().find(|open| open.granted > 0 && !open.is_in_work)?;
        open.granted -= 1;
        open.is_in_work = true;
        Some(open.batch.kept_on(open.made))
    }
}
