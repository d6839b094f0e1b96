//! Tests with malformed frames (encoded batches): decoding returns an error, without a panic or excessive memory.
//!
//! The directory `corpus/` holds frames that show one weakness each; property tests search for more such frames.

use std::{fs, path::Path};

use bytes::{Bytes, BytesMut};
use proptest::{collection::vec, prelude::*};
use serde::{Deserialize, Serialize};

use super::{Codec, Named, Plain, codec, from_bytes};
use crate::comm::Part;
use crate::error::{Error, ErrorKind, Result};

#[derive(Debug, Serialize, Deserialize)]
enum List {
    End,
    More(Box<List>),
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    name: String,
    data: Vec<(u8, Option<String>)>,
    bytes: Bytes,
}

type Try = fn(Bytes, Vec<Part>, usize) -> Result<usize>;

const CODECS: &[(&str, Try)] = &[
    ("u8", |h, p, n| codec::decode::<u8>(h, p, n).map(|items| items.capacity())),
    ("u64", |h, p, n| codec::decode::<u64>(h, p, n).map(|items| 8 * items.capacity())),
    ("bool", |h, p, n| codec::decode::<bool>(h, p, n).map(|items| items.capacity())),
    ("char", |h, p, n| codec::decode::<char>(h, p, n).map(|items| 4 * items.capacity())),
    ("Vec<u8>", |h, p, n| lists(codec::decode::<Vec<u8>>(h, p, n)?)),
    ("Vec<f64>", |h, p, n| lists(codec::decode::<Vec<f64>>(h, p, n)?)),
    ("String", |h, p, n| {
        lists(codec::decode::<String>(h, p, n)?.into_iter().map(String::into_bytes).collect())
    }),
    ("Bytes", |h, p, n| codec::decode::<Bytes>(h, p, n).map(|items| 32 * items.capacity())),
    ("BytesMut", |h, p, n| codec::decode::<BytesMut>(h, p, n).map(|items| 32 * items.capacity())),
    ("()", |h, p, n| codec::decode::<()>(h, p, n).map(|_| 0)),
    ("Vec<()>", |h, p, n| codec::decode::<Vec<()>>(h, p, n).map(|items| 24 * items.len())),
    ("List", |h, p, n| codec::decode::<List>(h, p, n).map(|items| 8 * items.len())),
    ("Record", |h, p, n| codec::decode::<Record>(h, p, n).map(|items| size_of::<Record>() * items.len())),
    ("Named<List>", |h, p, n| codec::decode::<Named<List>>(h, p, n).map(|items| 8 * items.len())),
    ("Named<Record>", |h, p, n| {
        codec::decode::<Named<Record>>(h, p, n).map(|items| size_of::<Record>() * items.len())
    }),
    ("Plain<[u32; 3]>", |h, p, n| codec::decode::<Plain<[u32; 3]>>(h, p, n).map(|items| 12 * items.len())),
    ("plain [u32; 3]", |h, p, n| {
        Codec::<[u32; 3]>::plain().decode(h, p, n).map(|items| 12 * items.capacity())
    }),
    ("control Record", |h, _, _| from_bytes::<Record>(&h).map(|_| 0)),
    ("control List", |h, _, _| from_bytes::<List>(&h).map(|_| 0)),
];

fn lists<P>(items: Vec<Vec<P>>) -> Result<usize> {
    Ok(24 * items.capacity() + items.iter().map(|item| size_of::<P>() * item.capacity()).sum::<usize>())
}

/// Decodes a frame that may be malformed. Checks that an error is of the kind `Wire`, and that decoded items take at most 256 times the memory of the
/// frame.
fn attempt(decode: Try, head: &[u8], parts: &[Part], count: usize) -> Result<usize> {
    let received = head.len() + parts.iter().map(Part::len).sum::<usize>();
    let result = decode(Bytes::copy_from_slice(head), parts.to_vec(), count);
    match &result {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Wire, "{error}"),
        Ok(memory) => {
            assert!(*memory <= 256 * (received + 16), "{memory} bytes of memory for {received} received")
        }
    }
    result
}

