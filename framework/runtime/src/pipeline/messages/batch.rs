//! Encoding of a pipeline's batch in a message: the header of the message, the header of the batch, a header for each expanding stage (one that makes
//! several items from one) that the batch has passed, then either the positions of dropped items, the number of items made from each source item, or
//! the states of stages, and finally the items.

use std::time::Duration;

use super::{Arrived, Tag};
use crate::comm::message::{Body, FRAME_HEADER, Take, frame};
use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::erased::Codec;
use crate::pipeline::machine::batch::{Batch, BatchKind, ExpansionPiece, Payload, SavedStage};
use crate::pipeline::machine::sequence_number::SequenceNumber;
use crate::pipeline::produced_counts::{ProducedCounts, Run};
use crate::pipeline::range::Range;
use crate::wire::header::header;

header! {
    /// Header of a batch, which follows the header of the message and precedes the [`PieceHeader`]s.
    struct Header {
        epoch: u32, stage: u16,
        /// Number of [`PieceHeader`]s that follow, one for each expanding stage (one that makes several items from one) that the batch has passed.
        pieces: u8,
        /// Combination of the flags [`MADE`], [`END`] and [`MARKER`].
        flags: u8,
        number: u64,
        first: u64, count: u32,
        /// Number of entries that follow the [`PieceHeader`]s: positions of dropped items, [`RunHeader`]s, or [`StateHeader`]s.
        places: u32,
        /// Time in nanoseconds that stages have spent on the batch so far.
        service: u64, widest: u64,
        /// Time of sending by the sender's clock, in nanoseconds; 0 if the links between ranks are not measured.
        sent: u64,
        /// Number of source items that follow the batch; [`UNKNOWN`] if the length of the source is not known.
        behind: u64,
    }
}

header! {
    struct PieceHeader { at: u64, items: u32, is_last: u8 }
}

header! {
    struct StateHeader { stage: u32, bytes: u64 }
}

header! {
    struct RunHeader { place: u32, places: u32, items: u32 }
}

/// Flag of a batch that has passed a stage that makes several items from one: the entries after the [`PieceHeader`]s are [`RunHeader`]s, with the
/// number of items that were made from each source item.
const MADE: u8 = 1;
const END: u8 = 2;
/// Flag of the marker of a snapshot, a batch without items that collects states of stages: the entries after the [`PieceHeader`]s are
/// [`StateHeader`]s, and the states follow them.
const MARKER: u8 = 4;
const PLACE: usize = size_of::<u32>();
const UNKNOWN: u64 = u64::MAX;

impl Batch {
    /// Encodes the batch as a message. `sent` is called after the items have been encoded, and returns the time of sending, if the message needs one.
    pub(crate) fn pack(
        self,
        (run, epoch): (u32, u32),
        codec: &dyn Codec,
        sent: impl FnOnce() -> Option<Duration>,
    ) -> Result<Frame> {
        let Batch { number, pieces, kind, stage, range, service, widest, behind, payload } = self;
        let too_many = |what: &str| Error::new(ErrorKind::Config, format!("a pipeline has too many {what}"));
        let stage = u16::try_from(stage).map_err(|_| too_many("stages"))?;
        let states = kind.states();
        let produced = range.produced.as_ref().map(ProducedCounts::runs).filter(|_| states.is_none());
        let mut header = Header {
            epoch,
            stage,
            pieces: u8::try_from(pieces.len()).map_err(|_| too_many("expanding stages"))?,
            flags: if produced.is_some() { MADE } else { 0 } | kind.flag(),
            number: number.batch,
            first: range.first,
            count: range.count,
            places: match states {
                Some(states) => states.len(),
                None => produced.map_or(range.dropped.len(), <[Run]>::len),
            } as u32,
            service: service.as_nanos() as u64,
            widest,
            sent: 0,
            behind: behind.unwrap_or(UNKNOWN),
        };
        frame(run, Tag::Batch, 256, |head, parts| {
            head.extend_from_slice(&header.to_bytes());
            for (&at, piece) in number.pieces.iter().zip(&pieces) {
                let header = PieceHeader { at, items: piece.items, is_last: piece.is_last.into() };
                head.extend_from_slice(&header.to_bytes());
            }
            for &Run { place, places, items } in produced.into_iter().flatten() {
                head.extend_from_slice(&RunHeader { place, places, items }.to_bytes());
            }
            for place in &range.dropped {
                head.extend_from_slice(&place.to_le_bytes());
            }
            for SavedStage { stage, state } in states.into_iter().flatten() {
                let header = StateHeader { stage: *stage, bytes: state.len() as u64 };
                head.extend_from_slice(&header.to_bytes());
            }
            states.into_iter().flatten().for_each(|saved| head.extend_from_slice(&saved.state));
            match payload {
                Payload::Items(items) => codec.encode(items, head, parts).map_err(|e| range.blame(e))?,
                Payload::Bytes { head: bytes, parts: ready } => {
                    head.extend_from_slice(&bytes);
                    *parts = ready;
                }
                Payload::Kept { .. } => {
                    let text = format!("batch {number} is still held by its stage and cannot be sent");
                    return Err(Error::new(ErrorKind::Wire, text));
                }
            }
            let bytes = (head.len() + parts.iter().map(Part::len).sum::<usize>()) as u64;
            header.widest = widest.max(bytes);
            header.sent = sent().map_or(0, |sent| (sent.as_nanos() as u64).max(1));
            head[FRAME_HEADER..FRAME_HEADER + Header::SIZE].copy_from_slice(&header.to_bytes());
            Ok(())
        })
    }
}

