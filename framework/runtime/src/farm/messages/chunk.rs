//! Chunks and results as messages: one header, followed by the tasks or results as encoded by their codec (serde, or the bytes of their memory).

use std::time::Duration;

use bytes::Bytes;

use super::super::chunk_result::{ChunkResult, Failure};
use super::Tag;
use crate::comm::message::{Body, FRAME_HEADER, Put, Take, frame};
use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};
use crate::wire::erased::{Batch, Codec, Items};
use crate::wire::{self, header::header};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    pub(crate) id: u64,
    pub(crate) first: u64,
    pub(crate) count: u32,
    /// Number of tasks that were encoded before those of this chunk and that the worker skips, because their results have already arrived.
    pub(crate) skip: u32,
    pub(crate) attempt: u32,
    /// True if a rank fell silent while it held tasks of the chunk, or if the chunk is a second copy. The tasks may take long, so they do not run on
    /// the communicating thread.
    pub(crate) suspect: bool,
    /// True if ranks may have died in tasks of the chunk. The rank that gets the chunk then holds no other chunk, so that the next death identifies
    /// the task.
    pub(crate) alone: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Times {
    pub(crate) took: Duration,
    pub(crate) sum: f64,
    /// Sum of the squares of the task times, in s². If tasks are not timed one by one, all are assumed to take the same time.
    pub(crate) squares: f64,
}

/// Encoded tasks or results: the first block of data, and the large parts that are sent without a copy.
#[derive(Clone, Debug)]
pub(crate) struct Payload {
    pub(crate) head: Bytes,
    pub(crate) parts: Vec<Part>,
}

impl Payload {
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.parts.iter().map(Part::len).sum::<usize>()
    }
}

/// Chunk or result within a message that contains several of them.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Rank that computed the result; 0 for a chunk.
    pub(crate) by: usize,
    pub(crate) body: Bytes,
    pub(crate) parts: Vec<Part>,
}

/// Header of a result, which belongs to a whole chunk or to some of its tasks. In the second case the worker sends the other results later.
#[derive(Debug)]
pub(crate) struct ResultHeader {
    pub(crate) id: u64,
    pub(crate) first: u64,
    pub(crate) count: u32,
    pub(crate) failures: Vec<Failure>,
    pub(crate) times: Times,
}

/// Bit of `attempt` in the header of a chunk: the tasks of the chunk may take long.
const SUSPECT: u32 = 1 << 31;
/// Bit of `attempt` in the header of a chunk: the rank that runs the chunk must hold no other chunk.
const ALONE: u32 = 1 << 30;

header! {
    struct ChunkFields {
        id: u64, first: u64, count: u32,
        /// Number of earlier attempts of the tasks, combined with the bits [`SUSPECT`] and [`ALONE`].
        attempt: u32,
        skip: u32,
    }
}

header! {
    struct ResultFields {
        id: u64, first: u64, count: u32,
        took: u64,
        sum: f64, squares: f64,
        listed: u64,
    }
}

const CHUNK_HEADER: usize = ChunkFields::SIZE;
const RESULT_HEADER: usize = ResultFields::SIZE;

/// Estimates the encoded size of `items` in bytes, for which memory is reserved.
fn room(codec: &dyn Codec, items: &dyn Batch) -> usize {
    64 + codec.shape().size.min(1 << 10) * items.len()
}

/// Encodes `tasks` as a message. Also returns the encoded tasks, which the sender keeps until their results have arrived.
pub(crate) fn encode_chunk(
    run: u32,
    header: ChunkHeader,
    codec: &dyn Codec,
    tasks: Items,
) -> Result<(Frame, Payload)> {
    let message = frame(run, Tag::Chunk, CHUNK_HEADER + room(codec, &*tasks), |head, parts| {
        head.extend_from_slice(&header.to_bytes());
        codec.encode(tasks, head, parts)
    })?;
    let head = message.head.slice(FRAME_HEADER + CHUNK_HEADER..);
    let kept = Payload { head, parts: message.parts.clone() };
    Ok((message, kept))
}

