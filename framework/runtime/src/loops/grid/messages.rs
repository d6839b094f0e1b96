//! Messages between the ranks of a loop over a grid, and their encoding in frames.

use std::ops::Range;

use bytemuck::{AnyBitPattern, NoUninit, Pod};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::directive::Directive;
use crate::comm::message::{FRAME_HEADER, Message, frame_header, tags};
use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};
use crate::loops::metrics::Sample;
use crate::loops::summary::RankReport;
use crate::loops::until::Verdict;
use crate::persist::snapshot::Saved;
use crate::wire::{self, header::header};

tags! {
    "a loop over a grid";
    enum Tag {
        Finish = 23,
        Report = 24,
        Directive = 48,
        Rows = 49,
        HaloRow = 50,
        Gather = 51,
        Wanted = 53,
        Verdict = 54,
        WrapRow = 55,
    }
}

/// Message to a rank with neighbouring rows. `V` holds bulk data, which are borrowed by the sender and owned by the receiver.
#[derive(Debug)]
pub(super) enum ToNeighbour<V> {
    /// Part of the sender's row that faces the receiver.
    HaloRow(HaloRow<V>),
    /// Row at the sender's end of a grid with periodic rows, for the rank at the other end. That rank may be a neighbour as well, and then receives
    /// both rows of the sender.
    WrapRow(HaloRow<V>),
    /// Directive of the coordinator, forwarded from rank to rank.
    Directive(Directive),
    /// Announces that rows which move follow.
    RowsComing,
    /// Rows that move.
    Rows(Rows),
    /// The sender waits for rows that were announced to it, and can do nothing else.
    Wanted,
}

/// Message to the coordinator.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToCoordinator {
    /// Measurements of the rank since its last report.
    Sample(Sample),
    /// Pieces of a checkpoint that the rank has written, with the number of passes after which its rows were in that state.
    Saved(u64, Vec<Saved>),
    /// Work of the rank in the whole run; it has finished.
    Total(RankReport),
    /// Residual of the rank since the last check, before this sweep.
    Residual(u64, f64),
    /// Number of sweeps that the rank has done, including the part of the present sweep.
    Done(f64),
}

/// Message of the coordinator to a rank without rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToSpare {
    /// The run has ended.
    Finish,
}

/// Message that arrived while the loop runs.
#[derive(Debug)]
pub(super) enum Received {
    FromNeighbour(ToNeighbour<Bytes>),
    ForCoordinator(ToCoordinator),
    ForSpare(ToSpare),
    /// Verdict of the coordinator, for all ranks with rows.
    Verdict(Verdict),
}

/// Destination of a worker's messages to its neighbours.
pub(super) trait Outgoing {
    fn send(&mut self, to: usize, message: ToNeighbour<&[u8]>) -> Result<()>;
}

header! {
    /// Header of a halo row.
    struct HaloRowHeader {
        sweep: u64,
        /// First column.
        start: u64,
    }
}

header! {
    /// Header of rows that move or are gathered.
    struct RowsHeader {
        first: u64,
    }
}

/// Some columns of a row, as they are after a sweep.
#[derive(Debug)]
pub(super) struct HaloRow<V> {
    pub(super) sweep: u64,
    pub(super) start: usize,
    values: V,
}

impl<'r> HaloRow<&'r [u8]> {
    /// Creates a message with these columns of `row`.
    #[inline]
    pub(super) fn of<T: NoUninit>(sweep: u64, columns: Range<usize>, row: &'r [T]) -> Self {
        HaloRow { sweep, start: columns.start, values: bytemuck::cast_slice(&row[columns]) }
    }

    #[inline]
    fn encode(self, run: u32, tag: Tag) -> Frame {
        let mut head = framed(run, tag, HaloRowHeader::SIZE + self.values.len());
        head.extend_from_slice(&HaloRowHeader { sweep: self.sweep, start: self.start as u64 }.to_bytes());
        head.extend_from_slice(self.values);
        Frame::new(head)
    }
}

impl HaloRow<Bytes> {
    #[inline]
    fn decode(from: usize, body: Bytes) -> Result<Self> {
        let refused = || {
            let expected = format!("at least {}", HaloRowHeader::SIZE);
            unexpected(from, &format!("a halo row of {} bytes", body.len()), &expected)
        };
        let HaloRowHeader { sweep, start } = HaloRowHeader::read(&body).ok_or_else(refused)?;
        let start = usize::try_from(start).map_err(|_| refused())?;
        Ok(HaloRow { sweep, start, values: body.slice(HaloRowHeader::SIZE..) })
    }

