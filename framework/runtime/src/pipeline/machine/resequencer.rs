//! Resequencer: restores the order of the stream's batches at serial stages and at the sink.

use std::ops::Range;

use super::batch::Batch;
use super::sequence_number::SequenceNumber;
use super::table::Table;

/// Serial stages that this rank owns (runs), each with the sequence number of its next batch.
///
/// A serial stage always has exactly one owner, except while its saved state is in transit to the next owner. The sink counts as the last stage; rank
/// 0 always owns it.
#[derive(Debug, Default)]
pub(crate) struct Resequencer {
    /// For each stage, with the sink last: sequence number of the next batch of the stage, if the stage is serial and this rank owns it.
    next: Vec<Option<SequenceNumber>>,
    serial: Vec<bool>,
    ordered: bool,
}

impl Resequencer {
    /// Creates the resequencer of rank `me` at the start of a run. `first` holds the sequence number of the first batch of each stage, with the sink
    /// last.
    pub(crate) fn new(table: &Table, me: usize, first: Vec<SequenceNumber>) -> Self {
        let sink = table.stage_count();
        // The sink counts as a serial stage only in an ordered stream; in an unordered stream it takes batches in any order and needs no owner.
        let serial: Vec<bool> = table.serial.iter().copied().chain([table.ordered]).collect();
        let owned = |s: usize| s <= sink && serial[s] && table.owner(s) == me;
        let next = first.into_iter().enumerate().map(|(s, first)| owned(s).then_some(first)).collect();
        Resequencer { next, serial, ordered: table.ordered }
    }

    fn serial_in(&self, stages: Range<usize>) -> impl Iterator<Item = usize> + use<'_> {
        stages.filter(|&s| self.serial.get(s).copied().unwrap_or(false))
    }

    /// Returns true if batch `number` may pass `stages` now: this rank owns every serial stage among them, and the batch is the next one of each.
    pub(crate) fn admit(&self, stages: Range<usize>, number: &SequenceNumber) -> bool {
        let takes = |next: &SequenceNumber| !self.ordered || next == number;
        self.serial_in(stages).all(|s| self.next[s].as_ref().is_some_and(takes))
    }

    /// Returns true if batch `number` has already passed one of the serial stages among `stages`, which is a protocol error.
    pub(crate) fn was_processed(&self, stages: Range<usize>, number: &SequenceNumber) -> bool {
        self.ordered
            && self.serial_in(stages).any(|s| self.next[s].as_ref().is_some_and(|next| number < next))
    }

    /// Records that `batch` enters `stages`: each serial stage among them waits for the following batch from now on.
    pub(crate) fn pass(&mut self, stages: Range<usize>, batch: &Batch) {
        for stage in stages {
            if let Some(next) = self.next.get_mut(stage).and_then(Option::as_mut) {
                *next = batch.following();
            }
        }
    }

    /// Returns the sequence number of the batch for which the first serial stage among `stages` waits.
    pub(crate) fn awaited(&self, stages: Range<usize>) -> Option<&SequenceNumber> {
        self.serial_in(stages).find_map(|s| self.next[s].as_ref()).filter(|_| self.ordered)
    }

    pub(crate) fn to_leave(&self, table: &Table, me: usize) -> Vec<usize> {
        (0..table.stage_count()).filter(|&s| self.owns(s) && table.owner(s) != me).collect()
    }

    pub(crate) fn owns(&self, stage: usize) -> bool {
        self.next.get(stage).is_some_and(Option::is_some)
    }

    /// Gives up the ownership of a serial stage. Returns the sequence number of the first batch that the next owner processes.
    pub(crate) fn skip_missing(&mut self, stage: usize) -> Option<SequenceNumber> {
        self.next.get_mut(stage).and_then(Option::take)
    }

    pub(crate) fn receive(&mut self, stage: usize, next: SequenceNumber) {
        if let Some(place) = self.next.get_mut(stage) {
            *place = Some(next);
        }
    }

    /// Returns true if `stage` is serial and not the sink, which cannot migrate.
    pub(crate) fn is_serial(&self, stage: usize) -> bool {
        stage + 1 < self.serial.len() && self.serial[stage]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use armature_planner::pipeline::{Block, Dispatch, Mapping};

    use super::super::super::range;
    use super::super::batch::{BatchKind, Payload};
    use super::*;

    fn of(table: &Table, me: usize) -> Resequencer {
        Resequencer::new(table, me, vec![SequenceNumber::from(0); 4])
    }

    fn batch(number: u64) -> Batch {
        let payload = Payload::Kept { produced: 0 };
        let number = number.into();
        let (pieces, range, service) = (Vec::new(), range::Range::default(), Duration::ZERO);
        Batch {
            number,
            pieces,
            kind: BatchKind::Items,
            stage: 0,
            range,
            service,
            widest: 0,
            behind: None,
            payload,
        }
    }

    fn table(owner: usize, ordered: bool) -> Table {
        let mapping = Mapping::new(vec![Block::new(0..2, vec![owner]), Block::new(2..3, vec![0, 1])]);
        Table::new(1, mapping, Dispatch::OnDemand, &[false, true, false], ordered)
    }

    #[test]
    fn batch_waits_for_its_turn_at_each_serial_stage() {
        let mut resequencer = of(&table(0, true), 0);
        assert!(
            resequencer.admit(0..2, &0.into())
                && !resequencer.admit(0..2, &1.into())
                && resequencer.admit(2..3, &7.into())
        );
        resequencer.pass(0..2, &batch(0));
        assert!(
            resequencer.admit(0..2, &1.into())
                && resequencer.was_processed(0..2, &0.into())
                && !resequencer.was_processed(2..3, &0.into())
        );
        assert_eq!(
            (resequencer.awaited(0..2), resequencer.awaited(2..3), resequencer.awaited(3..4)),
            (Some(&1.into()), None, Some(&0.into()))
        );
    }

    #[test]
    fn moved_stage_keeps_its_turn() {
        let (here, there) = (table(0, true), table(1, true));
        let (mut old, mut new) = (of(&here, 0), of(&here, 1));
        old.pass(0..2, &batch(4));
        assert_eq!((old.to_leave(&here, 0), old.to_leave(&there, 0)), (vec![], vec![1]));
        assert!(!new.admit(0..2, &5.into()));
        new.receive(1, old.skip_missing(1).unwrap());
        assert!(new.admit(0..2, &5.into()) && !old.admit(0..2, &5.into()) && old.admit(0..1, &9.into()));
        assert!(old.owns(3) && !new.owns(3) && new.is_serial(1) && !new.is_serial(3), "the sink stays");
    }

    #[test]
    fn unordered_stage_admits_any_batch_on_its_owner() {
        let (here, away) = (of(&table(0, false), 0), of(&table(0, false), 1));
        assert!(here.admit(0..2, &9.into()) && !away.admit(0..2, &9.into()) && away.admit(3..4, &9.into()));
        assert!(!here.was_processed(0..2, &0.into()));
    }
}
