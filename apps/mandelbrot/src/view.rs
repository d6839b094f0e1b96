//! Part of the complex plane that a picture shows.

use serde::Serialize;

/// Rectangle of the complex plane, divided into square pixels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct View {
    /// Number of pixels in a row of the picture.
    pub width: u32,
    /// Number of rows of pixels.
    pub height: u32,
    /// Real and imaginary part of the picture's centre.
    pub center: (f64, f64),
    /// Magnification: 1 shows the whole Mandelbrot set, 2 half of its width and height.
    pub zoom: f64,
}

/// Minimum width and height of the shown rectangle at zoom 1. The Mandelbrot set lies between −2 and 0.5, and between ±1.13 i.
const WHOLE: (f64, f64) = (3.5, 2.4);
/// Maximum side of a picture in pixels.
pub const MAX_PIXELS: u32 = 16_384;

impl View {
    /// Returns the side length of a pixel in the complex plane.
    pub fn pixel(&self) -> f64 {
        f64::max(WHOLE.0 / f64::from(self.width), WHOLE.1 / f64::from(self.height)) / self.zoom
    }

    /// Returns the point of the complex plane `x` pixels to the right of and `y` pixels below the upper left corner of the picture.
    pub fn point(&self, x: f64, y: f64) -> (f64, f64) {
        let (x, y) = (x - 0.5 * f64::from(self.width), y - 0.5 * f64::from(self.height));
        (self.center.0 + x * self.pixel(), self.center.1 - y * self.pixel())
    }

    /// Checks that the view can be drawn.
    ///
    /// # Errors
    /// A side without pixels or with too many pixels, a centre or a zoom out of range, or a zoom so deep that neighbouring points (`samples` along
    /// each side of a pixel) are equal in double precision.
    pub fn check(&self, samples: u32) -> Result<(), String> {
        let View { width, height, center, zoom } = *self;
        if !(1..=MAX_PIXELS).contains(&width) || !(1..=MAX_PIXELS).contains(&height) {
            return Err(format!(
                "a picture of {width}x{height} pixels: expected sides from 1 to {MAX_PIXELS}"
            ));
        }
        if !center.0.is_finite() || !center.1.is_finite() || center.0.abs() > 10.0 || center.1.abs() > 10.0 {
            return Err(format!("center {},{}: expected numbers from -10 to 10", center.0, center.1));
        }
        if !zoom.is_finite() || zoom < 0.01 {
            return Err(format!("zoom {zoom}: expected a number from 0.01"));
        }
        // `spacing` is the distance of neighbouring floating-point numbers near the centre. Points at eight times this distance show no visible
        // blocks of equal colour.
        let spacing = center.0.abs().max(center.1.abs()).max(0.25) * f64::EPSILON;
        let points = self.pixel() / f64::from(samples);
        if points < 8.0 * spacing {
            let most = zoom * points / (8.0 * spacing);
            return Err(format!(
                "zoom {zoom:e} is beyond double precision for this picture: expected at most {most:.1e}"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE: View = View { width: 300, height: 100, center: (-0.75, 0.1), zoom: 1.0 };

    #[test]
    fn middle_pixel_is_the_center_and_imaginary_axis_points_up() {
        assert_eq!(WIDE.point(150.0, 50.0), (-0.75, 0.1));
        assert!(WIDE.point(150.0, 49.0).1 > 0.1);
        assert!(WIDE.point(151.0, 50.0).0 > -0.75);
    }

    #[test]
    fn whole_set_fits_into_pictures_of_any_shape() {
        for (width, height) in [(300, 100), (100, 300), (150, 100)] {
            let view = View { width, height, center: (-0.75, 0.0), zoom: 1.0 };
            let (left, top) = view.point(0.0, 0.0);
            assert!(left <= -2.0 && top >= 1.13, "{width}x{height}: {left} {top}");
        }
    }

    #[test]
    fn unusable_views_are_refused() {
        assert_eq!(WIDE.check(2), Ok(()));
        assert!(View { width: 0, ..WIDE }.check(1).unwrap_err().contains("expected sides from 1"));
        assert!(View { center: (f64::NAN, 0.0), ..WIDE }.check(1).unwrap_err().contains("expected numbers"));
        assert!(View { zoom: 0.0, ..WIDE }.check(1).unwrap_err().contains("zoom 0"));
        let error = View { zoom: 1e15, ..WIDE }.check(1).unwrap_err();
        assert!(error.contains("beyond double precision"), "{error}");
        let most: f64 = error.rsplit(' ').next().unwrap().parse().unwrap();
        assert_eq!(View { zoom: 0.99 * most, ..WIDE }.check(1), Ok(()));
        assert!(View { zoom: 1.1 * most, ..WIDE }.check(1).is_err());
    }
}