    /// Copies the values to their columns of `row` and returns the column after the last one. The values must be of this sweep and begin at column
    /// `start`.
    #[inline]
    pub(super) fn write<T: Pod>(
        &self,
        row: &mut [T],
        sweep: u64,
        start: usize,
        from: usize,
    ) -> Result<usize> {
        let count = self.values.len() / size_of::<T>();
        let fits = count > 0 && self.values.len() == count * size_of::<T>() && count <= row.len() - start;
        if self.sweep != sweep || self.start != start || !fits {
            return Err(Error::new(
                ErrorKind::Wire,
                format!(
                    "rank {from} sent {} bytes of sweep {} from column {} on, expected sweep {sweep} from column \
                     {start} on, at most {} values of {} bytes",
                    self.values.len(),
                    self.sweep,
                    self.start,
                    row.len() - start,
                    size_of::<T>()
                ),
            ));
        }
        let target: &mut [u8] = bytemuck::cast_slice_mut(&mut row[start..start + count]);
        target.copy_from_slice(&self.values);
        Ok(start + count)
    }
}

/// Neighbouring rows of the whole grid.
#[derive(Debug)]
pub(super) struct Rows {
    /// Number of the first row.
    first: u64,
    values: Part,
}

impl Rows {
    /// Creates a message with rows from `first` on.
    pub(super) fn new<T: NoUninit + Send>(first: u64, values: Vec<T>) -> Self {
        Rows { first, values: Part::of(values) }
    }

    fn encode(self, run: u32, tag: Tag) -> Frame {
        let mut head = framed(run, tag, RowsHeader::SIZE);
        head.extend_from_slice(&RowsHeader { first: self.first }.to_bytes());
        Frame { head: head.into(), parts: vec![self.values] }
    }

    fn decode(from: usize, body: &Bytes, mut parts: Vec<Part>) -> Result<Self> {
        match (RowsHeader::read(body), parts.pop()) {
            (Some(header), Some(values)) if parts.is_empty() => Ok(Rows { first: header.first, values }),
            _ => Err(unexpected(from, "a message without rows", "the number of the first row, and values")),
        }
    }

    /// Encodes the rows for the coordinator, which gathers the whole grid; `run` is the number of that run.
    pub(super) fn encode_gathered(self, run: u32) -> Frame {
        self.encode(run, Tag::Gather)
    }

    /// Decodes a message of [`encode_gathered`](Rows::encode_gathered).
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the message is a different one or damaged.
    pub(super) fn decode_gathered(message: Message) -> Result<Self> {
        let (from, tag) = (message.from, message.tag::<Tag>()?);
        match tag {
            Tag::Gather => Rows::decode(from, &message.body, message.parts),
            other => Err(unexpected(from, &format!("{other:?}"), "its rows of the grid")),
        }
    }

    /// Returns the values, which must be those of `rows`, with `width` columns each.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if rank `from` has sent other values.
    pub(super) fn into_values<T: AnyBitPattern>(
        self,
        rows: &Range<u64>,
        width: usize,
        from: usize,
    ) -> Result<Vec<T>> {
        let (length, wanted) = (self.values.len(), (rows.end - rows.start) as usize * width * size_of::<T>());
        if self.first != rows.start || length != wanted {
            let sent = format!("{length} bytes of the rows from {} on", self.first);
            return Err(unexpected(from, &sent, &format!("{wanted} bytes of the rows {rows:?}")));
        }
        // Values whose alignment the transport does not keep are copied.
        Ok(self.values.into_values().unwrap_or_else(|part| copied(&part)))
    }
}

