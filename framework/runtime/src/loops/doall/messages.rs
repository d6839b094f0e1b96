//! What ranks of a DOALL loop send each other, and how it lies in frames.

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

/// A rank's report.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Report {
    /// When that was, in seconds of its own clock.
    pub(super) at: f64,
    /// The number of the directive that it has carried out last.
    pub(super) round: u64,
    /// Units that it did in this pass; one that was done several times counts as often.
    pub(super) done: u64,
    /// Units that it has, done or not.
    pub(super) held: u64,
    /// What it did since its last report. What it holds, by that, is what is not done yet, counted in the same way.
    pub(super) sample: Sample,
    /// What it did in the whole run, once it has run out of units.
    pub(super) total: Option<RankReport>,
}

/// What rank 0 has decided; all ranks get the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Directive {
    pub(super) round: u64,
    pub(super) what: Command,
    /// Who sends what to whom.
    pub(super) moves: Vec<Transfer>,
    /// Seconds from one report to the next.
    pub(super) period: f64,
    /// Before anything else, units are written to a checkpoint of this number of passes.
    pub(super) save: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Command {
    /// Go on.
    Continue,
    /// Report at the next hook: somebody has run out of units. The round stays what it is.
    ReportSoon,
    /// The next pass begins.
    BeginPass,
    /// The run is over.
    End,
}

/// Units go from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Transfer {
    pub(super) from: usize,
    pub(super) to: usize,
    /// How many, counted by how often they are to be done, …
    pub(super) units: u64,
    /// … of these that the sender had. If it has fewer by now, fewer go, in proportion.
    pub(super) of: u64,
}

impl Transfer {
    /// How many go, where `left` are left.
    pub(super) fn of_those_left(&self, left: u64) -> u64 {
        if left >= self.of {
            return self.units;
        }
        let part = u128::from(self.units) * u128::from(left) / u128::from(self.of.max(1));
        // No more than `left`, or than `units` if these were more than the sender had.
        u64::try_from(part).unwrap_or(u64::MAX).min(left)
    }
}

/// Units on their way, with the number of the directive that sent them. There may be none.
#[derive(Debug)]
pub(in crate::loops) struct UnitMigration<U> {
    pub(in crate::loops) round: u64,
    pub(in crate::loops) segments: Vec<Segment<U>>,
}

impl<U> UnitMigration<U> {
    /// How many units these are.
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

    /// No unit beyond `units` exists.
    fn decode(body: Bytes, parts: Vec<Part>, units: u64) -> Result<Self> {
        let mut unpacker = Unpacker::new(body, parts);
        let round = unpacker.number()?;
        let mut segments = Vec::new();
        for _ in 0..unpacker.number()? {
            let (first, count, left) = (unpacker.number()?, unpacker.number()?, unpacker.number()?);
            if first.checked_add(count).is_none_or(|end| end > units) {
                let text = format!("units from {first} on, {count} of them, where there are {units}");
                return Err(unpacker.error(text));
            }
            let there = usize::try_from(count)
                .map_err(|_| Error::new(ErrorKind::Wire, format!("{count} units do not fit into memory")))?;
            segments.push(Segment::new(first, count, U::unpack(&mut unpacker, there)?).due(left));
        }
        unpacker.end()?;
        Ok(UnitMigration { round, segments })
    }

    /// As what rank 0 gets when all units are brought together there, or a rank when a result is shared out; `run` is the number of that
    /// run.
    pub(in crate::loops) fn encode_gathered(self, run: u32) -> Result<Frame> {
        self.encode(run, Tag::Gather)
    }

    /// From such a message. No unit beyond `units` exists.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if it is another message, or damaged.
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

/// To the coordinator, from a worker.
#[derive(Debug)]
pub(super) enum ToCoordinator {
    /// What the worker has done.
    Report(Report),
    /// After how many passes the units were so that the worker has written, and the pieces.
    Saved(u64, Vec<Saved>),
}

/// To a worker.
#[derive(Debug)]
pub(super) enum ToWorker<U> {
    /// From the coordinator: what all are to do.
    Directive(Directive),
    /// From another worker: units that the directive of their round has sent here.
    Units(UnitMigration<U>),
}

/// A message that has come while the loop runs.
#[derive(Debug)]
pub(super) enum Received<U> {
    ForCoordinator(ToCoordinator),
    ForWorker(ToWorker<U>),
}

impl ToCoordinator {
    /// As a message of run number `run`.
    pub(super) fn encode(&self, run: u32) -> Result<Frame> {
        match self {
            ToCoordinator::Report(report) => encode(run, Tag::Report, report),
            ToCoordinator::Saved(pass, pieces) => encode(run, Tag::Saved, &(pass, pieces)),
        }
    }
}

impl<U: Units> ToWorker<U> {
    /// As a message of run number `run`.
    pub(super) fn encode(self, run: u32) -> Result<Frame> {
        match self {
            ToWorker::Directive(directive) => encode(run, Tag::Directive, &directive),
            ToWorker::Units(migration) => migration.encode(run, Tag::Units),
        }
    }
}

impl<U: Units> Received<U> {
    /// Opens a message of a loop over `units` units.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if it has no place in a running loop, or is damaged.
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
            Tag::Gather => return Err(unexpected(from, "units to be gathered")),
        })
    }
}

fn encode(run: u32, tag: Tag, content: &impl Serialize) -> Result<Frame> {
    let mut head = frame_header(run, tag).to_vec();
    head.extend_from_slice(&wire::to_bytes(content)?);
    Ok(Frame::new(head))
}

/// A rank has sent what it must not send here.
pub(super) fn unexpected(from: usize, what: &str) -> Error {
    Error::new(ErrorKind::Wire, format!("rank {from} sent {what}, which a loop does not expect here"))
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
        assert!(open(10_089).unwrap_err().message().contains("units from 90 on"));
        let empty = UnitMigration::<()> { round: 1, segments: vec![] }.encode(1, Tag::Units).unwrap();
        let empty = UnitMigration::<()>::decode(empty.head.slice(FRAME_HEADER..), empty.parts, 0).unwrap();
        assert_eq!((empty.round, empty.len()), (1, 0));
    }
}
