//! Messages between the ranks of a DOALL loop, and their encoding in frames.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::unit_queue::Segment;
use crate::comm::message::{Message, frame_header, tags};
use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};
use crate::loops::metrics::Sample;
use crate::loops::pack::{Packer, Unpacker};
use crate::loops::summary::RankReport;
use crate::loops::units::Units;
use crate::persist::snapshot::Saved;
use crate::wire;

tags! {
    "a DOALL loop";
    enum Tag {
        Report = 24,
        Directive = 48,
        Units = 49,
        Gather = 51,
        Saved = 52,
    }
}

/// Report of a rank to the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Report {
    /// Time of the report, in seconds of the sender's clock.
    pub(super) at: f64,
    /// Number of the last directive that the rank has carried out.
    pub(super) round: u64,
    /// Number of units computed in this pass; a unit that was computed several times counts each time.
    pub(super) done: u64,
    /// Number of units on the rank, computed or not.
    pub(super) held: u64,
    /// Work since the rank's last report. Its `held` is the number of undone computations of units, counted as in `done`.
    pub(super) sample: Sample,
    /// Work in the whole run, once the rank has run out of units.
    pub(super) total: Option<RankReport>,
}

/// Decision of rank 0, which all ranks receive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Directive {
    pub(super) round: u64,
    pub(super) what: Command,
    /// Transfers of units between ranks.
    pub(super) moves: Vec<Transfer>,
    /// Seconds between two reports of a rank.
    pub(super) period: f64,
    /// Number of passes of a checkpoint to which units are written before the rest of the directive is carried out.
    pub(super) save: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Command {
    /// Continue the pass.
    Continue,
    /// Report at the next hook, because a rank has run out of units. The number of the round does not change.
    ReportSoon,
    /// Begin the next pass.
    BeginPass,
    /// End the run.
    End,
}

/// Transfer of units from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Transfer {
    pub(super) from: usize,
    pub(super) to: usize,
    /// Number of undone computations to transfer: a unit counts as often as it is still to be computed.
    pub(super) units: u64,
    /// Number of undone computations of the sender when rank 0 decided. If fewer are left, the sender sends proportionally fewer.
    pub(super) of: u64,
}

impl Transfer {
    /// Returns the number of computations to send if `left` are left.
    pub(super) fn of_those_left(&self, left: u64) -> u64 {
        if left >= self.of {
            return self.units;
        }
        let part = u128::from(self.units) * u128::from(left) / u128::from(self.of.max(1));
        // The result is at most `left`, and at most `units` in case `units` exceeds what the sender had.
        u64::try_from(part).unwrap_or(u64::MAX).min(left)
    }
}

/// Units in transit, with the number of the directive that sent them. The message may be empty.
#[derive(Debug)]
pub(in crate::loops) struct UnitMigration<U> {
    pub(in crate::loops) round: u64,
    pub(in crate::loops) segments: Vec<Segment<U>>,
}

impl<U> UnitMigration<U> {
    /// Returns the number of units.
    pub(super) fn len(&self) -> u64 {
        self.segments.iter().map(|segment| segment.count).sum()
    }
}

impl<U: Units> UnitMigration<U> {
    fn encode(self, run: u32, tag: Tag) -> Result<Frame> {
        let mut packer = Packer::behind(frame_header(run, tag).to_vec(), Vec::new());
        packer.number(self.round);
        packer.number(self.segments.len() as u64);
        for segment in self.segments {
            packer.number(segment.first);
            packer.number(segment.count);
            packer.number(segment.left);
            segment.units.pack(&mut packer)?;
        }
        let (head, parts) = packer.finish();
        Ok(Frame { head: head.into(), parts })
    }

