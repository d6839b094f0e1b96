//! A batch as it lies on the wire: a header of its own behind the message's, the places of dropped items, the items.

use std::mem::offset_of;
use std::time::Duration;

use bytes::Bytes;

use super::Tag;
use crate::comm::Part;
use crate::comm::message::{FRAME_HEADER, TAG_AT, Tagged, frame_header};
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::erased::{Codec, Range};
use crate::pipeline::machine::batch::{Batch, Payload};
use crate::wire::header::header;

header! {
    /// Behind the message's own header, before the places of dropped items.
    struct Header {
        epoch: u32, stage: u32, number: u64,
        first: u64, count: u32,
        /// How many places follow.
        dropped: u32,
        /// Nanoseconds.
        service: u64, widest: u64,
        /// When the message was sent: nanoseconds by the sender's clock, 0 if that does not matter.
        sent: u64,
        /// [`UNKNOWN`] where nobody knows.
        behind: u64,
    }
}

/// Bytes of the place of a dropped item.
const PLACE: usize = size_of::<u32>();
/// For a stream whose length is not known.
const UNKNOWN: u64 = u64::MAX;

/// Writes into a message's head, message header included, that it is `sent` now, if it is a batch's.
pub(crate) fn stamp(head: &mut [u8], sent: Duration) {
    if head.get(TAG_AT) == Some(&Tag::Batch.byte())
        && let Some(place) = head.get_mut(FRAME_HEADER + offset_of!(Header, sent)..)
        && let Some(place) = place.first_chunk_mut()
    {
        *place = (sent.as_nanos() as u64).max(1).to_le_bytes();
    }
}

/// When a batch was sent, by its sender's clock, if it was stamped.
pub(crate) fn sent(body: &[u8]) -> Option<Duration> {
    let stamp = u64::from_le_bytes(*body.get(offset_of!(Header, sent)..)?.first_chunk()?);
    (stamp > 0).then(|| Duration::from_nanos(stamp))
}

impl Batch {
    /// The batch as head and parts of a message, and how many bytes these have.
    pub(crate) fn pack(self, run: u32, epoch: u32, codec: &dyn Codec) -> Result<(Vec<u8>, Vec<Part>, u64)> {
        let Batch { number, stage, range, service, widest, behind, payload } = self;
        let mut head = Vec::with_capacity(256);
        head.extend_from_slice(&frame_header(run, Tag::Batch));
        let mut header = Header {
            epoch,
            stage: stage as u32,
            number,
            first: range.first,
            count: range.count,
            dropped: range.dropped.len() as u32,
            service: service.as_nanos() as u64,
            widest,
            sent: 0,
            behind: behind.unwrap_or(UNKNOWN),
        };
        head.extend_from_slice(&header.to_bytes());
        for place in &range.dropped {
            head.extend_from_slice(&place.to_le_bytes());
        }
        let mut parts = Vec::new();
        match payload {
            Payload::Items(items) => {
                codec.encode(items, &mut head, &mut parts).map_err(|e| range.blame(e))?;
            }
            Payload::Bytes { head: bytes, parts: ready } => {
                head.extend_from_slice(&bytes);
                parts = ready;
            }
        }
        let bytes = (head.len() + parts.iter().map(Part::len).sum::<usize>()) as u64;
        header.widest = widest.max(bytes);
        head[FRAME_HEADER..FRAME_HEADER + Header::SIZE].copy_from_slice(&header.to_bytes());
        Ok((head, parts, bytes))
    }

    /// Reads the header of a batch's body; returns epoch and batch.
    pub(crate) fn unpack(body: Bytes, parts: Vec<Part>) -> Result<(u32, Batch)> {
        let short =
            || Error::new(ErrorKind::Wire, format!("a batch's header is cut short at {} bytes", body.len()));
        let header = Header::read(&body).ok_or_else(short)?;
        let (first, count, gone) = (header.first, header.count, header.dropped as usize);
        let end = gone.checked_mul(PLACE).and_then(|n| n.checked_add(Header::SIZE)).ok_or_else(short)?;
        let places = body.get(Header::SIZE..end).ok_or_else(short)?;
        let dropped: Vec<u32> =
            places.as_chunks::<PLACE>().0.iter().map(|&place| u32::from_le_bytes(place)).collect();
        if !dropped.is_sorted_by(|a, b| a < b) || dropped.last().is_some_and(|&last| last >= count) {
            return Err(Error::new(ErrorKind::Wire, "a batch's list of dropped items is not in order"));
        }
        let batch = Batch {
            number: header.number,
            stage: header.stage as usize,
            range: Range { first, count, dropped },
            service: Duration::from_nanos(header.service),
            widest: header.widest,
            behind: Some(header.behind).filter(|&items| items != UNKNOWN),
            payload: Payload::Bytes { head: body.slice(end..), parts },
        };
        Ok((header.epoch, batch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;

    #[test]
    fn a_batch_survives_its_journey() {
        let codec: &dyn Codec = &wire::Codec::<u64>::of_type();
        let range = Range { first: 40, count: 5, dropped: vec![1, 4] };
        let batch = Batch {
            number: 7,
            stage: 1,
            range: range.clone(),
            service: Duration::from_nanos(1234),
            widest: 9,
            behind: Some(11),
            payload: Payload::Items(Box::new(vec![1u64, 2, 3])),
        };
        let (mut head, parts, bytes) = batch.pack(3, 2, codec).unwrap();
        assert_eq!(sent(&head[FRAME_HEADER..]), None);
        stamp(&mut head, Duration::from_nanos(u64::MAX));
        let body = Bytes::from(head).slice(FRAME_HEADER..);
        assert_eq!(sent(&body), Some(Duration::from_nanos(u64::MAX)));
        let (epoch, batch) = Batch::unpack(body, parts).unwrap();
        assert_eq!((epoch, batch.stage, batch.number), (2, 1, 7));
        assert_eq!(
            (batch.range.clone(), batch.service, batch.widest, batch.behind),
            (range, Duration::from_nanos(1234), bytes, Some(11))
        );
        let Payload::Bytes { head, parts } = batch.payload else { panic!("bytes came in") };
        let items = codec.decode(head, parts, 3).unwrap();
        assert_eq!(*items.downcast_ref::<Vec<u64>>().unwrap(), [1, 2, 3]);
    }

    #[test]
    fn hostile_headers_are_errors() {
        let mut good = vec![0u8; Header::SIZE];
        good[offset_of!(Header, count)] = 2;
        assert!(Batch::unpack(good.clone().into(), vec![]).is_ok());
        for cut in 0..Header::SIZE {
            assert!(Batch::unpack(good[..cut].to_vec().into(), vec![]).is_err());
            assert_eq!(sent(&good[..cut]), None);
        }
        let mut many = good.clone();
        many[offset_of!(Header, dropped)..][..PLACE].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Batch::unpack(many.into(), vec![]).is_err(), "more dropped items than bytes");
        let mut outside = good;
        outside[offset_of!(Header, dropped)] = 1;
        outside.extend_from_slice(&2u32.to_le_bytes());
        assert!(Batch::unpack(outside.into(), vec![]).is_err(), "place 2 of 2 items");
    }
}
