//! Description of the regions of an image by weighted vectors of features.
//!
//! Fourteen numbers describe a region, as in Lv, Charikar and Li, "Image Similarity Search with Compact Data Structures" (CIKM 2004): three colour
//! moments of three channels, and five numbers of the bounding box and the shape. The weight of a region is proportional to the square root of its
//! area, so that the background does not outweigh the objects. The numbers are scaled so that the Euclidean distance of two vectors expresses the
//! visual difference of two regions.

use crate::segment::Segmented;
use serde::{Deserialize, Serialize};

/// Number of elements of the vector that describes a region of an image.
pub const DIMENSIONS: usize = 14;
/// Sum of the weights of an image's regions.
pub const TOTAL_WEIGHT: u32 = 1 << 16;

/// Vector that describes a region of an image: mean, deviation and skewness of intensity, red–green and yellow–blue; aspect ratio and size of the
/// bounding box; fraction of the box that the region fills; centre of gravity.
pub type Vector = [f32; DIMENSIONS];

/// Scale factor of each element of a region's vector, chosen on synthetic scenes and icons (see `ferret eval`).
const SCALE: Vector = [
    1.0, 1.6, 1.6, // means of the three colour channels
    0.6, 0.8, 0.8, // deviations of the three colour channels
    0.3, 0.3, 0.3, // skewness of the three colour channels
    0.3, 0.6, 0.4, // bounding box: aspect, size, filled part
    0.6, 0.6, // centre of gravity
];

/// Region of an image: its weight and the vector that describes it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// Weight of the region in the image, in units of 1/[`TOTAL_WEIGHT`].
    pub weight: u32,
    /// Colours and shape of the region, as numbers (see [`Vector`]).
    pub vector: Vector,
}

#[derive(Clone, Default)]
struct Tally {
    area: u32,
    powers: [[i64; 3]; 3],
    x: (u32, u32, u64),
    y: (u32, u32, u64),
}

/// Describes every region of a segmented image. The sum of the weights is [`TOTAL_WEIGHT`].
///
/// ```
/// use ferret::{features::{describe, TOTAL_WEIGHT}, picture::Picture, segment::segment};
/// let regions = describe(&segment(&Picture::new(1, 1, vec![255, 255, 255])));
/// assert_eq!(regions.len(), 1);
/// assert_eq!(regions[0].weight, TOTAL_WEIGHT);
/// assert_eq!(regions[0].vector[0], 1.0); // white: full intensity
/// ```
pub fn describe(image: &Segmented) -> Vec<Region> {
    let width = image.picture.width as usize;
    let mut tallies = vec![Tally::default(); usize::from(image.regions)];
    for (p, (pixel, &label)) in image.picture.rgb.chunks_exact(3).zip(&image.labels).enumerate() {
        tallies[usize::from(label)].add(pixel, (p % width) as u32, (p / width) as u32);
    }
    let weights = share_out(&tallies.iter().map(|t| (t.area as f32).sqrt()).collect::<Vec<_>>());
    let frame = (image.picture.width as f32, image.picture.height as f32);
    tallies
        .iter()
        .zip(weights)
        .map(|(tally, weight)| Region { weight, vector: tally.vector(frame) })
        .collect()
}

impl Tally {
    fn add(&mut self, pixel: &[u8], x: u32, y: u32) {
        if self.area == 0 {
            self.x = (x, x, 0);
            self.y = (y, y, 0);
        }
        self.area += 1;
        let [r, g, b] = [pixel[0], pixel[1], pixel[2]].map(i64::from);
        // The sums are exact, because they are integers: channel 0 is three times the intensity, channel 2 twice the yellow–blue difference.
        for (channel, value) in [r + g + b, r - g, r + g - 2 * b].into_iter().enumerate() {
            self.powers[channel][0] += value;
            self.powers[channel][1] += value * value;
            self.powers[channel][2] += value * value * value;
        }
        self.x = (self.x.0.min(x), self.x.1.max(x), self.x.2 + u64::from(x));
        self.y = (self.y.0.min(y), self.y.1.max(y), self.y.2 + u64::from(y));
    }

