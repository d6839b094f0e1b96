//! What each stage costs, for runs on simulated machines where computing takes no time by itself.
//!
//! In floating-point operations of a processor that does 10⁹ a second: the stages were timed in a release
//! build on one core of a server of 2023, by `ferret eval synth` (whose last table shows measured beside
//! estimated times), and a nanosecond counts as one operation. The estimates follow the sizes that the work
//! really depends on, so cheap and dear items differ as they do in reality.

use crate::segment::WORKING_PIXELS;

/// Decoding a file of `bytes` bytes to `width`×`height` pixels.
pub fn load(bytes: usize, width: u32, height: u32) -> f64 {
    20_000.0 + 12.0 * bytes as f64 + 8.0 * pixels(width, height)
}

/// Segmentation: resampling depends on the image, the rest on the working size that all images share.
pub fn segment(width: u32, height: u32) -> f64 {
    5.0 * pixels(width, height) + 60.0 * f64::from(WORKING_PIXELS)
}

/// Describing the regions: one pass over the working size.
pub fn describe() -> f64 {
    10.0 * f64::from(WORKING_PIXELS)
}

/// Looking up `regions` regions in an index over `indexed` regions of `images` images.
pub fn search(regions: usize, indexed: usize, images: usize) -> f64 {
    let (regions, indexed) = (regions as f64, indexed as f64);
    40_000.0 * regions + 1.0 * regions * indexed + 40.0 * images as f64
}

/// Comparing a query of `regions` regions with candidates that have `candidate_regions` regions in all.
pub fn rank(regions: usize, candidate_regions: usize) -> f64 {
    60.0 * regions as f64 * candidate_regions as f64
}

/// Formatting `lines` lines.
pub fn out(lines: usize) -> f64 {
    500.0 + 400.0 * lines as f64
}

fn pixels(width: u32, height: u32) -> f64 {
    f64::from(width) * f64::from(height)
}