/// Malformed frame from a file of the corpus. `what` is a text that the decoder's error message must contain.
struct Hostile {
    codec: String,
    count: usize,
    head: Vec<u8>,
    parts: Vec<Part>,
    what: String,
}

/// Parses hexadecimal bytes of a frame in a file: `41*1000` is the byte 0x41 a thousand times, `00ff*10` is two bytes ten times.
fn hex(text: &str) -> Vec<u8> {
    let byte = |digits: &str| u8::from_str_radix(digits, 16).unwrap();
    let mut bytes = Vec::new();
    for word in text.split_whitespace() {
        match word.split_once('*') {
            Some((run, times)) => bytes.extend(hex(run).repeat(times.parse().unwrap())),
            None => bytes.extend((0..word.len()).step_by(2).map(|at| byte(&word[at..at + 2]))),
        }
    }
    bytes
}

/// Returns the complete 32-bit words of `bytes` as a part of a message (memory that is sent separately); the remaining bytes are omitted.
fn words32(bytes: &[u8]) -> Part {
    Part::of(bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_ne_bytes(word)).collect::<Vec<_>>())
}

fn words64(bytes: &[u8]) -> Part {
    Part::of(bytes.as_chunks::<8>().0.iter().map(|&word| u64::from_ne_bytes(word)).collect::<Vec<_>>())
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = (0..3, vec(any::<u8>(), 0..50)).prop_map(|(kind, bytes)| match kind {
        0 => Part::Bytes(bytes.into()),
        1 => words32(&bytes),
        _ => words64(&bytes),
    });
    vec(part, 0..3)
}

fn parse(text: &str) -> Hostile {
    let mut frame =
        Hostile { codec: String::new(), count: 0, head: vec![], parts: vec![], what: String::new() };
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (key, value) = line.split_once(": ").unwrap_or((line.trim_end_matches(':'), ""));
        match key {
            "codec" => frame.codec = value.into(),
            "count" => frame.count = value.parse().unwrap(),
            "head" => frame.head = hex(value),
            "part" => frame.parts.push(Part::Bytes(hex(value).into())),
            "part of u32" => frame.parts.push(words32(&hex(value))),
            "part of u64" => frame.parts.push(words64(&hex(value))),
            "error" => frame.what = value.into(),
            other => panic!("unknown key {other:?}"),
        }
    }
    frame
}

#[test]
fn every_frame_of_the_corpus_is_refused_for_the_stated_reason() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/wire/corpus");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let frame = parse(&fs::read_to_string(&path).unwrap());
        let decode = CODECS.iter().find(|(name, _)| *name == frame.codec).unwrap().1;
        let error: Error = attempt(decode, &frame.head, &frame.parts, frame.count)
            .expect_err(&format!("{} was accepted", path.display()));
        assert!(error.message().contains(&frame.what), "{}: {error}", path.display());
        seen += 1;
    }
    assert!(seen >= 20, "only {seen} frames found");
}

type Frame = (Try, Vec<u8>, Vec<Part>, usize);