impl ChunkHeader {
    pub(super) fn to_bytes(self) -> [u8; CHUNK_HEADER] {
        let suspect = if self.suspect { SUSPECT } else { 0 };
        let alone = if self.alone { ALONE } else { 0 };
        let attempt = self.attempt & !(SUSPECT | ALONE) | suspect | alone;
        ChunkFields { id: self.id, first: self.first, count: self.count, attempt, skip: self.skip }.to_bytes()
    }
}

impl Put for ChunkHeader {
    fn put(self, head: &mut Vec<u8>, _: &mut Vec<Part>) -> Result<()> {
        head.extend_from_slice(&self.to_bytes());
        Ok(())
    }
}

impl Take for ChunkHeader {
    fn take(body: &mut Body) -> Result<Self> {
        let ChunkFields { id, first, count, attempt, skip } = body.header(CHUNK_HEADER, ChunkFields::read)?;
        let (suspect, alone) = (attempt & SUSPECT != 0, attempt & ALONE != 0);
        Ok(ChunkHeader { id, first, count, skip, attempt: attempt & !(SUSPECT | ALONE), suspect, alone })
    }
}

impl Put for Payload {
    fn room(&self) -> usize {
        CHUNK_HEADER + self.head.len()
    }

    fn put(self, head: &mut Vec<u8>, parts: &mut Vec<Part>) -> Result<()> {
        head.extend_from_slice(&self.head);
        parts.extend(self.parts);
        Ok(())
    }
}

impl Take for Payload {
    fn take(body: &mut Body) -> Result<Self> {
        let (head, parts) = body.rest();
        Ok(Payload { head, parts })
    }
}

pub(crate) fn encode_result(
    run: u32,
    header: ChunkHeader,
    codec: &dyn Codec,
    result: ChunkResult,
    times: Times,
) -> Result<Frame> {
    let ChunkResult { results, failures, .. } = result;
    let list = if failures.is_empty() { Vec::new() } else { wire::to_bytes(&failures)? };
    let (ChunkHeader { id, first, count, .. }, Times { took, sum, squares }) = (header, times);
    let took = took.as_nanos() as u64;
    let fields = ResultFields { id, first, count, took, sum, squares, listed: list.len() as u64 };
    frame(run, Tag::Result, RESULT_HEADER + room(codec, &*results), |head, parts| {
        head.extend_from_slice(&fields.to_bytes());
        head.extend_from_slice(&list);
        codec.encode(results, head, parts)
    })
}

impl Take for Entry {
    fn take(body: &mut Body) -> Result<Self> {
        let (head, parts) = body.rest();
        Ok(Entry { by: body.from, body: head, parts })
    }
}

impl Entry {
    /// Returns the number of the chunk to which a result belongs, and the number of tasks that the result covers.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the header is cut short.
    pub(crate) fn chunk(&self) -> Result<(u64, u32)> {
        let fields = ResultFields::read(&self.body).ok_or_else(|| torn(&self.body))?;
        Ok((fields.id, fields.count))
    }

    /// Decodes the header of a result. The results themselves remain encoded.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the header is cut short or inconsistent.
    pub(crate) fn decode_result(self) -> Result<(ResultHeader, Payload)> {
        read_result(self.body, self.parts)
    }
}

