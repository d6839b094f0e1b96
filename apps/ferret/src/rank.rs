//! Ranking of candidate images by their earth mover's distance from the query image.

use crate::distance;
use crate::emd::{Solver, lower_bound};
use crate::features::Region;
use std::cmp::Ordering;

/// Candidate image with its distance from the query image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// Index of the image in the database.
    pub image: u32,
    /// Earth mover's distance between the regions of the query and those of the image.
    pub distance: f64,
}

/// Returns the earth mover's distance of two images, each given by its regions, in the units of [`distance::ground`].
///
/// # Panics
/// Panics if a set is empty or the total weights of the sets differ.
pub fn image_distance(a: &[Region], b: &[Region]) -> f64 {
    let mut ranker = Ranker::default();
    ranker.set_query(a);
    ranker.distance_below(b, f64::INFINITY).unwrap_or(f64::INFINITY)
}

/// Returns the `k` candidate images that are nearest to the query image, nearest first. Equal distances are in the order of the image numbers, which
/// is the order of the names. `regions_of` returns the regions of a candidate.
///
/// Candidates whose cheap lower bound of the distance exceeds the `k`-th best distance are skipped, which does not change the result.
pub fn nearest<'a>(
    query: &[Region],
    candidates: &[u32],
    k: usize,
    regions_of: impl Fn(u32) -> &'a [Region],
) -> Vec<Scored> {
    let mut ranker = Ranker::default();
    ranker.set_query(query);
    let mut best: Vec<Scored> = Vec::with_capacity(k + 1);
    for &image in candidates {
        let limit = if best.len() < k {
            f64::INFINITY
        } else {
            best.last().map_or(f64::NEG_INFINITY, |s| s.distance)
        };
        let Some(distance) = ranker.distance_below(regions_of(image), limit) else { continue };
        let scored = Scored { image, distance };
        let place = best.partition_point(|other| order(other, &scored) == Ordering::Less);
        if place < k {
            best.insert(place, scored);
            best.truncate(k);
        }
    }
    best
}

fn order(a: &Scored, b: &Scored) -> Ordering {
    a.distance.total_cmp(&b.distance).then(a.image.cmp(&b.image))
}

#[derive(Default)]
struct Ranker {
    query: Vec<Region>,
    supply: Vec<u32>,
    demand: Vec<u32>,
    costs: Vec<f32>,
    solver: Solver,
}

impl Ranker {
    fn set_query(&mut self, query: &[Region]) {
        self.query = query.to_vec();
        self.supply = query.iter().map(|r| r.weight).collect();
    }

    /// Returns the distance of the query from an image with these regions, or `None` if the distance certainly exceeds `limit`.
    fn distance_below(&mut self, regions: &[Region], limit: f64) -> Option<f64> {
        self.demand.clear();
        self.demand.extend(regions.iter().map(|r| r.weight));
        distance::matrix(&self.query, regions, &mut self.costs);
        // 1e-9 covers the rounding errors of the lower bound and of the limit.
        if lower_bound(&self.supply, &self.demand, &self.costs) > limit + 1e-9 {
            return None;
        }
        Some(self.solver.distance(&self.supply, &self.demand, &self.costs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{DIMENSIONS, TOTAL_WEIGHT};
    use armature_apps::random::Random;

    fn image(random: &mut Random) -> Vec<Region> {
        let share = TOTAL_WEIGHT / 4;
        (0..4)
            .map(|_| Region { weight: share, vector: [0.0; DIMENSIONS].map(|_| random.between(0.0, 0.3)) })
            .collect()
    }

    #[test]
    fn nearest_equals_full_search_in_any_candidate_order() {
        let mut random = Random::new(11);
        let images: Vec<_> = (0..120).map(|_| image(&mut random)).collect();
        let query = image(&mut random);
        let mut all: Vec<Scored> = (0..120u32)
            .map(|i| Scored { image: i, distance: image_distance(&query, &images[i as usize]) })
            .collect();
        all.sort_by(order);
        all.truncate(10);
        let forward: Vec<u32> = (0..120).collect();
        let backward: Vec<u32> = (0..120).rev().collect();
        for candidates in [forward, backward] {
            assert_eq!(nearest(&query, &candidates, 10, |i| &images[i as usize]), all);
        }
    }

    #[test]
    fn equally_distant_images_are_ordered_by_index() {
        let one = image(&mut Random::new(1));
        let best = nearest(&one, &[4, 2, 9, 0], 3, |_| &one);
        assert_eq!(best.iter().map(|s| s.image).collect::<Vec<_>>(), [0, 2, 4]);
        assert!(nearest(&one, &[1], 0, |_| &one).is_empty());
    }
}
