//! Tests of envelopes, which announce a message before its bulk data: valid envelopes are written and read, forged ones are refused.

use proptest::prelude::*;

use super::*;

const SLOT: usize = 256;
const LARGEST: u64 = 1 << 30;

/// Returns a part of a message that consists of `n` bytes or words; the contents differ for each `n`.
fn part(unit: Unit, n: usize) -> Part {
    match unit {
        Unit::Byte => bytes(n).into(),
        Unit::Word32 => Part::of((0..n as u32).map(|i| i << 16 | n as u32).collect()),
        Unit::Word64 => Part::of((0..n as u64).map(|i| i << 32 | n as u64).collect()),
    }
}

fn units() -> impl Strategy<Value = Unit> {
    prop_oneof![Just(Unit::Byte), Just(Unit::Word32), Just(Unit::Word64)]
}

fn bytes(n: usize) -> Bytes {
    (0..n).map(|i| (i * 7 + n) as u8).collect()
}

/// Returns the frame that a receiver builds from the MPI messages in `plan`, without MPI. For each part that follows as bulk data, also returns
/// whether it is received as bytes or as words of four or eight bytes.
fn arrive(plan: Plan) -> (Frame, Vec<Option<Unit>>) {
    let mut bulk = plan.bulk.into_iter();
    let envelope = match plan.kind {
        Kind::Head => return (Frame::new(plan.control), Vec::new()),
        Kind::Envelope => plan.control,
        Kind::Far => {
            let envelope = bulk.next().unwrap();
            assert_eq!(read_far(&plan.control).unwrap(), envelope.len());
            envelope
        }
    };
    let mut pieces = read(envelope, LARGEST).unwrap().into_iter().map(|piece| match piece {
        Announced::Here(bytes) => (bytes.into(), None),
        Announced::Bulk { length, unit } => {
            let bytes = bulk.next().unwrap();
            assert_eq!(bytes.len(), length);
            (Part::Bytes(bytes), Some(unit))
        }
    });
    let head = pieces.next().unwrap().0.into_bytes();
    let (parts, units) = pieces.by_ref().unzip();
    let message = Frame { head, parts };
    assert!(bulk.next().is_none());
    (message, units)
}

#[test]
fn small_head_is_its_own_control_message() {
    let head = bytes(SLOT);
    let plan = plan(Frame::new(head.clone()), SLOT).unwrap();
    assert_eq!((plan.kind, plan.bulk.len()), (Kind::Head, 0));
    assert_eq!(plan.control.as_ptr(), head.as_ptr(), "not copied");
}

#[test]
fn bulk_pieces_are_not_copied() {
    let part = bytes(INLINE + 1);
    let message = Frame { head: bytes(10), parts: vec![part.clone().into()] };
    let plan = plan(message, SLOT).unwrap();
    assert_eq!((plan.kind, plan.bulk.len()), (Kind::Envelope, 1));
    assert_eq!(plan.bulk[0].as_ptr(), part.as_ptr());
}

#[test]
fn tags_round_trip_and_wrap_below_the_guaranteed_bound() {
    let mut number = Number::default();
    for _ in 0..NUMBERS {
        for kind in [Kind::Head, Kind::Envelope, Kind::Far] {
            let tag = tag(kind, number);
            assert!((0..=32767).contains(&tag));
            assert_eq!(read_tag(tag).unwrap(), (kind, number));
        }
        number = number.next();
    }
    assert_eq!(number, Number::default());
    assert_eq!(read_tag(3).unwrap_err().kind(), ErrorKind::Wire);
    assert_eq!(read_tag(-4).unwrap_err().kind(), ErrorKind::Wire);
    assert_eq!(read_tag(1 << 15).unwrap_err().kind(), ErrorKind::Wire);
}

#[test]
fn invalid_envelopes_are_errors() {
    let words = |words: &[u64]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Bytes>();
    let absurd = [
        words(&[]),
        words(&[0]),
        words(&[1]),
        words(&[u64::MAX]),
        words(&[2, 0]),
        words(&[1, 1]),
        words(&[1, BULK]),
        words(&[1, u64::MAX]),
        words(&[1, BULK | LENGTH]),
        words(&[1, BULK | (LARGEST + 1)]),
        words(&[2, BULK | LARGEST, BULK | 1]),
        words(&[1, 0, 0]),
        // Each of these forged envelopes has one error: an unknown code of the word size, a head of words instead of bytes, bulk data that end
        // within a word (twice), and bulk data of no bytes.
        words(&[2, 0, BULK | 3 << UNIT_SHIFT | 8]),
        words(&[1, BULK | Unit::Word64.code() | 8]),
        words(&[2, 0, BULK | Unit::Word32.code() | 6]),
        words(&[2, 0, BULK | Unit::Word64.code() | 12]),
        words(&[2, 0, BULK | Unit::Word64.code()]),
        // In this forged envelope a part inside the envelope has a word size, which only bulk data may have.
        words(&[2, 0, Unit::Word64.code()]),
    ];
    for envelope in absurd {
        assert_eq!(read(envelope.clone(), LARGEST).unwrap_err().kind(), ErrorKind::Wire, "{envelope:?}");
    }
    for far in [&[][..], &[1; 7], &[0; 8], &[255; 8], &[1; 9]] {
        assert_eq!(read_far(far).unwrap_err().kind(), ErrorKind::Wire, "{far:?}");
    }
    let parts = vec![Bytes::new().into(); MOST_PARTS + 1];
    let many = Frame { head: Bytes::new(), parts };
    assert_eq!(plan(many, SLOT).unwrap_err().kind(), ErrorKind::Wire);
}

proptest! {
    #[test]
    fn planned_messages_round_trip(
        head in 0usize..6000,
        parts in prop::collection::vec((units(), 0usize..6000), 0..50),
    ) {
        let parts: Vec<Part> = parts.into_iter().map(|(unit, n)| part(unit, n)).collect();
        let message = Frame { head: bytes(head), parts };
        let plan = plan(message.clone(), SLOT).unwrap();
        prop_assert!(plan.control.len() <= SLOT);
        let (arrived, units) = arrive(plan);
        for (unit, part) in units.iter().zip(&message.parts) {
            prop_assert!(unit.is_none_or(|unit| unit == Unit::of(part)));
            prop_assert!(unit.is_some() || part.len() <= INLINE);
        }
        prop_assert_eq!(arrived, message);
    }

    #[test]
    fn any_bytes_decode_to_an_envelope_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let size = bytes.len();
        if let Ok(pieces) = read(bytes.into(), LARGEST) {
            prop_assert!(8 + 8 * pieces.len() <= size);
        }
    }
}
