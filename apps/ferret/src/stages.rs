//! The six stages of the image search as functions, and the items that pass between them.
//!
//! The order is `load` → `seg` → `ext` → `ind` → `rank` → `out`. The functions have no side effects, so the result of a query image does not depend
//! on the rank and the time at which a stage runs.

use crate::features::{Region, describe};
use crate::index::Index;
use crate::picture::{DecodeError, Picture};
use crate::rank::nearest;
use crate::segment::{Segmented, segment};
use armature_apps::names::escaped;
use serde::{Deserialize, Serialize};

/// Item that the stage `load` sends to the stage `seg`: a decoded query image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// Name of the query image, relative to the query directory.
    pub query: String,
    /// Decoded image.
    pub picture: Picture,
}

/// Item that the stage `seg` sends to the stage `ext`: the segmented image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Name of the query image.
    pub query: String,
    /// Query image with the region of every pixel.
    pub image: Segmented,
}

/// Item that the stage `ext` sends to the stage `ind`: the vectors that describe the regions of the query image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// Name of the query image.
    pub query: String,
    /// Regions of the query image.
    pub regions: Vec<Region>,
}

/// Item that the stage `ind` sends to the stage `rank`: the regions of the query image and the candidates (similar database images).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probed {
    /// Name of the query image.
    pub query: String,
    /// Regions of the query image.
    pub regions: Vec<Region>,
    /// Indexes in the database of the candidates (images that are probably similar to the query), most promising first.
    pub candidates: Vec<u32>,
}

/// Item that the stage `rank` sends to the stage `out`: the database images that are most similar to the query image.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// Name of the query image.
    pub query: String,
    /// Nearest database images, nearest first.
    pub matches: Vec<Match>,
}

/// Database image with its distance to the query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Match {
    /// Name of the database image.
    pub image: String,
    /// Earth mover's distance from the query image: 0 for equal images, at most [`crate::distance::CUT_OFF`].
    pub distance: f64,
}

/// Decodes a query image.
///
/// # Errors
/// The bytes are no usable image; see [`Picture::decode`].
pub fn load(query: String, bytes: &[u8]) -> Result<Loaded, DecodeError> {
    Ok(Loaded { query, picture: Picture::decode(bytes)? })
}

/// Segments a decoded query image into regions.
pub fn seg(item: Loaded) -> Cut {
    Cut { image: segment(&item.picture), query: item.query }
}

/// Describes the regions of a query image by vectors of features.
pub fn ext(item: Cut) -> Described {
    Described { regions: describe(&item.image), query: item.query }
}

/// Looks up the regions of a query image in the index of the database, and returns candidates.
pub fn ind(item: Described, index: &Index) -> Probed {
    let candidates = index.search(&item.regions).candidates;
    Probed { query: item.query, regions: item.regions, candidates }
}

/// Compares the query image with its candidates, and keeps the `k` nearest database images.
///
/// # Panics
/// Panics if a candidate is not in the index because `ind` used another database.
pub fn rank(item: Probed, index: &Index, k: usize) -> Ranked {
    let entries = index.database().entries();
    let best = nearest(&item.regions, &item.candidates, k, |image| &entries[image as usize].regions);
    let matches = best
        .into_iter()
        .map(|scored| Match { image: entries[scored.image as usize].name.clone(), distance: scored.distance })
        .collect();
    Ranked { query: item.query, matches }
}

/// Formats the answer to a query as text, with a line `query<TAB>place<TAB>database image<TAB>distance` for each match.
///
/// Tabs, line ends and control characters in names are [`escaped`].
///
/// ```
/// use ferret::stages::{Match, Ranked, out};
/// let matches = vec![Match { image: "kite.png".into(), distance: 0.0625 }];
/// assert_eq!(out(&Ranked { query: "my\tbird.jpg".into(), matches }), "my\\tbird.jpg\t1\tkite.png\t0.062500\n");
/// ```
pub fn out(item: &Ranked) -> String {
    let query = escaped(&item.query);
    let mut lines = String::new();
    for (place, found) in (1..).zip(&item.matches) {
        lines += &format!("{query}\t{place}\t{}\t{:.6}\n", escaped(&found.image), found.distance);
    }
    lines
}
