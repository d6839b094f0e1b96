//! The search on ranks. This is all that it takes beyond the plain search.
//!
//! Rank 0 reads the text and takes the matches, in their order; `hash` and `verify` run where the mapping puts them. Where ranks
//! share the files, rank 0 gives places only, and `hash` reads. What hash proposes goes on with no more of the text than the candidates cover, and nothing at all where there are none.

use crate::cost;
use crate::hash::{Candidate, propose};
use crate::patterns::Patterns;
use crate::places::{Place, PlaceReader, Places};
use crate::text::{Cut, Part, Segment, Segments};
use crate::verify::{Match, verify};
use armature::BoxError;
use armature::pipeline::{Context, Pipeline, Stage, StageResult};
use armature_apps::terminal::Reader;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Search {
    /// What is looked for.
    pub patterns: Arc<Patterns>,
    /// Bytes of a segment, without what it shares with the next.
    pub segment: usize,
    /// Whether only the number of matches is wanted.
    pub count: bool,
    /// Whether all ranks see the files, and each reads what it hashes; otherwise rank 0 reads and sends them.
    pub shared: bool,
}

impl Search {
    /// How texts are cut for it.
    pub fn cut(&self) -> Cut {
        Cut { segment: self.segment, overlap: self.patterns.longest() - 1 }
    }
}

/// What was found in a part of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Number of the text.
    pub part: u32,
    /// How many matches there are.
    pub count: u64,
    /// Where they begin; empty where only their number was asked for.
    #[serde(with = "armature::raw")]
    places: Vec<u64>,
    /// The numbers of their patterns.
    #[serde(with = "armature::raw")]
    patterns: Vec<u32>,
}

impl Proposed {
    /// Bytes that go to `verify`: text and candidates.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&self.candidates[..])
    }
}

impl Found {
    /// The matches in their order, unless only their number was asked for.
    pub fn matches(&self) -> impl Iterator<Item = Match> {
        self.places.iter().copied().zip(self.patterns.iter().copied())
    }
}

/// What goes to `hash`: the segments of `parts`, until `reader` has left.
pub fn texts<'p>(
    search: &Search,
    parts: &'p [Part],
    reader: Reader,
) -> Box<dyn Iterator<Item = Result<Text, BoxError>> + Send + 'p> {
    let fingerprint = search.patterns.fingerprint();
    let text = move |content| Text { fingerprint, content };
    if !search.shared {
        let segments = Segments::new(parts, search.cut(), reader);
        return Box::new(segments.map(move |segment| Ok(text(Content::Bytes(segment?)))));
    }
    match Places::new(parts, search.cut(), reader) {
        Ok(places) => Box::new(places.map(move |place| Ok(text(Content::Place(place))))),
        Err(error) => Box::new(std::iter::once(Err(error))),
    }
}

/// The search as a pipeline, to be given a mapping and run on every rank. Rank 0 alone reads `parts`, until `reader` has left,
/// and its sink gets what was found, in order.
pub fn pipeline<'p>(search: &Search, parts: &'p [Part], reader: Reader) -> Pipeline<'p, Found> {
    let read = texts(search, parts, reader);
    let (for_hash, for_verify, count) = (search.patterns.clone(), search.patterns.clone(), search.count);
    Pipeline::try_source("read", move || read)
        .stage("hash", move || Ok(Hash::new(for_hash.clone())))
        .stage("verify", move || Ok(Verify::new(for_verify.clone(), count)))
        .name("rabin-karp")
}

/// From `read` to `hash`: a segment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Text {
    /// Of the patterns that rank 0 looks for.
    fingerprint: u64,
    content: Content,
}

/// What is searched, or where it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Content {
    Bytes(Segment),
    Place(Place),
}

/// From `hash` to `verify`: where matches may be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Proposed {
    part: u32,
    /// Where in the text `bytes` begin; places are counted from there.
    start: u64,
    bytes: Bytes,
    #[serde(with = "armature::raw")]
    candidates: Vec<Candidate>,
}

/// Proposes where matches may be.
#[derive(Debug)]
pub struct Hash {
    patterns: Arc<Patterns>,
    fingerprint: u64,
    reader: PlaceReader,
}

impl Hash {
    /// For these patterns.
    pub fn new(patterns: Arc<Patterns>) -> Self {
        let fingerprint = patterns.fingerprint();
        Hash { patterns, fingerprint, reader: PlaceReader::default() }
    }
}

impl Stage for Hash {
    type In = Text;
    type Out = Proposed;

    fn process(&mut self, text: Text, cx: &mut Context) -> StageResult<Proposed> {
        if text.fingerprint != self.fingerprint {
            // Ranks may be on hosts that see other files under the same name.
            return Err(
                "the patterns are others here than on rank 0: does each host see the same file of them?"
                    .into(),
            );
        }
        let Segment { part, start, own, bytes } = match text.content {
            Content::Bytes(segment) => segment,
            Content::Place(place) => self.reader.read(place)?,
        };
        let mut candidates = propose(&self.patterns, &bytes, own);
        cx.declare(cost::hash(own, candidates.len()), || ());
        let (Some(&[first, _]), Some(&[last, _])) = (candidates.first(), candidates.last()) else {
            return Ok(None);
        };
        let end = bytes.len().min(last as usize + self.patterns.longest());
        candidates.iter_mut().for_each(|[place, _]| *place -= first);
        let bytes = bytes.slice(first as usize..end);
        Ok(Some(Proposed { part, start: start + u64::from(first), bytes, candidates }))
    }
}

/// Keeps those that are matches.
#[derive(Debug)]
pub struct Verify {
    patterns: Arc<Patterns>,
    count: bool,
}

impl Verify {
    /// For these patterns; `count` is whether only the number of matches goes on.
    pub fn new(patterns: Arc<Patterns>, count: bool) -> Self {
        Verify { patterns, count }
    }
}

impl Stage for Verify {
    type In = Proposed;
    type Out = Found;

    fn process(&mut self, proposed: Proposed, cx: &mut Context) -> StageResult<Found> {
        let Proposed { part, start, bytes, candidates } = proposed;
        let mut found = Found { part, count: 0, places: Vec::new(), patterns: Vec::new() };
        cx.declare(cost::verify(candidates.len(), self.patterns.longest()), || {
            verify(&self.patterns, &bytes, &candidates, |place, pattern| {
                found.count += 1;
                if !self.count {
                    found.places.push(start + u64::from(place));
                    found.patterns.push(pattern);
                }
            });
        });
        Ok((found.count > 0).then_some(found))
    }
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
