//! What neighbours send each other, and how it waits until it is its turn.

use std::collections::VecDeque;
use std::ops::Range;

use bytemuck::{AnyBitPattern, NoUninit, Pod};
use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use super::orders::Orders;
use crate::comm::Part;
use crate::comm::message::{FRAME_HEADER, Tag};
use crate::error::{Error, ErrorKind, Result};
use crate::wire;

/// Where a rank is in the chain of those that hold rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) rank: usize,
    /// How many ranks hold rows: these are the first ones.
    pub(super) chain: usize,
}

impl Place {
    /// The rank that holds the rows above.
    pub(super) fn above(self) -> Option<usize> {
        self.rank.checked_sub(1)
    }

    /// The rank that holds the rows below.
    pub(super) fn below(self) -> Option<usize> {
        (self.rank + 1 < self.chain).then_some(self.rank + 1)
    }
}

/// Where a machine's messages go.
pub(super) trait Out {
    /// The beginning of a message, with room for so many bytes.
    fn begin(&mut self, tag: Tag, bytes: usize) -> Vec<u8>;

    /// Sends what was begun.
    fn send(&mut self, to: usize, head: Vec<u8>, parts: Vec<Part>) -> Result<()>;
}

/// A message that has come and is not handled yet.
#[derive(Debug)]
pub(super) struct Mail {
    pub(super) tag: Tag,
    pub(super) body: Bytes,
    pub(super) parts: Vec<Part>,
}

impl Mail {
    /// Whether it announces rows ([`send_coming`]).
    pub(super) fn is_coming(&self) -> bool {
        self.tag == Tag::Units && self.body.is_empty() && self.parts.is_empty()
    }
}

/// Messages of one neighbour, in the order in which they were sent.
pub(super) type Queue = VecDeque<Mail>;

/// Bytes before the values of a border: sweep (8), first column (8).
const BORDER: usize = 16;

/// Some columns of a row, as they are after a sweep.
#[derive(Debug)]
pub(super) struct Border {
    pub(super) sweep: u64,
    pub(super) start: usize,
    values: Bytes,
}

impl Border {
    /// Sends these columns of `row`.
    #[inline]
    pub(super) fn send<T: NoUninit>(
        out: &mut dyn Out,
        to: usize,
        sweep: u64,
        columns: Range<usize>,
        row: &[T],
    ) -> Result<()> {
        let values: &[u8] = bytemuck::cast_slice(&row[columns.clone()]);
        let mut head = out.begin(Tag::Border, BORDER + values.len());
        head.extend_from_slice(&sweep.to_le_bytes());
        head.extend_from_slice(&(columns.start as u64).to_le_bytes());
        head.extend_from_slice(values);
        out.send(to, head, Vec::new())
    }

    fn open(body: Bytes) -> Option<Self> {
        let (sweep, rest) = body.split_first_chunk::<8>()?;
        let start = rest.first_chunk::<8>()?;
        let (sweep, start) = (u64::from_le_bytes(*sweep), u64::from_le_bytes(*start));
        Some(Border { sweep, start: usize::try_from(start).ok()?, values: body.slice(BORDER..) })
    }

    /// Copies the values to where they belong in `row`; returns the column after the last. They must be of this sweep and
    /// begin at this column.
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
                    "rank {from} sent {} bytes of sweep {} from column {} on, expected those of sweep {sweep} from column \
                     {start} on, {} values of {} bytes at most",
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

/// Announces rows that are sent next.
pub(super) fn send_coming(out: &mut dyn Out, to: usize) -> Result<()> {
    let head = out.begin(Tag::Units, 0);
    out.send(to, head, Vec::new())
}

/// Tells a rank that has announced rows that this one waits for them and can do nothing else.
pub(super) fn send_wanted(out: &mut dyn Out, to: usize) -> Result<()> {
    let head = out.begin(Tag::Wanted, 0);
    out.send(to, head, Vec::new())
}

/// Sends rows of the whole grid that move; `first` says where they are.
pub(super) fn send_rows<T: NoUninit + Send>(
    out: &mut dyn Out,
    tag: Tag,
    to: usize,
    first: u64,
    values: Vec<T>,
) -> Result<()> {
    let mut head = out.begin(tag, 8);
    head.extend_from_slice(&first.to_le_bytes());
    out.send(to, head, vec![Part::of(values)])
}

/// Rows that have come, which must be these.
pub(super) fn open_rows<T: AnyBitPattern>(
    mail: Mail,
    rows: &Range<u64>,
    width: usize,
    from: usize,
) -> Result<Vec<T>> {
    let first = mail.body.first_chunk::<8>().map(|first| u64::from_le_bytes(*first));
    let length = mail.parts.first().map_or(0, Part::len);
    let wanted = (rows.end - rows.start) as usize * width * size_of::<T>();
    let mut parts = mail.parts;
    match parts.pop() {
        Some(part) if parts.is_empty() && first == Some(rows.start) && length == wanted => {
            // Values whose alignment the transport does not keep are copied.
            Ok(part.into_values().unwrap_or_else(|part| copied(&part)))
        }
        _ => {
            let sent = first.map_or("what is no rows".to_string(), |first| {
                format!("{length} bytes of the rows from {first} on")
            });
            let text = format!("rank {from} sent {sent}, expected {wanted} bytes of the rows {rows:?}");
            Err(Error::new(ErrorKind::Wire, text))
        }
    }
}

fn copied<T: AnyBitPattern>(part: &Part) -> Vec<T> {
    part.bytes().chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

/// Sends a control message.
pub(super) fn send_told<M: Serialize>(out: &mut dyn Out, tag: Tag, to: usize, told: &M) -> Result<()> {
    let bytes = wire::to_bytes(told)?;
    let mut head = out.begin(tag, bytes.len());
    head.extend_from_slice(&bytes);
    out.send(to, head, Vec::new())
}

/// What the first message of a queue is.
pub(super) enum Next {
    Border(Border),
    Orders(Orders),
    /// Nothing has come yet.
    Nothing,
}

/// Takes the next border or order out of a queue; anything else is out of place.
#[inline]
pub(super) fn next(queue: &mut Queue, from: usize) -> Result<Next> {
    let Some(mail) = queue.pop_front() else { return Ok(Next::Nothing) };
    let length = mail.body.len();
    match mail.tag {
        Tag::Border => match Border::open(mail.body) {
            Some(border) => Ok(Next::Border(border)),
            None => Err(unexpected(from, &format!("a border of {length} bytes"), "at least 16")),
        },
        Tag::Orders => Ok(Next::Orders(told(&mail.body)?)),
        tag => Err(unexpected(from, &format!("{tag:?}"), "a border or orders")),
    }
}

/// Takes rows out of a queue, if something has come; anything else than `Units` is out of place.
pub(super) fn next_rows(queue: &mut Queue, from: usize) -> Result<Option<Mail>> {
    match queue.pop_front() {
        Some(mail) if mail.tag == Tag::Units => Ok(Some(mail)),
        Some(mail) => Err(unexpected(from, &format!("{:?}", mail.tag), "rows that move")),
        None => Ok(None),
    }
}

/// A control message.
pub(super) fn told<M: DeserializeOwned>(body: &[u8]) -> Result<M> {
    wire::from_bytes(body)
}

pub(super) fn unexpected(from: usize, what: &str, expected: &str) -> Error {
    Error::new(ErrorKind::Wire, format!("rank {from} sent {what}, expected {expected}"))
}

/// Room for a header and that many bytes.
pub(super) const fn room(bytes: usize) -> usize {
    FRAME_HEADER + bytes
}
