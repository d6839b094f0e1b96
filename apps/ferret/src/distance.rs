//! Distance of two image regions, the ground distance of the earth mover's distance.

use crate::features::{Region, Vector};

/// Maximum distance of two image regions. A larger Euclidean distance counts as this one, because a single region without a similar one must not
/// outweigh the others (thresholded ground distance, as in the CIKM 2004 paper). Pele and Werman, "Fast and Robust Earth Mover's Distances", ICCV
/// 2009, show that the thresholded distance is a metric.
pub const CUT_OFF: f32 = 0.6;

/// Returns the Euclidean distance of two region vectors, at most [`CUT_OFF`].
pub fn ground(a: &Vector, b: &Vector) -> f32 {
    let mut sum = 0f32;
    for (x, y) in a.iter().zip(b) {
        sum += (x - y) * (x - y);
    }
    sum.sqrt().min(CUT_OFF)
}

/// Writes the distances between the regions of two images to `out`, one row for each region of `a`.
pub fn matrix(a: &[Region], b: &[Region], out: &mut Vec<f32>) {
    out.clear();
    for x in a {
        out.extend(b.iter().map(|y| ground(&x.vector, &y.vector)));
    }
}
