//! Messages between the ranks of a DOALL loop.

use std::convert::Infallible;
use std::mem::take;

use serde::{Deserialize, Serialize};

use super::unit_queue::Segment;
use crate::comm::Frame;
use crate::comm::message::{Body, Message, frame, messages};
use crate::error::{Error, ErrorKind, Result};
use crate::loops::metrics::Sample;
use crate::loops::pack::{Packer, Unpacker};
use crate::loops::summary::RankReport;
use crate::loops::units::Units;
use crate::persist::snapshot::Written;

messages! {
    "a DOALL loop":
    pub(super) enum Received;
    pub(super) enum Tag {
        /// Units (rows or indices with their data) for rank 0, which gathers all units of the loop.
        Gather = 51,
    }
    /// Message from a worker to the coordinator: a report of measurements, or the pieces that the worker has written to a checkpoint.
    pub(super) enum ToCoordinator {
        Report(report: Report) = 24,
        /// Pieces of a checkpoint that the worker has written, or why it could not write them, with the number of passes after which
        /// its units (rows or indices) were in that state.
        Saved(pass: u64, written: Written) = 52,
    }
    /// Message to a worker: a directive of rank 0, or units (rows or indices) from another worker.
    pub(super) enum ToWorker<U: Infallible => Body> {
        Directive(directive: Directive) = 48,
        /// Units (rows or indices of the loop) that another worker sends, because a directive of rank 0 moves them.
        Units(units: U) = 49 raw,
    }
}

/// Report of a rank to the coordinator: its units (rows or indices), its computations in this pass, and its measurements.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Report {
    /// Time at which this report was sent, in seconds on the sender's clock.
    pub(super) at: f64,
    /// Number of the last directive of rank 0 that the rank has carried out.
    pub(super) round: u64,
    pub(super) done: u64,
    /// Number of units (rows or indices of the loop) that the rank holds, whether it has computed them in this pass or not.
    pub(super) held: u64,
    /// Measurements since the rank's last report. Their field `held` counts the computations of units (rows or indices) that the rank
    /// still has to do in this pass.
    pub(super) sample: Sample,
    /// Statistics of the rank's work in the whole run; sent once the rank has run out of units (rows or indices).
    pub(super) total: Option<RankReport>,
}

