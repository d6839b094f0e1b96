//! Colours of points by the number of steps after which they leave the neighbourhood of the Mandelbrot set.

use crate::escape::log2;
use serde::Serialize;

/// Colour as red, green and blue.
pub type Rgb = [u8; 3];

/// Palette of a picture. Points inside of the set are black.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
pub enum Palette {
    /// Night blue, white and amber
    Ocean,
    /// Black, red, yellow, white
    Fire,
    /// Shades of grey
    Grey,
}

/// Colours of a palette, equally spaced on a ring; the colours between them are interpolated.
type Ring = &'static [Rgb];

const OCEAN: Ring = &[
    [0, 7, 60],
    [9, 44, 120],
    [32, 107, 203],
    [120, 190, 240],
    [237, 250, 255],
    [255, 210, 110],
    [240, 145, 20],
    [110, 50, 20],
];
const FIRE: Ring = &[[10, 0, 0], [110, 5, 0], [220, 50, 0], [255, 150, 10], [255, 240, 120], [200, 90, 30]];
const GREY: Ring = &[[20, 20, 20], [235, 235, 235]];

/// Number of turns around the ring of colours per doubling of a point's number of iteration steps.
const TURNS: f64 = 0.28;
/// Start position on the ring of colours, chosen so that points far from the Mandelbrot set are dark.
const START: f64 = 0.45;

impl Palette {
    /// Returns the colour of a point with `smooth` iteration steps, or black for `None` (a point inside of the Mandelbrot set).
    pub fn colour(self, smooth: Option<f64>) -> Rgb {
        let Some(smooth) = smooth else { return [0, 0, 0] };
        let ring = match self {
            Palette::Ocean => OCEAN,
            Palette::Fire => FIRE,
            Palette::Grey => GREY,
        };
        // Towards the Mandelbrot set, the bands of points with equal numbers of steps become narrower; the logarithm gives all bands about the same
        // range of colours.
        let turn = START + TURNS * log2(smooth.max(0.0) + 1.0);
        let place = (turn - turn.floor()) * ring.len() as f64;
        let here = (place as usize).min(ring.len() - 1);
        let (from, to, part) = (ring[here], ring[(here + 1) % ring.len()], place - here as f64);
        std::array::from_fn(|c| {
            let (from, to) = (f64::from(from[c]), f64::from(to[c]));
            (from + part * (to - from) + 0.5) as u8
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_change_gradually_and_the_inside_is_black() {
        for palette in [Palette::Ocean, Palette::Fire, Palette::Grey] {
            assert_eq!(palette.colour(None), [0, 0, 0]);
            for i in 0..20_000 {
                let at = |i: u32| palette.colour(Some(f64::from(i) * 0.01));
                let (a, b) = (at(i), at(i + 1));
                let change = (0..3).map(|c| a[c].abs_diff(b[c])).max().unwrap_or(0);
                assert!(change <= 8, "{palette:?} at {i}: {a:?} {b:?}");
            }
        }
        assert_ne!(Palette::Ocean.colour(Some(3.0)), Palette::Fire.colour(Some(3.0)));
    }
}
