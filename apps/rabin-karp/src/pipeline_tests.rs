//! Tests that the pipeline finds the same matches as a comparison at every position, for every mapping and every division of the text.

use super::*;
use crate::text::Repeated;
use crate::verify::naive;
use armature::pipeline::MappingChoice;
use armature::{BatchMode, Config};
use armature_tests::mappings::every_kind;
use proptest::prelude::*;
use std::sync::Mutex;

/// Returns a text (in memory, not in a file) with the content `bytes`.
fn text(bytes: &[u8]) -> Vec<Part> {
    let repeated = if bytes.is_empty() { b"x" } else { bytes };
    vec![Part::Generated(vec![Repeated { text: repeated.to_vec(), size: bytes.len() as u64 }])]
}

/// Runs the search on `ranks` ranks, and changes the mapping (assignment of stages to ranks) after every `remap` segments. Returns the number of
/// matches and the matches.
fn searched(search: &Search, parts: &[Part], ranks: usize, remap: Option<usize>) -> (u64, Vec<Match>) {
    let found = Mutex::new((0, Vec::new()));
    armature::run(&Config::new().ranks(ranks), |session| {
        let mut reduced = (0, Vec::new());
        let mut job = pipeline(search, parts, Reader::default()).mapping(MappingChoice::Orderly);
        if let Some(every) = remap {
            let kinds = every_kind(&[false, false], ranks);
            job = job.batch(BatchMode::Fixed(1));
            for (kind, after) in kinds.iter().zip((every as u64..).step_by(every)) {
                job = job.remap_after(after, kind.mapping.clone());
            }
        }
        job.for_each(session, "reduce", |part| {
            reduced.0 += part.count;
            reduced.1.extend(part.matches());
        })?;
        if session.is_root() {
            *found.lock().unwrap() = reduced;
        }
        Ok(())
    })
    .unwrap();
    found.into_inner().unwrap()
}

fn search(patterns: Vec<Vec<u8>>, bits: u32, segment: usize) -> Search {
    Search {
        patterns: Arc::new(Patterns::new(patterns, bits).unwrap()),
        segment,
        count: false,
        shared: false,
    }
}

/// Texts of two letters, in which matches are frequent and overlap, and fingerprints (hashes) of different strings collide.
fn letters(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b')], length)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn matches_equal_naive_matches_for_any_rank_count_segment_and_hash(
        bytes in letters(1..400),
        patterns in proptest::collection::vec(letters(1..9), 1..5),
        bits in prop_oneof![1_u32..6, Just(64)],
        segment in prop_oneof![1_usize..20, 20_usize..500],
        ranks in 1_usize..5,
        remap in proptest::option::of(1_usize..8),
    ) {
        let search = search(patterns, bits, segment);
        let expected = naive(&search.patterns, &bytes);
        let (count, found) = searched(&search, &text(&bytes), ranks, remap);
        prop_assert_eq!(count, expected.len() as u64);
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn patterns_longer_than_a_segment_are_found(
        bytes in letters(30..200),
        start in 0_usize..30,
        segment in 1_usize..10,
        ranks in 1_usize..4,
    ) {
        let search = search(vec![bytes[start..].to_vec(), bytes[start..start + 1].to_vec()], 64, segment);
        let (_, found) = searched(&search, &text(&bytes), ranks, Some(3));
        prop_assert_eq!(found, naive(&search.patterns, &bytes));
    }
}

#[test]
fn concurrently_hashed_segments_find_the_same_matches() {
    let bytes = b"foobarfooabbarfoo\0\xff".repeat(3_000);
    let search = search(vec![b"foo".to_vec(), b"barfoo".to_vec(), b"\0\xfff".to_vec()], 12, 4_099);
    let expected = naive(&search.patterns, &bytes);
    assert!(expected.len() > 10_000);
    assert_eq!(searched(&search, &text(&bytes), 3, Some(5)).1, expected);
}

#[test]
fn count_mode_sends_only_the_number_of_matches() {
    let search = Search { count: true, ..search(vec![b"aa".to_vec()], 64, 7) };
    assert_eq!(searched(&search, &text(&[b'a'; 100]), 2, None), (99, vec![]));
}

#[test]
fn matches_do_not_cross_text_boundaries() {
    let parts = [text(b"xab"), text(b""), text(b"cxabc")].concat();
    let search = search(vec![b"abc".to_vec()], 64, 2);
    assert_eq!(searched(&search, &parts[..2], 2, None).1, []);
    assert_eq!(searched(&search, &parts, 2, None).1, [(2, 0)]);
}

#[test]
fn patterns_that_differ_from_rank_0_are_refused() {
    let asked = |pattern: &str| search(vec![pattern.as_bytes().to_vec()], 64, 4);
    let error = armature::run(&Config::new().ranks(2), |session| {
        let search = asked(if session.is_root() { "ab" } else { "ba" });
        let parts = text(b"abababab");
        let job = pipeline(&search, &parts, Reader::default());
        job.mapping(MappingChoice::Text("hash@1 | verify@0".into())).for_each(session, "reduce", drop)?;
        Ok(())
    })
    .unwrap_err();
    assert!(error.to_string().contains("the patterns differ from those on rank 0"), "{error}");
}
