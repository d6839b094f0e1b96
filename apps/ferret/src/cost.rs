//! Cost model of the stages of `ferret`'s pipeline, for runs on simulated machines, where computing takes no time.
//!
//! The unit is one floating-point operation of a processor with 10⁹ operations per second. The stages were timed in a release build on one core of a
//! cloud server (500 scenes of 192×128 and 2000 of 384×256 pixels, with one variant of each as query); one nanosecond counts as one operation.
//! `ferret eval synth --times` prints measured and estimated times. The estimates depend on the same sizes as the real work, so that the costs of
//! items vary as in reality.

use crate::segment::WORKING_PIXELS;

/// Returns the cost, in operations, of decoding an image file of `bytes` bytes to `width`×`height` pixels. Unpacking the bytes dominates.
pub fn load(bytes: usize, width: u32, height: u32) -> f64 {
    5_000.0 + 4.0 * bytes as f64 + 0.5 * pixels(width, height)
}

/// Returns the cost, in operations, of segmenting an image. The cost of resampling depends on the image's size. All other steps work on the resampled
/// image, whose area is about the same for all images.
pub fn segment(width: u32, height: u32) -> f64 {
    pixels(width, height) + 50.0 * f64::from(WORKING_PIXELS)
}

/// Returns the cost, in operations, of describing the regions of an image by vectors: one pass over its pixels at working size.
pub fn describe() -> f64 {
    4.5 * f64::from(WORKING_PIXELS)
}

/// Returns the cost, in operations, of looking up `regions` regions in an index of `indexed` regions of `images` images. The cost of reading the hash
/// tables is equal for all regions; the cost of comparing with the regions found grows with the database.
pub fn search(regions: usize, indexed: usize, images: usize) -> f64 {
    let (regions, indexed) = (regions as f64, indexed as f64);
    24_000.0 * regions + 2.0 * regions * indexed + 40.0 * images as f64
}

/// Returns the cost, in operations, of comparing a query of `regions` regions with candidates that have `candidate_regions` regions in total.
pub fn rank(regions: usize, candidate_regions: usize) -> f64 {
    90.0 * regions as f64 * candidate_regions as f64
}

/// Returns the cost, in operations, of formatting `lines` lines of the output.
pub fn out(lines: usize) -> f64 {
    500.0 + 300.0 * lines as f64
}

fn pixels(width: u32, height: u32) -> f64 {
    f64::from(width) * f64::from(height)
}