    /// Decodes units of a loop that has `units` units; a unit beyond that is an error.
    fn decode(body: Bytes, parts: Vec<Part>, units: u64) -> Result<Self> {
        let mut unpacker = Unpacker::new(body, parts);
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

    /// Encodes the units for rank 0, which gathers all units, or for a rank that receives a shared result. `run` is the number of that run.
    pub(in crate::loops) fn encode_gathered(self, run: u32) -> Result<Frame> {
        self.encode(run, Tag::Gather)
    }

    /// Decodes a message of [`encode_gathered`](UnitMigration::encode_gathered). A unit beyond `units` is an error.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the message is a different one or damaged.
    pub(in crate::loops) fn decode_gathered(message: Message, units: u64) -> Result<Self> {
        match message.tag()? {
            Tag::Gather => UnitMigration::decode(message.body, message.parts, units),
            other => {
                let text = format!("rank {} sent {other:?} while units were gathered", message.from);
                Err(Error::new(ErrorKind::Wire, text))
            }
        }
    }
}

/// Message from a worker to the coordinator.
#[derive(Debug)]
pub(super) enum ToCoordinator {
    /// Work of the worker.
    Report(Report),
    /// Pieces of a checkpoint that the worker has written, with the number of passes after which its units were in that state.
    Saved(u64, Vec<Saved>),
}

/// Message to a worker.
#[derive(Debug)]
pub(super) enum ToWorker<U> {
    /// Directive of the coordinator to all workers.
    Directive(Directive),
    /// Units from another worker, sent by the directive of their round.
    Units(UnitMigration<U>),
}

/// Message that arrived while the loop runs.
#[derive(Debug)]
pub(super) enum Received<U> {
    ForCoordinator(ToCoordinator),
    ForWorker(ToWorker<U>),
}

impl ToCoordinator {
    /// Encodes the message for run number `run`.
    pub(super) fn encode(&self, run: u32) -> Result<Frame> {
        match self {
            ToCoordinator::Report(report) => encode(run, Tag::Report, report),
            ToCoordinator::Saved(pass, pieces) => encode(run, Tag::Saved, &(pass, pieces)),
        }
    }
}

impl<U: Units> ToWorker<U> {
    /// Encodes the message for run number `run`.
    pub(super) fn encode(self, run: u32) -> Result<Frame> {
        match self {
            ToWorker::Directive(directive) => encode(run, Tag::Directive, &directive),
            ToWorker::Units(migration) => migration.encode(run, Tag::Units),
        }
    }
}

impl<U: Units> Received<U> {
    /// Decodes a message of a loop over `units` units.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the message is not part of a running loop or is damaged.
    pub(super) fn decode(message: Message, units: u64) -> Result<Self> {
        let tag = message.tag()?;
        let Message { from, body, parts, .. } = message;
        Ok(match tag {
            Tag::Report => Received::ForCoordinator(ToCoordinator::Report(wire::from_bytes(&body)?)),
            Tag::Saved => {
                let (pass, pieces) = wire::from_bytes(&body)?;
                Received::ForCoordinator(ToCoordinator::Saved(pass, pieces))
            }
            Tag::Directive => Received::ForWorker(ToWorker::Directive(wire::from_bytes(&body)?)),
            Tag::Units => Received::ForWorker(ToWorker::Units(UnitMigration::decode(body, parts, units)?)),
            Tag::Gather => return Err(unexpected(from, "units for the gather")),
        })
    }
}

fn encode(run: u32, tag: Tag, content: &impl Serialize) -> Result<Frame> {
    let mut head = frame_header(run, tag).to_vec();
    head.extend_from_slice(&wire::to_bytes(content)?);
    Ok(Frame::new(head))
}

/// Returns the error for a message that rank `from` must not send at this point.
pub(super) fn unexpected(from: usize, what: &str) -> Error {
    Error::new(ErrorKind::Wire, format!("rank {from} sent {what}, which the loop does not expect here"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::message::FRAME_HEADER;
    use crate::loops::Rows;

    #[test]
    fn who_has_fewer_sends_fewer() {
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
    fn shipments_travel_and_lies_are_refused() {
        let rows = |first: u64, count: u64| Rows::from_fn(first..first + count, 1, |unit, row| row[0] = unit);
        let migration = || UnitMigration {
            round: 3,
            segments: vec![Segment::new(4, 2, rows(4, 2)), Segment::new(90, 10_000, rows(90, 10_000))],
        };
        assert_eq!(migration().len(), 10_002);
        let open = |units: u64| {
            let Frame { head, parts } = migration().encode(1, Tag::Units)?;
            UnitMigration::<Rows<u64>>::decode(head.slice(FRAME_HEADER..), parts, units)
        };
        let got = open(20_000).unwrap();
        assert_eq!((got.round, got.segments.len(), got.segments[1].first), (3, 2, 90));
        assert_eq!(got.segments[1].units, rows(90, 10_000));
        assert!(open(10_089).unwrap_err().message().contains("units from unit 90 on"));
        let empty = UnitMigration::<()> { round: 1, segments: vec![] }.encode(1, Tag::Units).unwrap();
        let empty = UnitMigration::<()>::decode(empty.head.slice(FRAME_HEADER..), empty.parts, 0).unwrap();
        assert_eq!((empty.round, empty.len()), (1, 0));
    }
}
