//! Segmentation of an image into a few connected regions of similar colour.
//!
//! Statistical region merging (Nock and Nielsen, "Statistical Region Merging", IEEE PAMI 26(11), 2004) yields the first partition. Its regions are
//! then merged with adjacent regions until no tiny region and at most [`MAX_REGIONS`] regions remain. Every image is first resampled to the same
//! area, so that an image and its scaled copy are segmented alike.

use crate::adjacency;
use crate::picture::Picture;
use crate::regions::Partition;
use serde::{Deserialize, Serialize};

/// Maximum number of regions of an image.
pub const MAX_REGIONS: usize = 24;
/// Approximate number of pixels to which every image is resampled.
pub const WORKING_PIXELS: u32 = 16_384;
/// The parameter Q of Nock and Nielsen: the number of independent random variables per pixel. A larger number yields smaller regions.
const COMPLEXITY: f32 = 300.0;
/// Share of the image's area below which a region is merged into a neighbour.
const MIN_SHARE: f32 = 0.004;

/// Image, resized to about [`WORKING_PIXELS`] pixels, with the region of every pixel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segmented {
    /// Resized and smoothed picture to which the labels refer.
    pub picture: Picture,
    /// Region number of each pixel, row by row. Regions are numbered from 0 in the order of their first appearance.
    #[serde(with = "crate::raw")]
    pub labels: Vec<u8>,
    /// Number of regions, between 1 and [`MAX_REGIONS`].
    pub regions: u8,
}

/// Segments a picture into connected regions.
///
/// ```
/// use ferret::{picture::Picture, segment::segment};
/// let half = |x: usize| if x < 40 { [200, 30, 30] } else { [30, 30, 200] };
/// let rgb = (0..80 * 60).flat_map(|i| half(i % 80)).collect();
/// let cut = segment(&Picture::new(80, 60, rgb));
/// assert_eq!(cut.regions, 2);
/// ```
pub fn segment(picture: &Picture) -> Segmented {
    let (width, height) = working_size(picture.width, picture.height);
    let mut picture = picture.resized(width, height);
    picture.rgb = smooth(&picture.rgb, width as usize, height as usize);
    let mut partition = statistical_merging(&picture);
    let (labels, count) = partition.dense_labels();
    let min_area = ((width * height) as f32 * MIN_SHARE) as u32;
    let merged = adjacency::coarsen(&picture, &labels, count, min_area.max(1), MAX_REGIONS);
    Segmented { picture, labels: merged.0, regions: merged.1 }
}

/// Returns the size with about [`WORKING_PIXELS`] pixels and the given proportions. Sides are limited to 1 to 4096 pixels.
fn working_size(width: u32, height: u32) -> (u32, u32) {
    let scale = (WORKING_PIXELS as f32 / (width as f32 * height as f32)).sqrt();
    let side = |length: u32| ((length as f32 * scale + 0.5) as u32).clamp(1, 4096);
    (side(width), side(height))
}

fn smooth(rgb: &[u8], width: usize, height: usize) -> Vec<u8> {
    let mut across = Vec::with_capacity(rgb.len());
    for row in rgb.chunks_exact(width * 3) {
        for x in 0..width {
            let (left, right) = (x.saturating_sub(1) * 3, (x + 1).min(width - 1) * 3);
            for c in 0..3 {
                across.push(
                    u16::from(row[left + c]) + 2 * u16::from(row[x * 3 + c]) + u16::from(row[right + c]),
                );
            }
        }
    }
    let mut out = Vec::with_capacity(rgb.len());
    let stride = width * 3;
    for y in 0..height {
        let above = &across[y.saturating_sub(1) * stride..][..stride];
        let here = &across[y * stride..][..stride];
        let below = &across[(y + 1).min(height - 1) * stride..][..stride];
        out.extend(above.iter().zip(here).zip(below).map(|((a, h), b)| ((a + 2 * h + b + 8) / 16) as u8));
    }
    out
}

/// Visits pairs of neighbouring pixels in the order of increasing colour difference, and joins their regions if chance can explain the difference of
/// the regions' mean colours (Nock and Nielsen).
fn statistical_merging(picture: &Picture) -> Partition {
    let (width, height) = (picture.width as usize, picture.height as usize);
    let mut partition = Partition::of_pixels(&picture.rgb);
    let pixels = (width * height) as f32;
    // ln(1/δ) of Nock and Nielsen, with δ = 1/(6|I|²) for an image of |I| pixels.
    let confidence = ln(6.0 * pixels * pixels);
    for (p, q) in sorted_pairs(&picture.rgb, width, height) {
        let (a, b) = (partition.find(p), partition.find(q));
        if a == b {
            continue;
        }
        let bound = deviation(partition.area(a), confidence) + deviation(partition.area(b), confidence);
        let (x, y) = (partition.mean(a), partition.mean(b));
        if (0..3).all(|c| (x[c] - y[c]) * (x[c] - y[c]) <= bound) {
            partition.join(a, b);
        }
    }
    partition
}