fn read_result(body: Bytes, parts: Vec<Part>) -> Result<(ResultHeader, Payload)> {
    let ResultFields { id, first, count, took, sum, squares, listed } =
        ResultFields::read(&body).ok_or_else(|| torn(&body))?;
    let listed = usize::try_from(listed).unwrap_or(usize::MAX);
    let end =
        listed.checked_add(RESULT_HEADER).filter(|&end| end <= body.len()).ok_or_else(|| torn(&body))?;
    let failures: Vec<Failure> =
        if listed == 0 { Vec::new() } else { wire::from_bytes(&body[RESULT_HEADER..end])? };
    if !failures.is_sorted_by(|a, b| a.place < b.place) || failures.last().is_some_and(|f| f.place >= count) {
        return Err(Error::new(
            ErrorKind::Wire,
            "the failed tasks of a result are not in ascending order or not in its chunk",
        ));
    }
    let times = Times { took: Duration::from_nanos(took), sum, squares };
    let done = ResultHeader { id, first, count, failures, times };
    Ok((done, Payload { head: body.slice(end..), parts }))
}

fn torn(body: &Bytes) -> Error {
    Error::new(ErrorKind::Wire, format!("the header of a result is cut short at {} bytes", body.len()))
}

#[cfg(test)]
mod tests {
    use super::super::ToWorker;
    use super::*;
    use crate::comm::message::{Message, Tagged, received};

    const SOME: ChunkHeader =
        ChunkHeader { id: 3, first: 40, count: 5, skip: 2, attempt: 1, suspect: true, alone: false };

    #[test]
    fn chunk_and_result_messages_round_trip() {
        let codec = wire::Codec::<u64>::of_type();
        let tasks = || Box::new(vec![1_u64, 2, 3, 4, 5]);
        let (message, kept) = encode_chunk(7, SOME, &codec, tasks()).unwrap();
        let decoded = |message| match ToWorker::decode(received(0, message)).unwrap() {
            ToWorker::Chunk(header, payload) => (header, payload),
            other => panic!("{other:?} is no chunk"),
        };
        let (header, payload) = decoded(message);
        assert_eq!(header, SOME);
        for payload in [payload, kept] {
            assert_eq!(codec.decode(payload.head, payload.parts, 5).unwrap(), [1, 2, 3, 4, 5]);
        }
        let alone = ChunkHeader { suspect: false, alone: true, ..SOME };
        let (message, _) = encode_chunk(7, alone, &codec, tasks()).unwrap();
        assert_eq!(decoded(message).0, alone);
        let failures = vec![Failure { place: 1, panicked: true, message: "no".into() }];
        let times = Times { took: Duration::from_nanos(12), sum: 1.5, squares: 0.25 };
        let result =
            ChunkResult { results: Box::new(vec![1u64, 3, 4, 5]), failures: failures.clone(), rest: None };
        let message = encode_result(7, SOME, &codec, result, times).unwrap();
        let (read, payload) = read_result(message.head.slice(FRAME_HEADER..), message.parts).unwrap();
        assert_eq!((read.id, read.first, read.count, read.times), (3, 40, 5, times));
        assert_eq!(read.failures, failures);
        assert_eq!(codec.decode(payload.head, payload.parts, 4).unwrap(), [1, 3, 4, 5]);
    }

    #[test]
    fn hostile_headers_are_errors() {
        let zeros = vec![0u8; RESULT_HEADER];
        assert!(read_result(zeros.clone().into(), vec![]).is_ok());
        for cut in 0..RESULT_HEADER {
            assert!(read_result(zeros[..cut].to_vec().into(), vec![]).is_err());
        }
        for cut in 0..CHUNK_HEADER {
            let body = zeros[..cut].to_vec().into();
            let message = Message { from: 0, code: Tag::Chunk.byte(), body, parts: vec![] };
            assert!(ToWorker::decode(message).is_err());
        }
        let mut long = zeros.clone();
        long[44..52].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(read_result(long.into(), vec![]).is_err(), "more failures than bytes");
        let outside = vec![Failure { place: 0, panicked: false, message: String::new() }];
        let list = wire::to_bytes(&outside).unwrap();
        let mut wrong = zeros;
        wrong[44..52].copy_from_slice(&(list.len() as u64).to_le_bytes());
        wrong.extend_from_slice(&list);
        assert!(read_result(wrong.into(), vec![]).is_err(), "task 0 of none");
    }
}