fn copied<T: AnyBitPattern>(part: &Part) -> Vec<T> {
    part.bytes().chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

/// Creates the beginning of a frame's head, with room for `room` more bytes.
fn framed(run: u32, tag: Tag, room: usize) -> Vec<u8> {
    let mut head = Vec::with_capacity(FRAME_HEADER + room);
    head.extend_from_slice(&frame_header(run, tag));
    head
}

fn encode(run: u32, tag: Tag, content: &impl Serialize) -> Result<Frame> {
    let bytes = wire::to_bytes(content)?;
    Ok(bulk(run, tag, &bytes))
}

fn bulk(run: u32, tag: Tag, bytes: &[u8]) -> Frame {
    let mut head = framed(run, tag, bytes.len());
    head.extend_from_slice(bytes);
    Frame::new(head)
}

impl ToNeighbour<&[u8]> {
    /// Encodes the message for run number `run`.
    #[inline]
    pub(super) fn encode(self, run: u32) -> Result<Frame> {
        Ok(match self {
            ToNeighbour::HaloRow(row) => row.encode(run, Tag::HaloRow),
            ToNeighbour::WrapRow(row) => row.encode(run, Tag::WrapRow),
            ToNeighbour::Directive(directive) => encode(run, Tag::Directive, &directive)?,
            ToNeighbour::RowsComing => Frame::new(framed(run, Tag::Rows, 0)),
            ToNeighbour::Rows(rows) => rows.encode(run, Tag::Rows),
            ToNeighbour::Wanted => Frame::new(framed(run, Tag::Wanted, 0)),
        })
    }
}

impl<V> ToNeighbour<V> {
    /// Returns the error for this message of rank `from` where `expected` should have arrived.
    pub(super) fn unexpected(&self, from: usize, expected: &str) -> Error {
        let what = match self {
            ToNeighbour::HaloRow(_) => "a halo row",
            ToNeighbour::WrapRow(_) => "a wrap-around row",
            ToNeighbour::Directive(_) => "a directive",
            ToNeighbour::RowsComing => "an announcement of rows",
            ToNeighbour::Rows(_) => "rows",
            ToNeighbour::Wanted => "a request for rows",
        };
        unexpected(from, what, expected)
    }
}

impl ToCoordinator {
    /// Encodes the message for run number `run`.
    pub(super) fn encode(&self, run: u32) -> Result<Frame> {
        encode(run, Tag::Report, self)
    }
}

/// Encodes the verdict of a check for run number `run`.
pub(super) fn encode_verdict(verdict: &Verdict, run: u32) -> Result<Frame> {
    encode(run, Tag::Verdict, verdict)
}

impl ToSpare {
    /// Encodes the message for run number `run`.
    pub(super) fn encode(self, run: u32) -> Frame {
        let tag = match self {
            ToSpare::Finish => Tag::Finish,
        };
        Frame::new(framed(run, tag, 0))
    }
}

impl Received {
    /// Decodes a message.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the message is not part of a running loop or is damaged.
    #[inline]
    pub(super) fn decode(message: Message) -> Result<Self> {
        let tag = message.tag()?;
        let Message { from, body, parts, .. } = message;
        let message = match tag {
            Tag::HaloRow => ToNeighbour::HaloRow(HaloRow::decode(from, body)?),
            Tag::WrapRow => ToNeighbour::WrapRow(HaloRow::decode(from, body)?),
            Tag::Directive => ToNeighbour::Directive(wire::from_bytes(&body)?),
            Tag::Rows if body.is_empty() && parts.is_empty() => ToNeighbour::RowsComing,
            Tag::Rows => ToNeighbour::Rows(Rows::decode(from, &body, parts)?),
            Tag::Wanted => ToNeighbour::Wanted,
            Tag::Report => return Ok(Received::ForCoordinator(wire::from_bytes(&body)?)),
            Tag::Finish => return Ok(Received::ForSpare(ToSpare::Finish)),
            Tag::Verdict => return Ok(Received::Verdict(wire::from_bytes(&body)?)),
            Tag::Gather => return Err(unexpected(from, "rows for the gather", "messages of a running loop")),
        };
        Ok(Received::FromNeighbour(message))
    }

    /// Returns the error for this message of rank `from` where `expected` should have arrived.
    pub(super) fn unexpected(&self, from: usize, expected: &str) -> Error {
        match self {
            Received::FromNeighbour(message) => message.unexpected(from, expected),
            Received::ForCoordinator(_) => unexpected(from, "a report", expected),
            Received::Verdict(_) => unexpected(from, "a verdict", expected),
            Received::ForSpare(_) => unexpected(from, "a message for ranks without rows", expected),
        }
    }
}

pub(super) fn unexpected(from: usize, what: &str, expected: &str) -> Error {
    Error::new(ErrorKind::Wire, format!("rank {from} sent {what}, expected {expected}"))
}

/// Returns the message as a neighbour receives it, for tests of workers without ranks.
#[cfg(test)]
pub(super) fn delivered(message: ToNeighbour<&[u8]>) -> ToNeighbour<Bytes> {
    let Frame { head, parts } = message.encode(1).unwrap();
    let code = head[crate::comm::message::TAG_AT];
    match Received::decode(Message { from: 0, code, body: head.slice(FRAME_HEADER..), parts }).unwrap() {
        Received::FromNeighbour(message) => message,
        other => panic!("{other:?} is for no neighbour"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_halo_row_is_refused() {
        let frame = bulk(1, Tag::HaloRow, &[0; 3]);
        let message = Message {
            from: 2,
            code: Tag::HaloRow as u8,
            body: frame.head.slice(FRAME_HEADER..),
            parts: Vec::new(),
        };
        let error = Received::decode(message).unwrap_err();
        assert_eq!(error.message(), "rank 2 sent a halo row of 3 bytes, expected at least 16");
    }

    #[test]
    fn rows_are_refused_that_are_others() {
        let rows = |count: u64| delivered(ToNeighbour::Rows(Rows::new(5, vec![1.5_f64; 3 * count as usize])));
        let ToNeighbour::Rows(two) = rows(2) else { panic!("they are rows") };
        assert_eq!(two.into_values::<f64>(&(5..7), 3, 1).unwrap(), [1.5; 6]);
        for wrong in [4..6, 5..8] {
            let ToNeighbour::Rows(two) = rows(2) else { panic!("they are rows") };
            let error = two.into_values::<f64>(&wrong, 3, 1).unwrap_err();
            assert!(
                error.message().starts_with("rank 1 sent 48 bytes of the rows from 5 on, expected "),
                "{error}"
            );
        }
        assert!(
            Rows::decode(1, &Bytes::new(), vec![]).is_err()
                && Rows::decode(1, &Bytes::from_static(&[0; 8]), vec![]).is_err()
        );
    }
}
