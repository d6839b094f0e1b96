//! Tests that decoded items equal the encoded ones: every kind of item, every size class, sent with and without a copy of their memory.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use proptest::{collection::vec, prelude::*};
use serde::{Deserialize, Serialize};

use super::{Codec, Item, OWN_PART, Plain, codec, raw};
use crate::comm::Part;
use crate::error::ErrorKind;

/// Encodes a batch and returns it in the form in which a receiver gets it. The batch is written to a buffer that already contains other bytes, as in
/// a message, and each buffer has only one owner.
fn send<T: Item>(items: Vec<T>) -> (Bytes, Vec<Part>) {
    let mut head = b"header".to_vec();
    let mut parts = Vec::new();
    codec::encode(items, &mut head, &mut parts).unwrap();
    (Bytes::from(head).split_off(6), parts.iter().map(landed).collect())
}

/// Returns a part of a message (memory that is sent separately) as a receiver gets it from a transport between processes: in other memory.
fn landed(part: &Part) -> Part {
    match part {
        Part::Bytes(bytes) => Part::Bytes(bytes.to_vec().into()),
        words => words.clone(),
    }
}

fn there_and_back<T: Item + Clone + PartialEq + std::fmt::Debug>(items: &[T]) {
    let (head, parts) = send(items.to_vec());
    assert_eq!(codec::decode::<T>(head, parts, items.len()).unwrap(), items);
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Tree {
    Leaf(f32),
    Node { name: String, children: Vec<Tree> },
    Missing,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Image {
    width: u32,
    name: Option<String>,
    #[serde(with = "raw")]
    pixels: Vec<f32>,
    tags: BTreeMap<String, Vec<u8>>,
    corner: (i8, char, [u16; 3]),
}

fn image() -> impl Strategy<Value = Image> {
    (any::<u32>(), any::<Option<String>>(), vec(-1e9_f32..1e9, 0..50), any::<(i8, char, [u16; 3])>())
        .prop_map(|(width, name, pixels, corner)| {
            let tags = BTreeMap::from([(format!("{width}"), vec![7; pixels.len()])]);
            Image { width, name, pixels, tags, corner }
        })
}

macro_rules! scalars_round_trip {
    ($($scalar:ident)*) => {$(
        #[test]
        fn $scalar() {
            proptest!(|(items in vec(any::<$scalar>(), 0..200), lists in vec(vec(any::<$scalar>(), 0..20), 0..20))| {
                there_and_back(&items);
                there_and_back(&lists);
            });
            // The tested lengths are around the limit above which a vector's memory is sent as a separate part of the message.
            let border = OWN_PART / size_of::<$scalar>();
            for count in [border - 1, border, border + 1] {
                let items = vec![<$scalar>::default(); count];
                there_and_back(&items);
                there_and_back(&[items.clone(), Vec::new(), items]);
            }
        }
    )*};
}

mod scalars {
    use super::*;
    scalars_round_trip!(u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 usize isize f32 f64 bool char);
}

proptest! {
    #[test]
    fn text_round_trips(items in vec(any::<String>(), 0..20)) {
        there_and_back(&items);
    }

    #[test]
    fn buffers_round_trip(items in vec(vec(any::<u8>(), 0..100), 0..20)) {
        there_and_back(&items.iter().map(|bytes| Bytes::from(bytes.clone())).collect::<Vec<_>>());
        there_and_back(&items.iter().map(|bytes| BytesMut::from(&bytes[..])).collect::<Vec<_>>());
    }

    #[test]
    fn structures_round_trip(items in vec(image(), 0..10)) {
        there_and_back(&items);
    }

    #[test]
    fn plain_arrays_round_trip(items in vec(any::<[u32; 32]>(), 0..10)) {
        there_and_back(&items.iter().copied().map(Plain).collect::<Vec<_>>());
        let plain = Codec::<[u32; 32]>::plain();
        let (mut head, mut parts) = (Vec::new(), Vec::new());
        plain.encode(items.clone(), &mut head, &mut parts).unwrap();
        prop_assert_eq!(plain.decode(head.into(), parts, items.len()).unwrap(), items);
    }
}

#[test]
fn nested_enums_round_trip() {
    let leaf = Tree::Node { name: "b".into(), children: vec![Tree::Leaf(0.5), Tree::Missing] };
    there_and_back(&[Tree::Missing, Tree::Node { name: "a".into(), children: vec![leaf.clone(), leaf] }]);
}

#[test]
fn large_and_small_items_share_a_batch() {
    let large = vec![3_u8; OWN_PART];
    there_and_back(&[vec![1], large.clone(), vec![], vec![2; OWN_PART - 1], large.clone()]);
    there_and_back(&["x".repeat(OWN_PART + 1), String::new(), "ünï".into()]);
    there_and_back(&[Bytes::from(large.clone()), Bytes::from_static(b"small")]);
    there_and_back(&[BytesMut::from("small"), BytesMut::from(&large[..])]);
}

#[test]
fn items_without_bytes_are_counted() {
    there_and_back(&[(); 1000]);
    there_and_back(&[None::<()>, Some(())]);
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Scratch(#[serde(skip)] u64);
    there_and_back(&[Scratch(0), Scratch(0)]);
    let nothing: [Tree; 0] = [];
    there_and_back(&nothing);
}

#[test]
fn large_byte_vector_is_not_copied() {
    let item = vec![9_u8; 1 << 20];
    let place = item.as_ptr();
    let (mut head, mut parts) = (Vec::new(), Vec::new());
    codec::encode(vec![item], &mut head, &mut parts).unwrap();
    assert_eq!((parts.len(), parts[0].bytes().as_ptr()), (1, place));
    let back = codec::decode::<Vec<u8>>(head.into(), parts, 1).unwrap();
    assert_eq!(back[0].as_ptr(), place);
}

/// Returns the addresses of the first value before a batch is encoded and after it is decoded. Equal addresses show that no step has copied the
/// values.
fn places<T: Item>(codec: Codec<T>, items: Vec<T>) -> (*const u8, *const u8) {
    let (count, before) = (items.len(), items.as_ptr().cast());
    let (mut head, mut parts) = (Vec::new(), Vec::new());
    codec.encode(items, &mut head, &mut parts).unwrap();
    assert_eq!((parts.len(), parts[0].bytes().as_ptr()), (1, before), "copied on the way out");
    let after = codec.decode(head.into(), parts, count).unwrap();
    (before, after.as_ptr().cast())
}

macro_rules! large_batches_stay_in_place {
    ($($scalar:ident)*) => {$({
        let many = vec![<$scalar>::default(); OWN_PART / size_of::<$scalar>()];
        let (before, after) = places(Codec::of_type(), many.clone());
        assert_eq!(before, after, "a batch of {}", stringify!($scalar));

        let before = many.as_ptr();
        let (mut head, mut parts) = (Vec::new(), Vec::new());
        codec::encode(vec![vec![<$scalar>::default()], many], &mut head, &mut parts).unwrap();
        assert_eq!((parts.len(), parts[0].bytes().as_ptr()), (1, before.cast()));
        let back = codec::decode::<Vec<$scalar>>(head.into(), parts, 2).unwrap();
        assert_eq!(back[1].as_ptr(), before, "a Vec of {}", stringify!($scalar));
    })*};
}

#[test]
fn bulk_numbers_are_not_copied() {
    large_batches_stay_in_place!(u8 i8 u32 i32 u64 i64 usize isize f32 f64);
}

#[test]
fn bulk_characters_are_validated_without_a_copy() {
    let (before, after) = places(Codec::of_type(), vec!['\u{10ffff}'; OWN_PART / 4]);
    assert_eq!(before, after);
    let (head, _) = send(vec!['x'; OWN_PART / 4]);
    let mut words = vec![0x78_u32; OWN_PART / 4];
    words[5] = 0xD800;
    let error = codec::decode::<char>(head, vec![Part::of(words)], OWN_PART / 4).unwrap_err();
    assert!(error.message().contains("some of its bits are not a value"), "{error}");
}

#[test]
fn bulk_plain_old_data_is_not_copied() {
    fn stays<T: bytemuck::Pod + Item>() {
        let (before, after) = places(Codec::<T>::plain(), vec![T::zeroed(); OWN_PART]);
        assert_eq!(before, after, "{}", std::any::type_name::<T>());
    }
    stays::<[u8; 3]>();
    stays::<[f32; 3]>();
    stays::<[i64; 5]>();
    stays::<Plain<[u64; 128]>>();
}

#[test]
fn misaligned_numbers_are_copied() {
    // A codec must accept numbers in memory that is not aligned for them, although the framework never sends such memory as a part of a message.
    let count = OWN_PART / 8;
    let (head, _) = send(vec![7_u64; count]);
    for part in
        [Part::of([7_u32, 0].repeat(count)), Part::Bytes([7, 0, 0, 0, 0, 0, 0, 0].repeat(count).into())]
    {
        let part = if cfg!(target_endian = "little") { part } else { Part::of(vec![7_u64; count]) };
        assert_eq!(codec::decode::<u64>(head.clone(), vec![part], count).unwrap(), vec![7; count]);
    }
    let plain = Codec::<[u64; 2]>::plain();
    let (mut head, mut parts) = (Vec::new(), Vec::new());
    plain.encode(vec![[3, 4]; count], &mut head, &mut parts).unwrap();
    let bytes = Part::Bytes(parts.remove(0).into_bytes());
    assert_eq!(plain.decode(head.into(), vec![bytes], count).unwrap(), vec![[3, 4]; count]);
}

#[test]
fn small_buffers_are_slices_of_the_received_frame() {
    let (head, parts) = send(vec![Bytes::from_static(b"one"), Bytes::from_static(b"two")]);
    let range = head.as_ptr_range();
    let items = codec::decode::<Bytes>(head, parts, 2).unwrap();
    assert!(items.iter().all(|item| range.contains(&item.as_ptr())));
}

#[test]
fn mutable_buffers_are_rejoined_without_a_copy() {
    let (head, parts) = send(vec![BytesMut::from(&[1_u8; 1024][..]); 64]);
    let range = head.as_ptr_range();
    let mut items = codec::decode::<BytesMut>(head, parts, 64).unwrap();
    assert!(items.iter().all(|item| range.contains(&item.as_ptr())), "decoding copied");
    items[5][0] = 77;
    let first = items[0].as_ptr();
    let (mut head, mut parts) = (Vec::new(), Vec::new());
    codec::encode(items, &mut head, &mut parts).unwrap();
    assert_eq!((parts.len(), parts[0].bytes().as_ptr(), parts[0].len()), (1, first, 64 * 1024));
    let again = codec::decode::<BytesMut>(head.into(), parts, 64).unwrap();
    assert_eq!((again[5][0], again[6][0]), (77, 1));
}

#[test]
fn batch_of_another_type_is_refused_with_both_names() {
    let (head, parts) = send(vec![1_u64, 2]);
    let error = codec::decode::<f64>(head, parts, 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Wire);
    assert!(error.message().contains("expected a batch of f64, got one of u64"), "{error}");

    let (head, parts) = send(vec![(1_u8, 2_u8)]);
    let error = codec::decode::<(u8, i8)>(head, parts, 1).unwrap_err();
    assert!(error.message().contains("another item type"), "{error}");

    let (head, parts) = send(vec![[1_u32; 3]]);
    let error = Codec::<[u32; 3]>::plain().decode(head, parts, 1).unwrap_err();
    assert!(error.message().contains("got one of values encoded by serde"), "{error}");
}