/// Decision of rank 0 in a DOALL loop, which all ranks receive: which units (rows or indices) move, and whether a pass begins or the run ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Directive {
    pub(super) round: u64,
    pub(super) what: Command,
    pub(super) moves: Vec<Transfer>,
    pub(super) period: f64,
    /// Set if the rank must write a checkpoint before it carries out the rest of the directive: number of passes that the units (rows or
    /// indices) in the checkpoint have completed.
    pub(super) save: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Command {
    Continue,
    /// Each rank reports after its present block (rows or indices of one call of user code), because another rank has run out of units. Unlike
    /// other directives, this one has the same number as the directive before it.
    ReportSoon,
    BeginPass,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Transfer {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Amount of work to transfer, as a number of computations of units (rows or indices): a unit that is still to be computed in
    /// three passes counts three times.
    pub(super) units: u64,
    /// Number of computations of units (rows or indices) that the sender still had to do when rank 0 decided. If fewer are left, the sender
    /// transfers proportionally fewer.
    pub(super) of: u64,
}

impl Transfer {
    /// Returns the number of computations of units (rows or indices) to transfer, of the `left` ones that the sender still has to do.
    pub(super) fn of_those_left(&self, left: u64) -> u64 {
        if left >= self.of {
            return self.units;
        }
        let part = u128::from(self.units) * u128::from(left) / u128::from(self.of.max(1));
        // The sender cannot transfer more computations than it has left, even if rank 0 has overestimated its remaining work.
        u64::try_from(part).unwrap_or(u64::MAX).min(left)
    }
}

/// Units (rows or indices of the loop) that one rank sends to another, possibly none, and the number of the directive that orders this.
#[derive(Debug)]
pub(in crate::loops) struct UnitMigration<U> {
    pub(in crate::loops) round: u64,
    pub(in crate::loops) segments: Vec<Segment<U>>,
}

impl<U> UnitMigration<U> {
    pub(super) fn len(&self) -> u64 {
        self.segments.iter().map(|segment| segment.count).sum()
    }
}

impl<U: Units> UnitMigration<U> {
    /// Encodes the units (rows or indices) as a message: with [`Tag::Gather`] for the rank that gathers all units, otherwise for another
    /// worker.
    pub(super) fn encode(self, run: u32, tag: Tag) -> Result<Frame> {
        frame(run, tag, 64, |head, parts| {
            let mut packer = Packer::behind(take(head), take(parts));
            packer.number(self.round);
            packer.number(self.segments.len() as u64);
            for segment in self.segments {
                packer.number(segment.first);
                packer.number(segment.count);
                packer.number(segment.left);
                segment.units.pack(&mut packer)?;
            }
            (*head, *parts) = packer.finish();
            Ok(())
        })
    }

    /// Decodes units (rows or indices with their data). Unit numbers beyond the `units` units of the loop are refused.
    pub(super) fn decode(body: Body, units: u64) -> Result<Self> {
        let mut unpacker = Unpacker::new(body.head, body.parts);
        let round = unpacker.number()?;
        let mut segments = Vec::new();
        for _ in 0..unpacker.number()? {
            let (first, count, left) = (unpacker.number()?, unpacker.number()?, unpacker.number()?);
            if first.checked_add(count).is_none_or(|end| end > units) {
                let text = format!("it has {count} units from unit {first} on, but the loop has {units}");
                return Err(unpacker.error(text));
            }
            let there = usize::try_from(count)
                .map_err(|_| Error::new(ErrorKind::Wire, format!("{count} units do not fit into memory")))?;
            segments.push(Segment::new(first, count, U::unpack(&mut unpacker, there)?).due(left));
        }
        unpacker.end()?;
        Ok(UnitMigration { round, segments })
    }

    /// Decodes units (rows or indices) that were sent with [`Tag::Gather`], of a loop that has `units` units in total.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the message has another tag or is damaged.
    pub(in crate::loops) fn decode_gathered(message: Message, units: u64) -> Result<Self> {
        UnitMigration::decode(message.expect(Tag::Gather)?, units)
    }
}

pub(super) fn unexpected(from: usize, what: &str) -> Error {
    Error::new(ErrorKind::Wire, format!("rank {from} sent {what}, which the loop does not expect here"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::message::received;
    use crate::loops::Rows;

    #[test]
    fn transfer_shrinks_with_the_remaining_units() {
        let transfer = Transfer { from: 1, to: 0, units: 6, of: 9 };
        assert_eq!([0, 1, 3, 4, 9, 20].map(|left| transfer.of_those_left(left)), [0, 0, 2, 2, 6, 6]);
        let all = Transfer { units: u64::MAX, of: u64::MAX, ..transfer };
        assert_eq!(all.of_those_left(u64::MAX - 1), u64::MAX - 1);
        assert_eq!(
            Transfer { units: 4, of: 0, ..transfer }.of_those_left(0),
            4,
            "it is cut where units are taken"
        );
    }

    #[test]
    fn unit_migrations_round_trip_and_invalid_ones_are_refused() {
        let rows = |first: u64, count: u64| Rows::from_fn(first..first + count, 1, |unit, row| row[0] = unit);
        let migration = || UnitMigration {
            round: 3,
            segments: vec![Segment::new(4, 2, rows(4, 2)), Segment::new(90, 10_000, rows(90, 10_000))],
        };
        assert_eq!(migration().len(), 10_002);
        let open = |units: u64| {
            let message = received(2, migration().encode(1, Tag::Units)?);
            UnitMigration::<Rows<u64>>::decode(Body::of(message, Tag::Units), units)
        };
        let got = open(20_000).unwrap();
        assert_eq!((got.round, got.segments.len(), got.segments[1].first), (3, 2, 90));
        assert_eq!(got.segments[1].units, rows(90, 10_000));
        assert!(open(10_089).unwrap_err().message().contains("units from unit 90 on"));
        let empty = UnitMigration::<()> { round: 1, segments: vec![] }.encode(1, Tag::Units).unwrap();
        let body = Body::of(received(2, empty), Tag::Units);
        let empty = UnitMigration::<()>::decode(body, 0).unwrap();
        assert_eq!((empty.round, empty.len()), (1, 0));
    }
}
