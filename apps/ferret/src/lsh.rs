//! Locality-sensitive hashing of vectors, which finds near vectors, with query-directed probing.
//!
//! The hash functions for the Euclidean distance are `h(v) = ⌊(a·v + b)/W⌋` with normally distributed `a` (Datar, Immorlica, Indyk and Mirrokni,
//! "Locality-Sensitive Hashing Scheme Based on p-Stable Distributions", SoCG 2004). The key of a hash table combines several of these functions. In
//! each table, a query probes its own bucket and the neighbouring buckets that most likely contain near vectors (Lv, Josephson, Wang, Charikar and
//! Li, "Multi-Probe LSH: Efficient Indexing for High-Dimensional Similarity Search", VLDB 2007, Sect. 4.4).

use crate::features::{DIMENSIONS, Vector};
use armature_apps::random::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Settings of the hash tables, stored in the database file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Number of hash tables, 1 to 64. Each table finds some of the neighbours that the other tables miss.
    pub tables: u32,
    /// Number of hash functions in a table's key, 1 to 16. More functions make smaller buckets.
    pub hashes: u32,
    /// Number of buckets that a query probes in each hash table, 1 to 1024.
    pub probes: u32,
    /// Step width W of a hash function, in the units of the distance of two vectors.
    pub width: f32,
    /// Seed of the random vectors `a` and offsets `b` of the hash functions.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { tables: 8, hashes: 10, probes: 32, width: 0.8, seed: 1 }
    }
}

impl Settings {
    /// Returns true if all settings of the hash tables are within their ranges.
    pub fn are_valid(&self) -> bool {
        (1..=64).contains(&self.tables)
            && (1..=16).contains(&self.hashes)
            && (1..=1024).contains(&self.probes)
            && self.width.is_finite()
            && (1e-4..=1e4).contains(&self.width)
    }
}

#[derive(Clone, Debug)]
struct Projection {
    direction: Vector,
    offset: f32,
}

#[derive(Clone, Debug)]
struct Table {
    projections: Vec<Projection>,
    /// Key and number of every vector, sorted. Vectors with equal keys form a bucket.
    slots: Vec<(u64, u32)>,
}

/// Hash tables of numbered vectors.
#[derive(Clone, Debug)]
pub struct Lsh {
    settings: Settings,
    tables: Vec<Table>,
}

impl Lsh {
    /// Builds the hash tables of the vectors. Equal input yields equal tables.
    ///
    /// # Panics
    /// Panics if the settings are not [valid](Settings::are_valid).
    pub fn build(settings: Settings, vectors: &[Vector]) -> Self {
        assert!(settings.are_valid(), "hash table settings out of range: {settings:?}");
        let tables = (0..settings.tables)
            .map(|number| {
                let mut random = Random::stream(settings.seed, u64::from(number));
                let projections: Vec<Projection> = (0..settings.hashes)
                    .map(|_| Projection {
                        direction: [0.0; DIMENSIONS].map(|_| random.normal() / settings.width),
                        offset: random.unit(),
                    })
                    .collect();
                let key_of =
                    |vector: &Vector| key(projections.iter().map(|p| p.position(vector).floor() as i32));
                let mut slots: Vec<(u64, u32)> = (0..).zip(vectors).map(|(id, v)| (key_of(v), id)).collect();
                slots.sort_unstable();
                Table { projections, slots }
            })
            .collect();
        Lsh { settings, tables }
    }

    /// Returns the settings of the hash tables.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Calls `visit` with the number of every vector in a probed bucket. A vector may be visited several times.
    pub fn probe(&self, query: &Vector, mut visit: impl FnMut(u32)) {
        let mut steps = Vec::new();
        let mut margins = Vec::new();
        for table in &self.tables {
            steps.clear();
            margins.clear();
            for (i, projection) in table.projections.iter().enumerate() {
                let position = projection.position(query);
                let floor = position.floor();
                steps.push(floor as i32);
                let above_floor = position - floor;
                margins.push(Margin { square: above_floor * above_floor, hash: i, step: -1 });
                margins.push(Margin { square: (1.0 - above_floor) * (1.0 - above_floor), hash: i, step: 1 });
            }
            margins
                .sort_by(|a, b| a.square.total_cmp(&b.square).then((a.hash, a.step).cmp(&(b.hash, b.step))));
            table.visit_bucket(key(steps.iter().copied()), &mut visit);
            for moves in Perturbations::new(&margins).take(self.settings.probes as usize - 1) {
                let mut moved = [0i32; 16];
                moved[..steps.len()].copy_from_slice(&steps);
                for_each_bit(moves, |bit| moved[margins[bit].hash] += margins[bit].step);
                table.visit_bucket(key(moved[..steps.len()].iter().copied()), &mut visit);
            }
        }
    }
}

impl Projection {
    fn position(&self, vector: &Vector) -> f32 {
        let mut sum = self.offset;
        for (a, v) in self.direction.iter().zip(vector) {
            sum += a * v;
        }
        sum
    }
}

impl Table {
    fn visit_bucket(&self, key: u64, visit: &mut impl FnMut(u32)) {
        let start = self.slots.partition_point(|slot| slot.0 < key);
        self.slots[start..].iter().take_while(|slot| slot.0 == key).for_each(|slot| visit(slot.1));
    }
}

