//! Chunks and results as messages: a header once, then the tasks or results as their codec writes them.

use std::time::Duration;

use bytes::Bytes;

use super::machine::{Giving, Times};
use super::sheet::{Failure, Sheet};
use crate::comm::message::{FRAME_HEADER, Tag, frame_header};
use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};
use crate::wire::{self, Codec};

/// What a chunk or a result consists of on its way.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) head: Bytes,
    pub(crate) parts: Vec<Part>,
}

impl Load {
    /// Its size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.parts.iter().map(Part::len).sum::<usize>()
    }
}

/// A result as its header says.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) id: u64,
    pub(crate) first: u64,
    pub(crate) count: u32,
    pub(crate) failures: Vec<Failure>,
    pub(crate) times: Times,
}

/// What marks a careful chunk in the number of its attempts.
const CAREFUL: u32 = 1 << 31;
/// The same for one that is to be done alone.
const ALONE: u32 = 1 << 30;
/// Bytes of the header of a chunk behind the message's own.
const GIVING: usize = 24;
/// Bytes of the header of a result behind the message's own, before the list of failures.
const DONE: usize = 52;

/// `tasks` as a message with its header, and what is kept of them.
pub(crate) fn give<I>(run: u32, giving: Giving, codec: &Codec<I>, tasks: Vec<I>) -> Result<(Frame, Load)> {
    let mut head = Vec::with_capacity(FRAME_HEADER + GIVING + 64 + size_of::<I>().min(1 << 10) * tasks.len());
    head.extend_from_slice(&frame_header(run, Tag::Chunk));
    head.extend_from_slice(&giving.id.to_le_bytes());
    head.extend_from_slice(&giving.first.to_le_bytes());
    head.extend_from_slice(&giving.count.to_le_bytes());
    let careful = if giving.careful { CAREFUL } else { 0 };
    let alone = if giving.alone { ALONE } else { 0 };
    head.extend_from_slice(&(giving.attempt & !(CAREFUL | ALONE) | careful | alone).to_le_bytes());
    let mut parts = Vec::new();
    codec.encode(tasks, &mut head, &mut parts)?;
    let head = Bytes::from(head);
    let kept = Load { head: head.slice(FRAME_HEADER + GIVING..), parts: parts.clone() };
    Ok((Frame { head, parts }, kept))
}

/// Marks a chunk that is about to be sent as careful, whatever it was.
pub(crate) fn make_careful(message: &mut [u8]) {
    let attempt = FRAME_HEADER + 20..FRAME_HEADER + GIVING;
    if let Some(last) = message.get_mut(attempt).and_then(|attempt| attempt.last_mut()) {
        *last |= (CAREFUL >> 24) as u8;
    }
}

/// Reads a chunk's header.
pub(crate) fn given(body: Bytes, parts: Vec<Part>) -> Result<(Giving, Load)> {
    let at = Fields::of::<GIVING>(&body, "a chunk")?;
    let attempt = at.u32(20);
    let giving = Giving {
        id: at.u64(0),
        first: at.u64(8),
        count: at.u32(16),
        attempt: attempt & !(CAREFUL | ALONE),
        careful: attempt & CAREFUL != 0,
        alone: attempt & ALONE != 0,
    };
    Ok((giving, Load { head: body.slice(GIVING..), parts }))
}

/// A result as a message.
pub(crate) fn done<O>(
    run: u32,
    giving: Giving,
    codec: &Codec<O>,
    sheet: Sheet<O>,
    times: Times,
) -> Result<Frame> {
    let Sheet { results, failures, .. } = sheet;
    let mut head = Vec::with_capacity(FRAME_HEADER + DONE + 64 + size_of::<O>().min(1 << 10) * results.len());
    head.extend_from_slice(&frame_header(run, Tag::Done));
    head.extend_from_slice(&giving.id.to_le_bytes());
    head.extend_from_slice(&giving.first.to_le_bytes());
    head.extend_from_slice(&giving.count.to_le_bytes());
    head.extend_from_slice(&(times.took.as_nanos() as u64).to_le_bytes());
    head.extend_from_slice(&times.sum.to_le_bytes());
    head.extend_from_slice(&times.squares.to_le_bytes());
    head.extend_from_slice(&0u64.to_le_bytes());
    if !failures.is_empty() {
        let list = wire::to_bytes(&failures)?;
        let at = FRAME_HEADER + DONE - 8;
        head[at..at + 8].copy_from_slice(&(list.len() as u64).to_le_bytes());
        head.extend_from_slice(&list);
    }
    let mut parts = Vec::new();
    codec.encode(results, &mut head, &mut parts)?;
    Ok(Frame { head: head.into(), parts })
}

