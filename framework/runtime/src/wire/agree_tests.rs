//! Tests that types whose `Serialize` and `Deserialize` disagree are refused before a wrong value is read, and that
//! other types are accepted.

use std::collections::{BinaryHeap, HashMap, HashSet};
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use serde::de::Error as _;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Codec, Item, Named, codec};
use crate::error::ErrorKind;

#[track_caller]
fn refused<T: Item + Clone>(items: &[T], why: &[&str]) {
    let error = codec::encode(items.to_vec(), &mut Vec::new(), &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Wire, "{error}");
    for part in why.iter().chain(&[std::any::type_name::<T>(), "items travel without the names"]) {
        assert!(error.message().to_lowercase().contains(&part.to_lowercase()), "`{part}` is not in: {error}");
    }
}

/// Checks that items whose `Serialize` and `Deserialize` disagree are refused although they stay on their rank and are not encoded.
#[track_caller]
fn refused_at_home<T: Item>(items: &[T], why: &str) {
    let error = Codec::<T>::of_type().check(items).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Wire, "{error}");
    assert!(error.message().contains(why), "`{why}` is not in: {error}");
}

#[track_caller]
fn accepted<T: Item + Clone>(items: &[T]) {
    Codec::<T>::of_type().check(items).unwrap();
    let (mut head, mut parts) = (Vec::new(), Vec::new());
    codec::encode(items.to_vec(), &mut head, &mut parts).unwrap();
    assert_eq!(codec::decode::<T>(head.into(), parts, items.len()).unwrap().len(), items.len());
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Figure {
    Dot(u32),
    #[serde(skip)]
    #[allow(dead_code)]
    Cached(u32),
    Line(u32),
    Disc(u32),
}

#[test]
fn skipped_variant_before_others_is_detected() {
    for dots in [0, 1, 63, 1000, 5000] {
        let mut figures = vec![Figure::Dot(7); dots];
        figures.push(Figure::Line(1));
        let why = "`Figure::Line` (variant 2) is decoded as `Figure::Disc` (variant 3)";
        refused(&figures, &[why, "behind all others"]);
        refused(&[figures], &[why]);
    }
    refused(&[Figure::Disc(2)], &["the encoded value cannot be decoded"]);
    // In this enum a skipped variant follows `Dot`, so items with `Dot` are decoded correctly.
    codec::encode(vec![Figure::Dot(7); 9], &mut Vec::new(), &mut Vec::new()).unwrap();
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sparse {
    a: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    b: Option<u32>,
    c: u32,
}

#[test]
fn skipped_field_is_detected() {
    for full in [0, 1, 1000] {
        let mut items = vec![Sparse { a: 1, b: Some(2), c: 3 }; full];
        // `Sparse` omits its field `b` if that is `None`. `Deserialize` then reads the bytes of the next field as `b`.
        items.push(Sparse { a: 1, b: None, c: 1 });
        refused(&items, &["it writes `Sparse` without `b`, and the encoded value cannot be decoded"]);
        refused(&[Some(items)], &["without `b`"]);
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Half {
    a: u8,
    #[serde(skip_serializing)]
    #[allow(dead_code)]
    b: u8,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Flat {
    a: u32,
    #[serde(flatten)]
    more: HashMap<String, u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Bare {
    Number(u32),
    Text(String),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind")]
enum Tagged {
    Number { n: u32 },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value")]
enum Adjacent {
    Number(u32),
}

#[test]
fn self_describing_types_are_refused() {
    refused(&[Half { a: 1, b: 2 }], &["cannot be decoded"]);
    let nothing: Option<Half> = None;
    refused(&[vec![nothing; 200], vec![Some(Half { a: 1, b: 2 })]].concat(), &["cannot be decoded"]);
    refused(&[Flat { a: 1, more: HashMap::new() }], &["a struct with `flatten`"]);
    refused(&[Bare::Number(1)], &["needs the type of the next value", "untagged"]);
    refused(&[Bare::Text("a".into())], &["needs the type of the next value"]);
    refused(&[Tagged::Number { n: 1 }], &["needs the type of the next value"]);
    refused(&[Adjacent::Number(1)], &["needs the type of the next value"]);
}

#[test]
fn self_describing_types_are_accepted_as_named() {
    accepted(&[Named(Bare::Number(1)), Named(Bare::Text("a".into()))]);
    accepted(&[Named(Tagged::Number { n: 1 })]);
    accepted(&[Named(Adjacent::Number(1))]);
    accepted(&[Named(Sparse { a: 1, b: None, c: 1 }), Named(Sparse { a: 1, b: Some(2), c: 3 })]);
    // A decoded `HashMap` iterates in another order than the encoded one, which is permitted.
    let flat = |a| Named(Flat { a, more: (0..50).map(|n| (n.to_string(), n)).collect() });
    accepted(&(0..100).map(flat).collect::<Vec<_>>());
    accepted(&[Some((flat(1), vec![flat(2)]))]);
    // A type that is sent as `Named` is refused if its `Deserialize` requires a field that `Serialize` never writes.
    refused(&[Named(Half { a: 1, b: 2 })], &["cannot be decoded", "missing field `b`"]);
}

#[test]
fn named_value_round_trips_and_truncated_bytes_fail() {
    let sent = Named(Flat { a: 7, more: [("x".to_string(), 8)].into() });
    let bytes = crate::wire::to_bytes(&sent).unwrap();
    let got = crate::wire::from_bytes::<Named<Flat>>(&bytes).unwrap();
    assert_eq!((got.a, &got.more), (7, &sent.more));
    let named = rmp_serde::to_vec_named(&sent.0).unwrap();
    let read = |bytes: Vec<u8>| {
        let framed = crate::wire::to_bytes(&bytes::Bytes::from(bytes)).unwrap();
        crate::wire::from_bytes::<Named<Flat>>(&framed)
    };
    read(named.clone()).unwrap();
    for length in 0..named.len() {
        assert_eq!(read(named[..length].to_vec()).unwrap_err().kind(), ErrorKind::Wire);
    }
    let error = read([&named[..], &[0]].concat()).unwrap_err();
    assert!(error.message().contains("1 bytes too many"), "{error}");
}

/// Type whose `Serialize` writes two or three fields (`WRITES`) and whose `Deserialize` reads two, in reverse order if `SWAPS` is true.
#[derive(Clone, Debug)]
struct ByHand<const WRITES: usize, const SWAPS: bool>(u32, u32, Vec<u32>);

impl<const WRITES: usize, const SWAPS: bool> Serialize for ByHand<WRITES, SWAPS> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("ByHand", WRITES)?;
        fields.serialize_field("a", &self.0)?;
        fields.serialize_field("b", &self.1)?;
        if WRITES == 3 {
            fields.serialize_field("c", &self.2)?;
        }
        fields.end()
    }
}

impl<'de, const WRITES: usize, const SWAPS: bool> Deserialize<'de> for ByHand<WRITES, SWAPS> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (a, b) = Deserialize::deserialize(deserializer)?;
        Ok(if SWAPS { ByHand(b, a, vec![]) } else { ByHand(a, b, vec![]) })
    }
}

#[test]
fn handwritten_implementations_are_checked() {
    accepted(&[ByHand::<2, false>(1, 2, vec![])]);
    refused(&[ByHand::<3, false>(1, 2, vec![])], &["1 bytes too many"]);
    refused(&[ByHand::<2, true>(1, 2, vec![])], &["it is decoded with other values"]);
    // If the two fields of an item are equal, a `Deserialize` that reads them in reverse order returns an equal item. Only the last item has
    // different fields and thus shows the wrong order.
    let mut items = vec![ByHand::<2, true>(1, 1, vec![]); 50];
    items.push(ByHand(1, 2, vec![]));
    refused_at_home(&items, "other values");
}

#[test]
fn local_items_are_checked() {
    #[derive(Clone, Serialize, Deserialize)]
    struct Here(Figure);
    refused_at_home(&[Here(Figure::Dot(1)), Here(Figure::Line(1))], "is decoded as `Figure::Disc`");
    // After the first 64 items that stay on their rank, `Serialize` and `Deserialize` are compared for few further items only. Item 2048, the first
    // one with another variant, is one of them, because its number is a power of two.
    #[derive(Clone, Serialize, Deserialize)]
    struct SkippedVariant(Figure);
    let mut items = vec![SkippedVariant(Figure::Dot(1)); 2048];
    items.push(SkippedVariant(Figure::Line(1)));
    refused_at_home(&items, "is decoded as `Figure::Disc`");
    refused_at_home(&[[Bare::Number(1)]], "needs the type of the next value");
    refused_at_home(&[Flat { a: 1, more: HashMap::new() }], "flatten");
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all(serialize = "UPPERCASE", deserialize = "lowercase"))]
enum Fine {
    #[serde(alias = "nothing", alias = "null")]
    Nothing,
    Some(u32),
    Struct {
        a: (i8, char),
        #[serde(default)]
        b: Option<Box<Fine>>,
    },
    #[serde(skip)]
    Last(u32),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Rich {
    map: HashMap<u32, HashSet<String>>,
    heap: BinaryHeap<u32>,
    numbers: (f32, f64, u128),
    #[serde(skip)]
    #[allow(dead_code)]
    cache: Option<u32>,
    figures: Vec<Fine>,
    time: Duration,
    result: Result<u8, String>,
}

#[test]
fn consistent_types_are_accepted() {
    let inner = Fine::Struct { a: (-3, 'x'), b: None };
    accepted(&[
        Fine::Nothing,
        Fine::Some(1),
        inner.clone(),
        Fine::Struct { a: (1, 'y'), b: Some(inner.into()) },
    ]);
    let rich = |n: u32| Rich {
        map: (0..n).map(|k| (k, (0..9).map(|s| format!("{s}")).collect())).collect(),
        heap: (0..n).map(|x| x * 7 % 5).collect(),
        numbers: (f32::from_bits(0x7fc0_0001), -0.0, u128::MAX),
        cache: Some(n),
        figures: vec![Fine::Some(n), Fine::Nothing],
        time: Duration::from_millis(n.into()),
        result: if n == 3 { Err("three".into()) } else { Ok(3) },
    };
    accepted(&(0..100).map(rich).collect::<Vec<_>>());
    accepted(&[(); 100]);
    // The skipped variant `Last` cannot be encoded. It is the last variant, so the other variants are encoded correctly.
    let error = codec::encode(vec![Fine::Last(1)], &mut Vec::new(), &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("could not be encoded") && error.contains("cannot be serialized"), "{error}");
}

static READ: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// Number that counts its deserializations in `READ[TAG_AT]`. If `TAG_AT` is 1, deserialization is slow; if it is 2, some numbers fail.
#[derive(Clone, Debug)]
struct Counted<const TAG_AT: usize>(u64);

impl<const TAG_AT: usize> Serialize for Counted<TAG_AT> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        assert!(TAG_AT != 2 || self.0 != 3, "burst");
        serializer.serialize_newtype_struct(if self.0 == 999 { "Rare" } else { "Counted" }, &self.0)
    }
}

impl<'de, const TAG_AT: usize> Deserialize<'de> for Counted<TAG_AT> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        READ[TAG_AT].fetch_add(1, Relaxed);
        if TAG_AT == 1 {
            std::thread::sleep(Duration::from_millis(30));
        }
        let number = u64::deserialize(deserializer)?;
        if TAG_AT == 2 && number == 4 { Err(D::Error::custom("torn")) } else { Ok(Counted(number)) }
    }
}

