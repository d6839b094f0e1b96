//! What ranks tell each other while a DOALL loop runs.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::stock::Segment;
use crate::comm::message::{Tag, frame_header};
use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};
use crate::loops::freight::{Loading, Unloading};
use crate::loops::note::Note;
use crate::loops::summary::RankReport;
use crate::loops::units::Units;

/// A rank's report.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Say {
    /// When that was, in seconds of its own clock.
    pub(super) at: f64,
    /// The orders that it has carried out last.
    pub(super) round: u64,
    /// Units that it did in this pass; those done several times count as so many.
    pub(super) done: u64,
    /// Units that it has, done or not.
    pub(super) held: u64,
    /// What it did since its last report. What it holds, by that, is what is not done yet, counted in the same way.
    pub(super) note: Note,
    /// What it did in the whole run; told when it has run dry.
    pub(super) total: Option<RankReport>,
}

/// What rank 0 has decided; all ranks get the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) round: u64,
    pub(super) what: What,
    /// Who sends what to whom.
    pub(super) moves: Vec<Transfer>,
    /// Seconds from one report to the next.
    pub(super) period: f64,
    /// Before anything else, units are written to a checkpoint, as they are after so many passes.
    pub(super) save: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum What {
    /// Go on.
    Go,
    /// Report at the next hook: somebody has run dry. The round stays what it is.
    Hurry,
    /// The next pass begins.
    Begin,
    /// The run is over.
    End,
}

/// Units go from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Transfer {
    pub(super) from: usize,
    pub(super) to: usize,
    /// So many, counted by how often they are to be done, …
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

/// Units on their way, with the number of the orders that sent them. There may be none.
#[derive(Debug)]
pub(in crate::loops) struct Shipment<U> {
    pub(in crate::loops) round: u64,
    pub(in crate::loops) segments: Vec<Segment<U>>,
}

impl<U> Shipment<U> {
    /// How many units these are.
    pub(super) fn len(&self) -> u64 {
        self.segments.iter().map(|segment| segment.count).sum()
    }
}

impl<U: Units> Shipment<U> {
    /// As a message of this tag, of run number `run`.
    pub(in crate::loops) fn pack(self, run: u32, tag: Tag) -> Result<Frame> {
        let mut loading = Loading::behind(frame_header(run, tag).to_vec());
        loading.number(self.round);
        loading.number(self.segments.len() as u64);
        for segment in self.segments {
            loading.number(segment.first);
            loading.number(segment.count);
            loading.number(segment.left);
            segment.units.load(&mut loading)?;
        }
        let (head, parts) = loading.finish();
        Ok(Frame { head: head.into(), parts })
    }

    /// From the content of such a message. No unit beyond `units` exists.
    pub(in crate::loops) fn unpack(body: Bytes, parts: Vec<Part>, units: u64) -> Result<Self> {
        let mut unloading = Unloading::new(body, parts);
        let round = unloading.number()?;
        let mut segments = Vec::new();
        for _ in 0..unloading.number()? {
            let (first, count, left) = (unloading.number()?, unloading.number()?, unloading.number()?);
            if first.checked_add(count).is_none_or(|end| end > units) {
                let text = format!("units from {first} on, {count} of them, where there are {units}");
                return Err(unloading.error(text));
            }
            let there = usize::try_from(count)
                .map_err(|_| Error::new(ErrorKind::Wire, format!("{count} units do not fit into memory")))?;
            segments.push(Segment::new(first, count, U::unload(&mut unloading, there)?).due(left));
        }
        unloading.end()?;
        Ok(Shipment { round, segments })
    }
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
        let shipment = || Shipment {
            round: 3,
            segments: vec![Segment::new(4, 2, rows(4, 2)), Segment::new(90, 10_000, rows(90, 10_000))],
        };
        assert_eq!(shipment().len(), 10_002);
        let open = |units: u64| {
            let Frame { head, parts } = shipment().pack(1, Tag::Units)?;
            Shipment::<Rows<u64>>::unpack(head.slice(FRAME_HEADER..), parts, units)
        };
        let got = open(20_000).unwrap();
        assert_eq!((got.round, got.segments.len(), got.segments[1].first), (3, 2, 90));
        assert_eq!(got.segments[1].units, rows(90, 10_000));
        assert!(open(10_089).unwrap_err().message().contains("units from 90 on"));
        let empty = Shipment::<()> { round: 1, segments: vec![] }.pack(1, Tag::Units).unwrap();
        let empty = Shipment::<()>::unpack(empty.head.slice(FRAME_HEADER..), empty.parts, 0).unwrap();
        assert_eq!((empty.round, empty.len()), (1, 0));
    }
}
