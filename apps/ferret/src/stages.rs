//! The six stages as plain functions, and the items that travel between them.
//!
//! `load` → `seg` → `ext` → `ind` → `rank` → `out`. Every function depends on its arguments only, so an item's
//! result is the same wherever and whenever its stages run.

use crate::features::{Region, describe};
use crate::index::Index;
use crate::picture::{DecodeError, Picture};
use crate::rank::nearest;
use crate::segment::{Segmented, segment};
use armature_apps::names::escaped;
use serde::{Deserialize, Serialize};

/// From `load` to `seg`: a decoded query image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// Name of the query image, relative to the query directory.
    pub query: String,
    /// Its pixels.
    pub picture: Picture,
}

/// From `seg` to `ext`: the image cut into regions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Name of the query image.
    pub query: String,
    /// Its pixels with their regions.
    pub image: Segmented,
}

/// From `ext` to `ind`: the regions' features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Described {
    /// Name of the query image.
    pub query: String,
    /// Its regions.
    pub regions: Vec<Region>,
}

/// From `ind` to `rank`: the features and the images worth comparing with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Probed {
    /// Name of the query image.
    pub query: String,
    /// Its regions.
    pub regions: Vec<Region>,
    /// Numbers of database images, most promising first.
    pub candidates: Vec<u32>,
}

/// From `rank` to `out`: the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// Name of the query image.
    pub query: String,
    /// The nearest database images, nearest first.
    pub matches: Vec<Match>,
}

/// A database image with its distance to the query.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Match {
    /// Name of the database image.
    pub image: String,
    /// Earth mover's distance: 0 for equal images, at most [`crate::distance::CUT_OFF`].
    pub distance: f64,
}

/// Decodes a query image.
///
/// # Errors
/// If the bytes are no usable image; see [`Picture::decode`].
pub fn load(query: String, bytes: &[u8]) -> Result<Loaded, DecodeError> {
    Ok(Loaded { query, picture: Picture::decode(bytes)? })
}

/// Cuts the image into regions.
pub fn seg(item: Loaded) -> Cut {
    Cut { image: segment(&item.picture), query: item.query }
}

/// Describes the regions by their features.
pub fn ext(item: Cut) -> Described {
    Described { regions: describe(&item.image), query: item.query }
}

/// Looks the regions up in the index.
pub fn ind(item: Described, index: &Index) -> Probed {
    let candidates = index.search(&item.regions).candidates;
    Probed { query: item.query, regions: item.regions, candidates }
}

/// Compares the query with the candidates and keeps the `k` nearest.
///
/// # Panics
/// If a candidate is not in the index, that is, if `ind` ran on another database.
pub fn rank(item: Probed, index: &Index, k: usize) -> Ranked {
    let entries = index.database().entries();
    let best = nearest(&item.regions, &item.candidates, k, |image| &entries[image as usize].regions);
    let matches = best
        .into_iter()
        .map(|scored| Match { image: entries[scored.image as usize].name.clone(), distance: scored.distance })
        .collect();
    Ranked { query: item.query, matches }
}

/// The answer as text: a line `query<TAB>place<TAB>database image<TAB>distance` for each match.
///
/// Names are [`escaped`].
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
