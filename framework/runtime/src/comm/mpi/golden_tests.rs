//! Tests that the bytes that this crate passes to MPI for a message do not change from version to version.

use bytes::Bytes;

use super::envelope::{Number, plan, tag};
use crate::comm::{Frame, Part};
use crate::golden::Messages;

#[test]
fn mpi_message_encoding_is_unchanged() {
    const SLOT: usize = 64;
    let large = |unit: Part| Frame { head: Bytes::from_static(b"head"), parts: vec![unit] };
    let cases = [
        ("a head", Frame::new(vec![1, 2, 3])),
        ("a small part", large(Part::of(vec![1_u8, 2, 3]))),
        ("a large part of bytes", large(Part::of(vec![1_u8; 5000]))),
        ("a large part of 32-bit words", large(Part::of(vec![1_u32; 5000]))),
        ("a large part of 64-bit words", large(Part::of(vec![1_u64; 5000]))),
        ("a head that does not fit", Frame::new(vec![7; 5000])),
        ("an envelope that does not fit", large(Part::of(vec![7_u8; 100]))),
    ];
    let mut messages = Messages::default();
    for (what, message) in cases {
        let plan = plan(message, SLOT).unwrap();
        let number = Number::default().next().next();
        messages.bytes(&format!("{what}: tag {}, control message", tag(plan.kind, number)), &plan.control);
        let bulk: Vec<usize> = plan.bulk.iter().map(Bytes::len).collect();
        messages.bytes(&format!("{what}: bulk messages of {bulk:?} bytes"), &[]);
    }
    messages.check("mpi");
}
