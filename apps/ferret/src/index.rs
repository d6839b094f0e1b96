//! Index: hash tables of all regions of a database, and the selection of candidates for a query.

use crate::database::Database;
use crate::distance::{CUT_OFF, ground};
use crate::features::{Region, Vector};
use crate::lsh::Lsh;

/// Maximum number of candidates (images to be ranked by their exact distance from a query) if the database is small.
const MIN_CANDIDATES: usize = 24;

/// Database with the hash tables for queries.
#[derive(Clone, Debug)]
pub struct Index {
    database: Database,
    lsh: Lsh,
    vectors: Vec<Vector>,
    /// Index of the image to which each region of the database belongs.
    owners: Vec<u32>,
}

/// Result of looking up the regions of a query image in the hash tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    /// Indexes of the candidates: images to be ranked by their exact distance from the query, most promising first.
    pub candidates: Vec<u32>,
    /// Number of images with at least one region in a bucket of the hash tables that the search probed.
    pub touched: usize,
    /// Number of different database regions found in the hash tables, summed over the regions of the query.
    pub hits: usize,
}

impl Index {
    /// Builds the hash tables of the regions of `database`. Equal databases yield equal indexes.
    pub fn new(database: Database) -> Self {
        let mut vectors = Vec::new();
        let mut owners = Vec::new();
        for (image, entry) in (0u32..).zip(database.entries()) {
            vectors.extend(entry.regions.iter().map(|r| r.vector));
            owners.extend(entry.regions.iter().map(|_| image));
        }
        let lsh = Lsh::build(database.settings(), &vectors);
        Index { database, lsh, vectors, owners }
    }

    /// Returns the database of the index.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Returns the number of regions of all images in the database.
    pub fn regions(&self) -> usize {
        self.vectors.len()
    }

    /// Returns the maximum number of candidates (images to be ranked by their exact distance) for one query.
    pub fn candidate_limit(&self) -> usize {
        limit(self.database.len())
    }

    /// Returns the candidates for a query: the images that are most similar to the query by an estimate, to be ranked by their exact distance.
    ///
    /// Every region of the query is looked up in the hash tables. The regions found yield an estimate of each image's distance as in the relaxed
    /// earth mover's distance: each region of one image is moved to the nearest region of the other image, and a region without a match counts with
    /// the distance [`CUT_OFF`]. Both directions are added. The images with the smallest estimates are returned.
    pub fn search(&self, query: &[Region]) -> Search {
        let images = self.database.len();
        // For each image, `gain` is the decrease of its estimated distance by the matches found so far. It is zero if no region of the image was
        // found near a region of the query.
        let mut gain = vec![0f32; images];
        let mut nearest_of_region = vec![CUT_OFF; self.vectors.len()];
        let mut best = vec![CUT_OFF; images];
        let mut seen = vec![0u32; self.vectors.len()];
        let mut touched = Vec::new();
        let mut found = Vec::new();
        let mut hits = 0;
        for (round, region) in (1u32..).zip(query) {
            self.lsh.probe(&region.vector, |id| {
                let id = id as usize;
                if std::mem::replace(&mut seen[id], round) == round {
                    return;
                }
                hits += 1;
                let distance = ground(&region.vector, &self.vectors[id]);
                nearest_of_region[id] = nearest_of_region[id].min(distance);
                let image = self.owners[id] as usize;
                if best[image] == CUT_OFF && distance < CUT_OFF {
                    found.push(image);
                }
                best[image] = best[image].min(distance);
            });
            for image in found.drain(..) {
                if gain[image] == 0.0 {
                    touched.push(image);
                }
                gain[image] += region.weight as f32 * (CUT_OFF - best[image]);
                best[image] = CUT_OFF;
            }
        }
        let mut scored: Vec<(f32, u32)> = touched
            .iter()
            .map(|&image| (gain[image] + self.reverse_gain(image, &nearest_of_region), image as u32))
            .collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        scored.truncate(limit(images));
        let candidates = scored.into_iter().map(|(_, image)| image).collect();
        Search { candidates, touched: touched.len(), hits }
    }

    fn reverse_gain(&self, image: usize, nearest_of_region: &[f32]) -> f32 {
        let start = self.owners.partition_point(|&owner| (owner as usize) < image);
        let regions = &self.database.entries()[image].regions;
        regions
            .iter()
            .zip(&nearest_of_region[start..])
            .map(|(r, near)| r.weight as f32 * (CUT_OFF - near))
            .sum()
    }
}

/// Returns the maximum number of candidates (images to be ranked by their exact distance): three sixteenths of a small database, and a smaller share
/// of a large one. When a database grows, the ten nearest images do not move far back in the order of estimated distances.
fn limit(images: usize) -> usize {
    (images * 3 / 16).min(64 + images / 64).max(MIN_CANDIDATES)
}
