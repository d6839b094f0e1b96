//! Distance between two regions: the ground distance of the earth mover's distance.

use crate::features::{Region, Vector};

/// Distances are cut off here: beyond it two regions are simply different, and an occasional far-off region
/// must not outweigh the rest (thresholded ground distance, as in the CIKM 2004 paper; Pele and Werman,
/// "Fast and Robust Earth Mover's Distances", ICCV 2009, show that it stays a metric).
pub const CUT_OFF: f32 = 0.6;

/// Euclidean distance between two vectors, at most [`CUT_OFF`].
pub fn ground(a: &Vector, b: &Vector) -> f32 {
    let mut sum = 0f32;
    for (x, y) in a.iter().zip(b) {
        sum += (x - y) * (x - y);
    }
    sum.sqrt().min(CUT_OFF)
}

/// All distances between the regions of two images, row by row for `a`.
pub fn matrix(a: &[Region], b: &[Region], out: &mut Vec<f32>) {
    out.clear();
    for x in a {
        out.extend(b.iter().map(|y| ground(&x.vector, &y.vector)));
    }
}