/// Returns b²(R) of Nock and Nielsen for 256 grey levels: the permitted squared deviation of the mean colour of a region with `area` pixels.
fn deviation(area: u32, confidence: f32) -> f32 {
    let area = area as f32;
    // Bound of Nock and Nielsen on the number of different regions with this area: (area + 1)^min(area, 256).
    let choices = area.min(256.0) * ln(1.0 + area);
    256.0 * 256.0 * (choices + confidence) / (2.0 * COMPLEXITY * area)
}

/// Returns the natural logarithm, computed from the exponent and the mantissa of the float. The error of about 1 % is acceptable in a statistical
/// bound, and the result is equal on every machine.
fn ln(x: f32) -> f32 {
    let bits = x.to_bits();
    let exponent = (bits >> 23) as f32 - 127.0;
    let mantissa = f32::from_bits((bits & 0x007f_ffff) | 0x3f80_0000);
    let log2 = exponent + (mantissa - 1.0) * (1.343 - 0.343 * (mantissa - 1.0));
    log2 * std::f32::consts::LN_2
}

/// Returns the pairs of horizontally or vertically adjacent pixels, sorted by their largest channel difference.
fn sorted_pairs(rgb: &[u8], width: usize, height: usize) -> Vec<(u32, u32)> {
    let difference = |p: usize, q: usize| {
        (0..3).map(|c| rgb[p * 3 + c].abs_diff(rgb[q * 3 + c])).max().map_or(0, usize::from)
    };
    let each_pair = |visit: &mut dyn FnMut(usize, usize)| {
        for y in 0..height {
            for x in 0..width {
                let p = y * width + x;
                if x + 1 < width {
                    visit(p, p + 1);
                }
                if y + 1 < height {
                    visit(p, p + width);
                }
            }
        }
    };
    let mut starts = [0usize; 257];
    each_pair(&mut |p, q| starts[difference(p, q) + 1] += 1);
    for level in 0..256 {
        starts[level + 1] += starts[level];
    }
    let mut pairs = vec![(0u32, 0u32); starts[256]];
    each_pair(&mut |p, q| {
        let slot = &mut starts[difference(p, q)];
        pairs[*slot] = (p as u32, q as u32);
        *slot += 1;
    });
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn components(labels: &[u8], width: usize) -> usize {
        let mut seen = vec![false; labels.len()];
        let mut count = 0;
        for start in 0..labels.len() {
            if seen[start] {
                continue;
            }
            count += 1;
            seen[start] = true;
            let mut stack = vec![start];
            while let Some(p) = stack.pop() {
                let x = p % width;
                let around = [
                    (x > 0).then(|| p - 1),
                    (x + 1 < width).then_some(p + 1),
                    p.checked_sub(width),
                    Some(p + width).filter(|&q| q < labels.len()),
                ];
                for q in around.into_iter().flatten() {
                    if !seen[q] && labels[q] == labels[p] {
                        seen[q] = true;
                        stack.push(q);
                    }
                }
            }
        }
        count
    }

    fn check(cut: &Segmented) {
        let (width, height) = (cut.picture.width as usize, cut.picture.height as usize);
        assert_eq!(cut.labels.len(), width * height);
        assert_eq!(cut.picture.rgb.len(), width * height * 3);
        let regions = usize::from(cut.regions);
        assert!((1..=MAX_REGIONS).contains(&regions));
        let mut next = 0;
        for &label in &cut.labels {
            assert!(label <= next, "labels are numbered by first appearance");
            next = next.max(label + 1);
        }
        assert_eq!(next, cut.regions);
        assert_eq!(components(&cut.labels, width), regions, "every region is connected");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn regions_are_connected_dense_and_few(
            (width, height, rgb) in (1u32..40, 1u32..40).prop_flat_map(|(w, h)| {
                (Just(w), Just(h), proptest::collection::vec(any::<u8>(), (w * h * 3) as usize))
            }),
        ) {
            check(&segment(&Picture::new(width, height, rgb)));
        }
    }

    #[test]
    fn pictures_of_extreme_shapes_are_segmented() {
        for (width, height) in [(1, 1), (256, 1), (1, 256), (2, 200)] {
            let rgb = (0..width * height).flat_map(|i| [(i % 251) as u8, (i % 7 * 30) as u8, 9]).collect();
            check(&segment(&Picture::new(width, height, rgb)));
        }
    }

    #[test]
    fn flat_areas_survive_noise() {
        let mut random = armature_apps::random::Random::new(3);
        let mut rgb = Vec::new();
        for i in 0..120 * 100usize {
            let colour = match (i % 120 < 60, i / 120 < 50) {
                (true, true) => [180.0, 60.0, 60.0],
                (false, true) => [60.0, 180.0, 60.0],
                (true, false) => [60.0, 60.0, 180.0],
                (false, false) => [170.0, 170.0, 60.0],
            };
            rgb.extend(colour.map(|v: f32| (v + 5.0 * random.normal()).clamp(0.0, 255.0) as u8));
        }
        let cut = segment(&Picture::new(120, 100, rgb));
        check(&cut);
        assert_eq!(cut.regions, 4);
    }

    #[test]
    fn approximate_logarithm_is_accurate() {
        for x in [1.0f32, 1.3, 1.5, 2.0, 3.0, 10.0, 1000.0, 1e9] {
            assert!((ln(x) - x.ln()).abs() < 0.01 * x.ln().abs() + 0.01, "ln {x}");
        }
    }
}