#[test]
fn only_a_sample_of_items_is_checked() {
    let batch: Vec<Counted<0>> = (0..2_000).map(Counted).collect();
    let send = || codec::encode(batch.clone(), &mut Vec::new(), &mut Vec::new()).unwrap();
    send();
    // `Serialize` and `Deserialize` are compared for the first 64 items of the type, then for the items whose number is a power of two (64 to 1,024),
    // and for the item that is written as another struct.
    assert_eq!(READ[0].load(Relaxed), 64 + 5 + 1);
    send();
    Codec::of_type().check(&batch).unwrap();
    assert_eq!(READ[0].load(Relaxed), 64 + 5 + 1 + 2, "numbers 2048 and 4096");

    // Examining an item of this type (writing it, reading it and writing it again) takes longer than the time limit for all its items, so only two
    // are read: the first item, and the one that is written as another struct.
    let slow: Vec<Counted<1>> = (990..1_010).map(Counted).collect();
    codec::encode(slow.clone(), &mut Vec::new(), &mut Vec::new()).unwrap();
    Codec::of_type().check(&slow).unwrap();
    assert_eq!(READ[1].load(Relaxed), 2);
}

#[test]
fn errors_of_the_types_own_code_are_reported() {
    let error = |n: u64| Codec::of_type().check(&[Counted::<2>(n)]).unwrap_err();
    assert_eq!((error(3).kind(), error(3).message()), (ErrorKind::Panic, "burst"));
    assert_eq!(error(4).kind(), ErrorKind::Wire);
    assert!(error(4).message().contains("cannot be decoded: torn"), "{}", error(4));
}
