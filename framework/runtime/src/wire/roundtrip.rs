//! What was sent comes back: every kind of item, every size class, with and without copies.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use proptest::{collection::vec, prelude::*};
use serde::{Deserialize, Serialize};

use super::{Codec, Item, OWN_PART, Plain, codec, raw};
use crate::error::ErrorKind;

/// A batch as a receiver gets it: behind a header of the caller's, in buffers that nobody else holds.
fn send<T: Item>(items: Vec<T>) -> (Bytes, Vec<Bytes>) {
    let mut head = b"header".to_vec();
    let mut parts = Vec::new();
    codec::encode(items, &mut head, &mut parts).unwrap();
    let parts = parts.into_iter().map(|part| Bytes::from(part.to_vec())).collect();
    (Bytes::from(head).split_off(6), parts)
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
            // Sizes around the border between inline and a part of its own.
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
    fn text(items in vec(any::<String>(), 0..20)) {
        there_and_back(&items);
    }

    #[test]
    fn buffers(items in vec(vec(any::<u8>(), 0..100), 0..20)) {
        there_and_back(&items.iter().map(|bytes| Bytes::from(bytes.clone())).collect::<Vec<_>>());
        there_and_back(&items.iter().map(|bytes| BytesMut::from(&bytes[..])).collect::<Vec<_>>());
    }

    #[test]
    fn structures(items in vec(image(), 0..10)) {
        there_and_back(&items);
    }

    #[test]
    fn plain_arrays(items in vec(any::<[u32; 32]>(), 0..10)) {
        there_and_back(&items.iter().copied().map(Plain).collect::<Vec<_>>());
        let plain = Codec::<[u32; 32]>::plain();
        let (mut head, mut parts) = (Vec::new(), Vec::new());
        plain.encode(items.clone(), &mut head, &mut parts).unwrap();
        prop_assert_eq!(plain.decode(head.into(), parts, items.len()).unwrap(), items);
    }
}

#[test]
fn nested_enums_come_back() {
    let leaf = Tree::Node { name: "b".into(), children: vec![Tree::Leaf(0.5), Tree::Missing] };
    there_and_back(&[Tree::Missing, Tree::Node { name: "a".into(), children: vec![leaf.clone(), leaf] }]);
}

#[test]
fn large_and_small_items_mix_in_one_batch() {
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
fn a_large_vector_of_bytes_is_not_copied_on_either_side() {
    let item = vec![9_u8; 1 << 20];
    let place = item.as_ptr();
    let (mut head, mut parts) = (Vec::new(), Vec::new());
    codec::encode(vec![item], &mut head, &mut parts).unwrap();
    assert_eq!((parts.len(), parts[0].as_ptr()), (1, place));
    let back = codec::decode::<Vec<u8>>(head.into(), parts, 1).unwrap();
    assert_eq!(back[0].as_ptr(), place);
}

#[test]
fn a_large_batch_of_numbers_is_not_copied_on_the_way_out() {
    let items: Vec<u64> = (0..100_000).collect();
    let place = items.as_ptr().cast::<u8>();
    let (mut head, mut parts) = (Vec::new(), Vec::new());
    codec::encode(items, &mut head, &mut parts).unwrap();
    assert_eq!((head.len(), parts.len(), parts[0].as_ptr()), (3, 1, place));
}

#[test]
fn small_buffers_are_slices_of_what_arrived() {
    let (head, parts) = send(vec![Bytes::from_static(b"one"), Bytes::from_static(b"two")]);
    let range = head.as_ptr_range();
    let items = codec::decode::<Bytes>(head, parts, 2).unwrap();
    assert!(items.iter().all(|item| range.contains(&item.as_ptr())));
}

#[test]
fn mutable_buffers_grow_together_again_without_a_copy() {
    let (head, parts) = send(vec![BytesMut::from(&[1_u8; 1024][..]); 64]);
    let range = head.as_ptr_range();
    let mut items = codec::decode::<BytesMut>(head, parts, 64).unwrap();
    assert!(items.iter().all(|item| range.contains(&item.as_ptr())), "decoding copied");
    items[5][0] = 77;
    let first = items[0].as_ptr();
    let (mut head, mut parts) = (Vec::new(), Vec::new());
    codec::encode(items, &mut head, &mut parts).unwrap();
    assert_eq!((parts.len(), parts[0].as_ptr(), parts[0].len()), (1, first, 64 * 1024));
    let again = codec::decode::<BytesMut>(head.into(), parts, 64).unwrap();
    assert_eq!((again[5][0], again[6][0]), (77, 1));
}

#[test]
fn a_batch_of_another_type_is_refused_with_both_names() {
    let (head, parts) = send(vec![1_u64, 2]);
    let error = codec::decode::<f64>(head, parts, 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Wire);
    assert!(error.message().contains("expected a batch of f64, got one of u64"), "{error}");

    let (head, parts) = send(vec![(1_u8, 2_u8)]);
    let error = codec::decode::<(u8, i8)>(head, parts, 1).unwrap_err();
    assert!(error.message().contains("another type"), "{error}");

    let (head, parts) = send(vec![[1_u32; 3]]);
    let error = Codec::<[u32; 3]>::plain().decode(head, parts, 1).unwrap_err();
    assert!(error.message().contains("got one of values encoded by serde"), "{error}");
}