fn key(steps: impl Iterator<Item = i32>) -> u64 {
    steps.fold(0x9e37_79b9_7f4a_7c15, |key, step| {
        let mixed = (key ^ u64::from(step as u32)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 32)
    })
}

/// Squared distance, in units of W, between the projection of the query by a hash function and the lower or upper edge of its interval of width W.
struct Margin {
    square: f32,
    hash: usize,
    step: i32,
}

/// Iterator over the neighbouring buckets to probe, most likely first (Algorithm 1 of the multi-probe paper). A bucket is a set of crossed margins
/// (distances from the query to the edges of its intervals), where bit `j` refers to the `j`-th smallest margin; its score is the sum of its squared
/// margins.
struct Perturbations<'a> {
    margins: &'a [Margin],
    heap: BinaryHeap<Reverse<(Score, u32)>>,
}

/// Score by which buckets are sorted. Scores are sums of squares and thus not negative, so that their bits have the same order as their values.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Score(u32);

impl<'a> Perturbations<'a> {
    fn new(margins: &'a [Margin]) -> Self {
        let mut sets = Perturbations { margins, heap: BinaryHeap::new() };
        sets.push(1);
        sets
    }

    fn push(&mut self, set: u32) {
        let mut sum = 0f32;
        for_each_bit(set, |bit| sum += self.margins[bit].square);
        self.heap.push(Reverse((Score(sum.to_bits()), set)));
    }

    /// Returns false for a set of crossed margins that contains both edges of one hash function's interval.
    fn is_possible(&self, set: u32) -> bool {
        let mut seen = 0u32;
        let mut possible = true;
        for_each_bit(set, |bit| {
            let hash = 1 << self.margins[bit].hash;
            possible &= seen & hash == 0;
            seen |= hash;
        });
        possible
    }
}

impl Iterator for Perturbations<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        loop {
            let Reverse((_, set)) = self.heap.pop()?;
            let last = 31 - set.leading_zeros();
            if (last as usize) + 1 < self.margins.len() {
                let next = 1u32 << (last + 1);
                self.push((set ^ (1 << last)) | next);
                self.push(set | next);
            }
            if self.is_possible(set) {
                return Some(set);
            }
        }
    }
}

fn for_each_bit(mut set: u32, mut visit: impl FnMut(usize)) {
    while set != 0 {
        visit(set.trailing_zeros() as usize);
        set &= set - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn vectors(count: usize, seed: u64) -> Vec<Vector> {
        let mut random = Random::new(seed);
        (0..count).map(|_| [0.0; DIMENSIONS].map(|_| random.unit())).collect()
    }

    fn hits(lsh: &Lsh, query: &Vector) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        lsh.probe(query, |id| {
            found.insert(id);
        });
        found
    }

    #[test]
    fn vector_is_its_own_neighbour_and_equal_seeds_give_equal_tables() {
        let vectors = vectors(300, 2);
        let lsh = Lsh::build(Settings::default(), &vectors);
        let again = Lsh::build(Settings::default(), &vectors);
        for (id, vector) in (0u32..).zip(&vectors) {
            let found = hits(&lsh, vector);
            assert!(found.contains(&id));
            assert_eq!(found, hits(&again, vector));
        }
    }

    #[test]
    fn near_vectors_are_found_far_more_often_than_far_ones() {
        let vectors = vectors(2000, 3);
        let lsh = Lsh::build(Settings::default(), &vectors);
        let mut random = Random::new(4);
        let (mut near, mut all) = (0, 0);
        for (id, vector) in (0u32..).zip(&vectors).take(200) {
            let found = hits(&lsh, &vector.map(|v| v + 0.02 * random.normal()));
            near += usize::from(found.contains(&id));
            all += found.len();
        }
        assert!(near >= 190, "{near} of 200 near vectors found");
        assert!(all < 200 * 500, "a quarter of all vectors looked at: {all} in 200 queries");
    }

    #[test]
    fn perturbations_are_ordered_by_score_without_repeats() {
        let margins: Vec<Margin> =
            [(0.01, 0, -1), (0.04, 1, 1), (0.3, 2, 1), (0.4, 2, -1), (0.6, 1, -1), (0.8, 0, 1)]
                .into_iter()
                .map(|(square, hash, step)| Margin { square, hash, step })
                .collect();
        let sets: Vec<u32> = Perturbations::new(&margins).collect();
        let score = |set: u32| {
            let mut sum = 0.0;
            for_each_bit(set, |bit| sum += margins[bit].square);
            sum
        };
        assert!(sets.windows(2).all(|pair| score(pair[0]) <= score(pair[1])));
        // Each of three hash functions steps down, stays or steps up, which gives 27 sets. The set in which all functions stay (the bucket of the
        // query) is left out.
        assert_eq!(sets.iter().collect::<BTreeSet<_>>().len(), 26);
        assert_eq!(sets.len(), 26);
    }

    #[test]
    fn more_hashes_than_the_limit_are_refused() {
        assert!(!Settings { hashes: 17, ..Settings::default() }.are_valid());
        assert!(!Settings { width: f32::NAN, ..Settings::default() }.are_valid());
        assert!(Settings::default().are_valid());
    }
}