    fn vector(&self, (frame_width, frame_height): (f32, f32)) -> Vector {
        let area = f64::from(self.area);
        let mut vector = [0f32; DIMENSIONS];
        for (channel, unit) in [(0, 765.0f64), (1, 255.0), (2, 510.0)] {
            let [first, second, third] = self.powers[channel].map(|sum| sum as f64 / area);
            let variance = (second - first * first).max(0.0);
            let skew = third - 3.0 * first * second + 2.0 * first * first * first;
            vector[channel] = (first / unit) as f32;
            vector[3 + channel] = (variance.sqrt() / unit) as f32;
            vector[6 + channel] = cube_root((skew / (unit * unit * unit)) as f32);
        }
        let box_width = (self.x.1 - self.x.0 + 1) as f32 / frame_width;
        let box_height = (self.y.1 - self.y.0 + 1) as f32 / frame_height;
        vector[9] = (box_width - box_height) / (box_width + box_height);
        vector[10] = (box_width * box_height).sqrt();
        vector[11] = self.area as f32 / (frame_width * frame_height) / (box_width * box_height);
        vector[12] = ((self.x.2 as f64 / area + 0.5) as f32) / frame_width;
        vector[13] = ((self.y.2 as f64 / area + 0.5) as f32) / frame_height;
        for (number, scale) in vector.iter_mut().zip(SCALE) {
            *number *= scale;
        }
        vector
    }
}

fn cube_root(x: f32) -> f32 {
    let size = x.abs();
    if size < 1e-30 {
        return 0.0;
    }
    // Division of the exponent by three yields a start value that differs from the cube root by less than 6 %.
    let mut root = f32::from_bits(size.to_bits() / 3 + 0x2a51_37a0);
    for _ in 0..4 {
        root -= (root - size / (root * root)) / 3.0;
    }
    root.copysign(x)
}

fn share_out(sizes: &[f32]) -> Vec<u32> {
    let sum: f32 = sizes.iter().sum();
    let mut weights: Vec<u32> =
        sizes.iter().map(|size| ((size / sum * TOTAL_WEIGHT as f32) as u32).max(1)).collect();
    // After rounding, the sum of the weights may be below or above the total. The largest region gets the difference.
    let assigned: u32 = weights.iter().sum();
    let largest = (0..sizes.len()).rev().max_by(|&a, &b| sizes[a].total_cmp(&sizes[b])).unwrap_or(0);
    weights[largest] = weights[largest] + TOTAL_WEIGHT - assigned;
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{picture::Picture, segment::segment};
    use armature_apps::random::Random;

    #[test]
    fn features_of_a_known_region_are_correct() {
        let rgb = (0..96 * 64).flat_map(|i| if i % 96 < 32 { [255, 0, 0] } else { [128; 3] }).collect();
        let cut = segment(&Picture::new(96, 64, rgb));
        let regions = describe(&cut);
        assert_eq!(regions.len(), 2);
        let unscaled = |r: usize, i: usize| regions[r].vector[i] / SCALE[i];
        let near = |a: f32, b: f32| assert!((a - b).abs() < 0.03, "{a} should be near {b}");
        near(unscaled(0, 0), 1.0 / 3.0);
        near(unscaled(0, 1), 1.0);
        near(unscaled(0, 2), 0.5);
        near(unscaled(1, 0), 0.5);
        near(unscaled(1, 1), 0.0);
        near(unscaled(0, 9), -0.5);
        near(unscaled(0, 11), 1.0);
        near(unscaled(0, 12), 1.0 / 6.0);
        near(unscaled(1, 12), 4.0 / 6.0);
        near(unscaled(1, 13), 0.5);
        let ratio = regions[1].weight as f32 / regions[0].weight as f32;
        near(ratio, 2f32.sqrt());
    }

    #[test]
    fn region_weights_sum_to_the_total_exactly() {
        let mut random = Random::new(5);
        for count in 1..20 {
            let sizes: Vec<f32> = (0..count).map(|_| random.between(1.0, 100.0).sqrt()).collect();
            let weights = share_out(&sizes);
            assert_eq!(weights.iter().sum::<u32>(), TOTAL_WEIGHT);
            assert!(weights.iter().all(|&w| w > 0));
        }
    }

    #[test]
    fn approximate_cube_root_is_accurate() {
        for x in [1e-9f32, 0.001, 0.3, 1.0, 8.0, -27.0] {
            assert!((cube_root(x) - x.cbrt()).abs() <= 1e-5 * x.cbrt().abs(), "cube root of {x}");
        }
        assert_eq!(cube_root(0.0), 0.0);
    }
}
