//! Picture of the Mandelbrot set, whose rows can be computed independently, in any order and on any rank.

use crate::escape::{STEP_FLOPS, escape};
use crate::palette::Palette;
use crate::view::View;
use serde::Serialize;

/// Parameters that determine a picture completely.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scene {
    /// Visible part of the complex plane.
    pub view: View,
    /// Number of iteration steps after which a point counts as inside of the Mandelbrot set.
    pub limit: u32,
    /// Number of points along each side of a pixel; their colours are averaged.
    pub samples: u32,
    /// Palette of the picture.
    pub palette: Palette,
}

/// Row of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Colours of the row's pixels, three bytes per pixel.
    pub rgb: Vec<u8>,
    /// Number of floating-point operations that the computation of the row took.
    pub flops: f64,
}

impl Scene {
    /// Computes row `y` of the picture, counted from the top.
    pub fn row(&self, y: u32) -> Row {
        let mut rgb = Vec::with_capacity(self.row_bytes());
        let mut steps = 0;
        for x in 0..self.view.width {
            let (colour, iterations) = self.pixel(x, y);
            rgb.extend(colour);
            steps += iterations;
        }
        Row { rgb, flops: STEP_FLOPS * steps as f64 }
    }

    /// Returns the size of a row of the picture in bytes.
    pub fn row_bytes(&self) -> usize {
        3 * self.view.width as usize
    }

    /// Returns the whole picture, computed serially.
    pub fn serial(&self) -> Vec<u8> {
        (0..self.view.height).flat_map(|y| self.row(y).rgb).collect()
    }

    /// Returns the colour of a pixel, and the total number of iteration steps of its points.
    fn pixel(&self, x: u32, y: u32) -> ([u8; 3], u64) {
        let n = self.samples;
        let offset = |i: u32| (f64::from(i) + 0.5) / f64::from(n);
        let (mut sum, mut steps) = ([0u32; 3], 0);
        for i in 0..n {
            for j in 0..n {
                let (re, im) = self.view.point(f64::from(x) + offset(j), f64::from(y) + offset(i));
                let end = escape(re, im, self.limit);
                let colour = self.palette.colour(end.smooth);
                for (sum, part) in sum.iter_mut().zip(colour) {
                    *sum += u32::from(part);
                }
                steps += u64::from(end.steps);
            }
        }
        let points = n * n;
        (sum.map(|sum| ((sum + points / 2) / points) as u8), steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene(samples: u32) -> Scene {
        let view = View { width: 48, height: 33, center: (-0.75, 0.0), zoom: 1.0 };
        Scene { view, limit: 200, samples, palette: Palette::Ocean }
    }

    #[test]
    fn rows_form_the_picture_and_are_symmetric() {
        let scene = scene(1);
        let picture = scene.serial();
        assert_eq!(picture.len(), 33 * scene.row_bytes());
        assert_eq!(picture[16 * scene.row_bytes()..][..scene.row_bytes()], scene.row(16).rgb);
        assert_eq!(scene.row(4).rgb, scene.row(28).rgb);
        let pixel = |x: usize, y: usize| &picture[y * scene.row_bytes() + 3 * x..][..3];
        assert_eq!(pixel(31, 16), [0, 0, 0]);
        assert_ne!(pixel(0, 0), [0, 0, 0]);
    }

    #[test]
    fn rows_differ_much_in_work() {
        let flops: Vec<f64> = (0..33).map(|y| scene(1).row(y).flops).collect();
        let most = flops.iter().fold(0.0f64, |a, &b| a.max(b));
        let least = flops.iter().fold(f64::INFINITY, |a, &b| a.min(b));
        assert!(most > 10.0 * least, "{least} to {most}");
    }

    #[test]
    fn more_samples_cost_more_and_smooth_edges() {
        let (one, four) = (scene(1).row(10), scene(2).row(10));
        assert!((3.0..5.0).contains(&(four.flops / one.flops)), "{} {}", one.flops, four.flops);
        assert_ne!(one.rgb, four.rgb);
    }
}