impl BatchKind {
    fn flag(&self) -> u8 {
        match self {
            BatchKind::Items => 0,
            BatchKind::End => END,
            BatchKind::Marker(_) => MARKER,
        }
    }

    /// Returns the stage states that the marker of a snapshot (a batch without items) has collected; `None` for other batches.
    fn states(&self) -> Option<&[SavedStage]> {
        if let BatchKind::Marker(states) = self { Some(states) } else { None }
    }
}

impl Take for Arrived {
    fn take(body: &mut Body) -> Result<Self> {
        let bytes = body.head.len() + body.parts.iter().map(Part::len).sum::<usize>();
        let header = body.header(Header::SIZE, Header::read)?;
        let (first, count, places) = (header.first, header.count, header.places as usize);
        let mut number = SequenceNumber::from(header.number);
        let mut pieces = Vec::new();
        let levels = body.list(header.pieces.into(), PieceHeader::SIZE, PieceHeader::read)?;
        for PieceHeader { at, items, is_last } in levels {
            number.pieces.push(at);
            pieces.push(ExpansionPiece { is_last: is_last != 0, items });
        }
        let mut range = Range::new(first, count);
        let mut kind = if header.flags & END != 0 { BatchKind::End } else { BatchKind::Items };
        if header.flags & MARKER != 0 {
            let states: Vec<StateHeader> = body.list(places, StateHeader::SIZE, StateHeader::read)?.collect();
            let state = |StateHeader { stage, bytes }| {
                let size = usize::try_from(bytes).unwrap_or(usize::MAX);
                let state = body.header(size, |head| head.get(..size).map(<[u8]>::to_vec))?;
                Ok(SavedStage { stage, state })
            };
            kind = BatchKind::Marker(states.into_iter().map(state).collect::<Result<_>>()?);
            range.produced = (!number.pieces.is_empty()).then(ProducedCounts::default);
        } else if header.flags & MADE != 0 {
            let run = |RunHeader { place, places, items }| Run { place, places, items };
            let runs = body.list(places, RunHeader::SIZE, RunHeader::read)?;
            range.produced = Some(ProducedCounts::of_runs(runs.map(run)));
        } else {
            let place = |place: &[u8]| place.first_chunk().copied().map(u32::from_le_bytes);
            range.dropped = body.list(places, PLACE, place)?.collect();
        }
        if range.produced.as_ref().is_some_and(|produced| !produced.is_in_order(count)) {
            return Err(body.error("its list of produced items is not in ascending order"));
        }
        let dropped = &range.dropped;
        if !dropped.is_sorted_by(|a, b| a < b) || dropped.last().is_some_and(|&last| last >= count) {
            return Err(body.error("its list of dropped items is not in ascending order"));
        }
        let (head, parts) = body.rest();
        let batch = Batch {
            number,
            pieces,
            kind,
            stage: header.stage.into(),
            range,
            service: Duration::from_nanos(header.service),
            widest: header.widest,
            behind: Some(header.behind).filter(|&items| items != UNKNOWN),
            payload: Payload::Bytes { head, parts },
        };
        let sent = Some(header.sent).filter(|&sent| sent > 0).map(Duration::from_nanos);
        Ok(Arrived { epoch: header.epoch, batch, bytes, sent })
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::super::StreamMessage;
    use super::*;
    use crate::comm::message::{Message, Tagged, received};
    use crate::wire;

    fn decoded(message: Message) -> Result<Arrived> {
        match StreamMessage::decode(message)? {
            StreamMessage::Batch(arrived) => Ok(arrived),
            other => panic!("{other:?} is no batch"),
        }
    }

    #[test]
    fn batch_message_round_trips() {
        let codec: &dyn Codec = &wire::Codec::<u64>::of_type();
        let range = Range { dropped: vec![1, 4], ..Range::new(40, 5) };
        let last = Duration::from_nanos(u64::MAX);
        let batch = Batch {
            number: 7.into(),
            pieces: Vec::new(),
            kind: BatchKind::Items,
            stage: 1,
            range: range.clone(),
            service: Duration::from_nanos(1234),
            widest: 9,
            behind: Some(11),
            payload: Payload::Items(Box::new(vec![1u64, 2, 3])),
        };
        let frame = batch.pack((3, 2), codec, || Some(last)).unwrap();
        let bytes = frame.len() as u64;
        let Arrived { epoch, batch, sent, bytes: arrived } = decoded(received(1, frame)).unwrap();
        assert_eq!((sent, arrived), (Some(last), bytes as usize - FRAME_HEADER));
        assert_eq!((epoch, batch.stage, batch.number), (2, 1, 7.into()));
        assert_eq!(
            (batch.range.clone(), batch.service, batch.widest, batch.behind),
            (range, Duration::from_nanos(1234), bytes, Some(11))
        );
        let Payload::Bytes { head, parts } = batch.payload else { panic!("bytes came in") };
        let items = codec.decode(head, parts, 3).unwrap();
        assert_eq!(*items.downcast_ref::<Vec<u64>>().unwrap(), [1, 2, 3]);
    }

    #[test]
    fn nested_piece_message_round_trips() {
        let codec: &dyn Codec = &wire::Codec::<u64>::of_type();
        let run = |place, items| Run { place, places: 1, items };
        let produced = ProducedCounts::of_runs([run(3, 2), run(7, 1)].into_iter());
        let pieces = vec![
            ExpansionPiece { is_last: false, items: 70_000 },
            ExpansionPiece { is_last: true, items: 4 },
        ];
        let batch = Batch {
            number: SequenceNumber::from(7).piece(300).piece(0),
            pieces: pieces.clone(),
            kind: BatchKind::End,
            stage: 2,
            range: Range { produced: Some(produced), ..Range::new(40, 8) },
            service: Duration::ZERO,
            widest: 0,
            behind: None,
            payload: Payload::Items(Box::new(vec![1u64, 2, 3])),
        };
        let (number, range) = (batch.number.clone(), batch.range.clone());
        let frame = batch.pack((3, 2), codec, || None).unwrap();
        let Arrived { batch, sent, .. } = decoded(received(1, frame)).unwrap();
        assert_eq!(sent, None);
        assert_eq!(
            (batch.number.clone(), batch.range.clone(), batch.kind.clone()),
            (number, range, BatchKind::End)
        );
        assert_eq!((batch.pieces.clone(), batch.following().to_string()), (pieces, "7.301.0".to_string()));
        let Payload::Bytes { head, parts } = batch.payload else { panic!("bytes came in") };
        let items = codec.decode(head, parts, 3).unwrap();
        assert_eq!(*items.downcast_ref::<Vec<u64>>().unwrap(), [1, 2, 3]);
    }

    #[test]
    fn marker_message_round_trips() {
        let codec: &dyn Codec = &wire::Codec::<u64>::of_type();
        let states = |stage: u32| SavedStage { stage, state: vec![stage as u8; stage as usize] };
        for number in [SequenceNumber::from(7), SequenceNumber::from(7).piece(0)] {
            let levels = number.pieces.len();
            let produced = (levels > 0).then(ProducedCounts::default);
            let batch = Batch {
                number,
                pieces: vec![ExpansionPiece { is_last: true, items: 0 }; levels],
                kind: BatchKind::Marker(vec![states(0), states(3)]),
                stage: 4,
                range: Range { produced, ..Range::new(40, 0) },
                service: Duration::from_nanos(5),
                widest: 0,
                behind: None,
                payload: Payload::Items(Box::new(Vec::<u64>::new())),
            };
            let (kind, range) = (batch.kind.clone(), batch.range.clone());
            let frame = batch.pack((3, 2), codec, || None).unwrap();
            let Arrived { batch, .. } = decoded(received(1, frame)).unwrap();
            assert_eq!((&batch.kind, &batch.range), (&kind, &range));
            let Payload::Bytes { head, parts } = batch.payload else { panic!("bytes came in") };
            assert_eq!(codec.decode(head, parts, 0).unwrap().len(), 0);
        }
    }

    #[test]
    fn hostile_headers_are_errors() {
        let mut good = vec![0u8; Header::SIZE];
        good[offset_of!(Header, count)] = 2;
        let unpack = |body: Vec<u8>| {
            decoded(Message { from: 1, code: Tag::Batch.byte(), body: body.into(), parts: vec![] })
        };
        assert!(unpack(good.clone()).is_ok());
        for cut in 0..Header::SIZE {
            assert!(unpack(good[..cut].to_vec()).is_err());
        }
        let mut many = good.clone();
        many[offset_of!(Header, places)..][..PLACE].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(unpack(many).is_err(), "more dropped items than bytes");
        let mut deep = good.clone();
        deep[offset_of!(Header, pieces)] = 3;
        assert!(unpack(deep).is_err(), "a piece of pieces that are not there");
        let mut produced = good.clone();
        (produced[offset_of!(Header, flags)], produced[offset_of!(Header, places)]) = (MADE, 1);
        produced.extend_from_slice(&[0; PLACE]);
        assert!(unpack(produced).is_err(), "how many items are for a place is not there");
        let mut saved = good.clone();
        (saved[offset_of!(Header, flags)], saved[offset_of!(Header, places)]) = (MARKER, 1);
        saved.extend_from_slice(&StateHeader { stage: 0, bytes: u64::MAX }.to_bytes());
        assert!(unpack(saved).is_err(), "a state that is not there");
        let mut outside = good;
        outside[offset_of!(Header, places)] = 1;
        outside.extend_from_slice(&2u32.to_le_bytes());
        assert!(unpack(outside).is_err(), "place 2 of 2 items");
    }
}
