//! What each stage costs, for runs on simulated machines where computing takes no time by itself.
//!
//! In floating-point operations of a processor that does 10⁹ a second: the stages were timed in a release
//! build on one core of a cloud server (500 scenes of 192×128 and 2000 of 384×256 pixels, one variant of each
//! as query), and a nanosecond counts as one operation. `ferret eval synth --times` shows measured beside
//! estimated times. The estimates follow the sizes that the work really depends on, so cheap and dear items
//! differ as they do in reality.

use crate::segment::WORKING_PIXELS;

/// Decoding a file of `bytes` bytes to `width`×`height` pixels: mostly unpacking the bytes.
pub fn load(bytes: usize, width: u32, height: u32) -> f64 {
    5_000.0 + 4.0 * bytes as f64 + 0.5 * pixels(width, height)
}

/// Segmentation: resampling depends on the image, the rest on the working size that all images share.
pub fn segment(width: u32, height: u32) -> f64 {
    pixels(width, height) + 50.0 * f64::from(WORKING_PIXELS)
}

/// Describing the regions: one pass over the working size.
pub fn describe() -> f64 {
    4.5 * f64::from(WORKING_PIXELS)
}

/// Looking up `regions` regions in an index over `indexed` regions of `images` images: probing costs the same
/// for every region, comparing with what is found grows with the database.
pub fn search(regions: usize, indexed: usize, images: usize) -> f64 {
    let (regions, indexed) = (regions as f64, indexed as f64);
    24_000.0 * regions + 2.0 * regions * indexed + 40.0 * images as f64
}

/// Comparing a query of `regions` regions with candidates that have `candidate_regions` regions in all.
pub fn rank(regions: usize, candidate_regions: usize) -> f64 {
    90.0 * regions as f64 * candidate_regions as f64
}

/// Formatting `lines` lines.
pub fn out(lines: usize) -> f64 {
    500.0 + 300.0 * lines as f64
}

fn pixels(width: u32, height: u32) -> f64 {
    f64::from(width) * f64::from(height)
}