/// The number of the chunk whose result this is.
pub(crate) fn done_id(body: &Bytes) -> Result<u64> {
    Fields::of::<DONE>(body, "a result").map(|at| at.u64(0))
}

/// Reads a result's header; its results are still as their codec wrote them.
pub(crate) fn read_done(body: Bytes, parts: Vec<Part>) -> Result<(Done, Load)> {
    let at = Fields::of::<DONE>(&body, "a result")?;
    let listed = usize::try_from(at.u64(44)).unwrap_or(usize::MAX);
    let end =
        listed.checked_add(DONE).filter(|&end| end <= body.len()).ok_or_else(|| torn("a result", &body))?;
    let count = at.u32(16);
    let failures: Vec<Failure> = if listed == 0 { Vec::new() } else { wire::from_bytes(&body[DONE..end])? };
    if !failures.is_sorted_by(|a, b| a.place < b.place) || failures.last().is_some_and(|f| f.place >= count) {
        return Err(Error::new(ErrorKind::Wire, "the failed tasks of a result are not in order"));
    }
    let times = Times {
        took: Duration::from_nanos(at.u64(20)),
        sum: f64::from_bits(at.u64(28)),
        squares: f64::from_bits(at.u64(36)),
    };
    let done = Done { id: at.u64(0), first: at.u64(8), count, failures, times };
    Ok((done, Load { head: body.slice(end..), parts }))
}

/// The numbers of a header.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn of<const N: usize>(body: &'a Bytes, what: &str) -> Result<Self> {
        body.first_chunk::<N>().map(|header| Fields(header)).ok_or_else(|| torn(what, body))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from(self.u32(at)) | u64::from(self.u32(at + 4)) << 32
    }
}

fn torn(what: &str, body: &Bytes) -> Error {
    Error::new(ErrorKind::Wire, format!("the header of {what} is cut short at {} bytes", body.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Giving = Giving { id: 3, first: 40, count: 5, attempt: 1, careful: true, alone: false };

    #[test]
    fn a_chunk_and_its_result_survive_their_journeys() {
        let codec = Codec::<u64>::of_type();
        let (message, kept) = give(7, SOME, &codec, vec![1, 2, 3, 4, 5]).unwrap();
        let (giving, load) = given(message.head.slice(FRAME_HEADER..), message.parts).unwrap();
        assert_eq!(giving, SOME);
        for load in [load, kept] {
            assert_eq!(codec.decode(load.head, load.parts, 5).unwrap(), [1, 2, 3, 4, 5]);
        }
        let alone = Giving { careful: false, alone: true, ..SOME };
        let (message, _) = give(7, alone, &codec, vec![1, 2, 3, 4, 5]).unwrap();
        assert_eq!(given(message.head.slice(FRAME_HEADER..), message.parts).unwrap().0, alone);
        let failures = vec![Failure { place: 1, panicked: true, message: "no".into() }];
        let times = Times { took: Duration::from_nanos(12), sum: 1.5, squares: 0.25 };
        let sheet =
            Sheet { results: vec![1u64, 3, 4, 5], failures: failures.clone(), sum: 0.0, squares: 0.0 };
        let message = done(7, SOME, &codec, sheet, times).unwrap();
        let (read, load) = read_done(message.head.slice(FRAME_HEADER..), message.parts).unwrap();
        assert_eq!((read.id, read.first, read.count, read.times), (3, 40, 5, times));
        assert_eq!(read.failures, failures);
        assert_eq!(codec.decode(load.head, load.parts, 4).unwrap(), [1, 3, 4, 5]);
    }

    #[test]
    fn hostile_headers_are_errors() {
        let zeros = vec![0u8; DONE];
        assert!(read_done(zeros.clone().into(), vec![]).is_ok());
        for cut in 0..DONE {
            assert!(read_done(zeros[..cut].to_vec().into(), vec![]).is_err());
        }
        for cut in 0..GIVING {
            assert!(given(zeros[..cut].to_vec().into(), vec![]).is_err());
        }
        let mut long = zeros.clone();
        long[44..52].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(read_done(long.into(), vec![]).is_err(), "more failures than bytes");
        let outside = vec![Failure { place: 0, panicked: false, message: String::new() }];
        let list = wire::to_bytes(&outside).unwrap();
        let mut wrong = zeros;
        wrong[44..52].copy_from_slice(&(list.len() as u64).to_le_bytes());
        wrong.extend_from_slice(&list);
        assert!(read_done(wrong.into(), vec![]).is_err(), "task 0 of none");
    }
}
