//! Search for patterns on several ranks: all the code needed in addition to the serial search.
//!
//! Rank 0 reads the text and receives the matches in order; the stages `hash` and `verify` run on the ranks that the mapping assigns. If ranks share
//! the files, rank 0 sends only the positions of segments, and `hash` reads the files. `hash` forwards only the part of the text that the candidates
//! (possible matches) cover, and nothing if there are no candidates.

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

/// Parameters of a search for patterns.
#[derive(Clone, Debug)]
pub struct Search {
    /// Patterns to search for.
    pub patterns: Arc<Patterns>,
    /// Size of a segment in bytes, without the overlap with the next segment.
    pub segment: usize,
    /// True if only the number of matches is wanted, not their positions.
    pub count: bool,
    /// True if all ranks can read the files and each rank reads the segments that it hashes. Otherwise, rank 0 reads and sends them.
    pub shared: bool,
}

impl Search {
    /// Returns the sizes of segments and of their overlap, which follow from the parameters.
    pub fn cut(&self) -> Cut {
        Cut { segment: self.segment, overlap: self.patterns.longest() - 1 }
    }
}

/// Matches in one segment of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Index of the searched text.
    pub part: u32,
    /// Number of matches in the segment.
    pub count: u64,
    /// Offsets of the matches in the text; empty if only the number of matches was requested.
    #[serde(with = "armature::raw")]
    places: Vec<u64>,
    #[serde(with = "armature::raw")]
    patterns: Vec<u32>,
}

impl Proposed {
    /// Returns the number of bytes that are sent to the stage `verify`: text and candidates.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&self.candidates[..])
    }
}

impl Found {
    /// Returns the matches in order; none if only the number of matches was requested.
    pub fn matches(&self) -> impl Iterator<Item = Match> {
        self.places.iter().copied().zip(self.patterns.iter().copied())
    }
}

/// Returns the items for the stage `hash`: the segments of the texts `parts`, except the first `skipped` segments, which an earlier job has searched.
/// The items end early if the reader of standard output closes it.
pub fn texts<'p>(
    search: &Search,
    parts: &'p [Part],
    reader: Reader,
    skipped: u64,
) -> Box<dyn Iterator<Item = Result<Text, BoxError>> + Send + 'p> {
    let fingerprint = search.patterns.fingerprint();
    let text = move |content| Text { fingerprint, content };
    let read = if search.shared {
        Places::new(parts, search.cut(), reader).map(|places| {
            let places = places.skip(skipped as usize).map(move |place| Ok(text(Content::Place(place))));
            Box::new(places) as Box<dyn Iterator<Item = _> + Send>
        })
    } else {
        Segments::new(parts, search.cut(), reader).skip_unread(skipped).map(|segments| {
            let segments = segments.map(move |segment| Ok(text(Content::Bytes(segment?))));
            Box::new(segments) as Box<dyn Iterator<Item = _> + Send>
        })
    };
    read.unwrap_or_else(|error| Box::new(std::iter::once(Err(error))))
}

/// Returns the pipeline that searches the texts `parts`. All ranks must run it with the same mapping (assignment of stages to ranks). Only rank 0
/// reads `parts`, until the reader of standard output closes it. The sink on rank 0 receives the matches in order.
pub fn pipeline<'p>(search: &Search, parts: &'p [Part], reader: Reader) -> Pipeline<'p, Found> {
    let (for_hash, for_verify, count) = (search.patterns.clone(), search.patterns.clone(), search.count);
    let search = search.clone();
    Pipeline::try_source_at("read", move |skipped| texts(&search, parts, reader, skipped))
        .stage("hash", move || Ok(Hash::new(for_hash.clone())))
        .stage("verify", move || Ok(Verify::new(for_verify.clone(), count)))
        .name("rabin-karp")
}

/// Item that the source `read` sends to the stage `hash`: a segment of a text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Text {
    /// Fingerprint of the patterns on rank 0, by which other ranks detect that their patterns differ.
    fingerprint: u64,
    content: Content,
}

/// Bytes of a segment, or, if ranks share the files, the position of the segment in a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Content {
    Bytes(Segment),
    Place(Place),
}

/// Item that the stage `hash` sends to the stage `verify`: the candidates (possible matches) in a segment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Proposed {
    part: u32,
    /// Offset of `bytes` in the text. The positions of candidates are relative to this offset.
    start: u64,
    bytes: Bytes,
    #[serde(with = "armature::raw")]
    candidates: Vec<Candidate>,
}

/// Stage that finds candidates (possible matches) in segments by a rolling hash.
#[derive(Debug)]
pub struct Hash {
    patterns: Arc<Patterns>,
    fingerprint: u64,
    reader: PlaceReader,
}

impl Hash {
    /// Creates the stage `hash` for a set of patterns.
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
            // The host of this rank may have another file of patterns under the same path than the host of rank 0.
            return Err(
                "the patterns differ from those on rank 0: check that all hosts have the same --patterns file"
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

/// Stage that compares candidates with the patterns, and keeps those that are matches.
#[derive(Debug)]
pub struct Verify {
    patterns: Arc<Patterns>,
    count: bool,
}

impl Verify {
    /// Creates the stage `verify` for a set of patterns. With `count`, the stage forwards only the number of matches.
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