fn valid() -> Vec<Frame> {
    fn frame<T: super::Item>(name: &str, items: Vec<T>) -> Frame {
        let decode = CODECS.iter().find(|(known, _)| *known == name).unwrap().1;
        let (count, mut head, mut parts) = (items.len(), Vec::new(), Vec::new());
        codec::encode(items, &mut head, &mut parts).unwrap();
        (decode, head, parts, count)
    }
    let record = || Record {
        name: "näme".into(),
        data: vec![(1, None), (2, Some("two".into()))],
        bytes: Bytes::from_static(b"bytes"),
    };
    vec![
        frame("u64", vec![1_u64, 2, 3]),
        frame("char", vec!['a', 'ß', '𝄞']),
        frame("bool", vec![true, false]),
        frame("Vec<f64>", vec![vec![1.0], vec![], vec![2.0, 3.0]]),
        frame("Vec<u8>", vec![vec![1_u8; 3], vec![2; super::OWN_PART], vec![]]),
        frame("String", vec![String::from("ünïcode"), String::new()]),
        frame("Bytes", vec![Bytes::from_static(b"abc"), Bytes::from_static(b"")]),
        frame("BytesMut", vec![BytesMut::from("abc"), BytesMut::from("de")]),
        frame("Record", vec![record(), record()]),
        frame("List", vec![List::More(Box::new(List::More(Box::new(List::End)))), List::End]),
        frame("Plain<[u32; 3]>", vec![Plain([1_u32, 2, 3]); 2]),
        frame("Vec<()>", vec![vec![(), ()], vec![]]),
        frame("Vec<f64>", vec![vec![1.0], vec![2.0; super::OWN_PART / 8]]),
        frame("u64", vec![3_u64; super::OWN_PART / 8]),
    ]
}

#[test]
fn bit_flips_never_panic() {
    for (decode, head, parts, count) in valid() {
        assert!(attempt(decode, &head, &parts, count).is_ok());
        for bit in 0..8 * head.len().min(512) {
            let mut flipped = head.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let _ = attempt(decode, &flipped, &parts, count);
        }
    }
}

#[test]
fn every_truncation_and_every_extension_is_refused() {
    for (decode, head, parts, count) in valid() {
        for length in 0..head.len() {
            assert!(attempt(decode, &head[..length], &parts, count).is_err(), "cut to {length} bytes");
        }
        let longer = [&head[..], b"x"].concat();
        assert!(attempt(decode, &longer, &parts, count).is_err());
        let more = [&parts[..], &[Part::Bytes(Bytes::from_static(&[1, 2, 3]))]].concat();
        assert!(attempt(decode, &head, &more, count).is_err());
        for count in [count + 1, 1 << 20, usize::MAX] {
            assert!(attempt(decode, &head, &parts, count).is_err(), "counted as {count}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in vec(any::<u8>(), 0..200),
        parts in parts(),
        count in prop_oneof![0..20_usize, any::<usize>()],
    ) {
        for (_, decode) in CODECS {
            let _ = attempt(*decode, &bytes, &parts, count);
        }
    }

    /// Arbitrary bytes follow a valid start of a frame, so that the decoder does not refuse the frame at its start.
    #[test]
    fn arbitrary_bytes_after_a_valid_start_never_panic(
        which in 0..14_usize,
        bytes in vec(any::<u8>(), 0..200),
        parts in parts(),
        count in prop_oneof![0..20_usize, any::<usize>()],
        layout in 0..2_u8,
    ) {
        let (decode, head, _, _) = valid().swap_remove(which);
        // The header of a batch has 3 bytes. If serde encodes the batch (codec number 0x60), 4 bytes with a fingerprint of the items' type follow.
        let start = if head[1] == 0x60 { 7 } else { 3 };
        let mut frame = head[..start].to_vec();
        frame[2] = layout;
        frame.extend_from_slice(&bytes);
        let _ = attempt(decode, &frame, &parts, count);
    }
}

#[test]
fn deep_nesting_is_refused_without_stack_overflow() {
    let (decode, head, ..) = valid().swap_remove(9);
    let mut frame = head[..7].to_vec();
    frame.extend(vec![1_u8; 1 << 20]);
    let error = attempt(decode, &frame, &[], 1).unwrap_err();
    assert!(error.message().contains("128 levels"), "{error}");
}

#[test]
fn elements_without_bytes_are_limited() {
    // The vector announces 2^60 empty values, which take no bytes, so a loop over the announced number of values would not end.
    let (decode, head, ..) = valid().swap_remove(11);
    let mut frame = head[..7].to_vec();
    frame.push(0xfd);
    frame.extend((1_u64 << 60).to_le_bytes());
    let error = attempt(decode, &frame, &[], 1).unwrap_err();
    assert!(error.message().contains("elements are announced"), "{error}");
}
