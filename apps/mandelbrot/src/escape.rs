//! Computation of the number of iteration steps after which a point leaves the neighbourhood of the Mandelbrot set.
//!
//! The kernel only uses operations that IEEE 754 defines exactly, and no logarithm of a mathematics library. Therefore different machines draw the
//! same picture, byte by byte.

/// Bound of |z|² at which the iteration ends. A point is outside of the Mandelbrot set as soon as |z|² exceeds 4; a larger bound makes the colours
/// smooth.
const FAR: f64 = 65_536.0;
const FAR_EXPONENT: f64 = 16.0;

/// Result of the iteration z ↦ z² + c for a point c.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Escape {
    /// Number of executed steps of the iteration.
    pub steps: u32,
    /// Number of steps, interpolated to a continuous function of the point; `None` if |z| stayed small up to the limit.
    pub smooth: Option<f64>,
}

/// Iterates z ↦ z² + c from 0 until |z| exceeds 256, for at most `limit` steps.
///
/// Shortcuts for points in the two largest parts of the Mandelbrot set are deliberately not used, because the program is an example of uneven work.
pub fn escape(re: f64, im: f64, limit: u32) -> Escape {
    let (mut x, mut y, mut steps) = (0.0f64, 0.0f64, 0);
    let (mut xx, mut yy) = (0.0f64, 0.0f64);
    while steps < limit {
        y = 2.0 * x * y + im;
        x = xx - yy + re;
        (xx, yy) = (x * x, y * y);
        steps += 1;
        if xx + yy > FAR {
            // Beyond the bound, a step approximately squares |z|. Therefore log |z|² divided by its value at the bound lies between 1 and 2, and the
            // logarithm of this quotient is the fraction of a step by which the last step exceeded the bound.
            let over = log2(log2(xx + yy) / FAR_EXPONENT);
            return Escape { steps, smooth: Some(f64::from(steps) - over) };
        }
    }
    Escape { steps, smooth: None }
}

/// Number of floating-point operations in one step z ↦ z² + c.
pub const STEP_FLOPS: f64 = 8.0;

/// Returns the binary logarithm of a positive normal number, with nine correct digits.
pub fn log2(number: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = number.to_bits();
    let mut exponent = ((bits >> 52) & 0x7ff) as f64 - 1023.0;
    let mut mantissa = f64::from_bits(bits & MANTISSA | 1023 << 52);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1.0;
    }
    // Power series: ln m = 2 artanh s with s = (m − 1) / (m + 1), where |s| < 0.172.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let t = s * s;
    let series =
        1.0 + t * (1.0 / 3.0 + t * (1.0 / 5.0 + t * (1.0 / 7.0 + t * (1.0 / 9.0 + t * (1.0 / 11.0)))));
    exponent + 2.0 * std::f64::consts::LOG2_E * s * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_points_outside_the_set_escape() {
        for (re, im) in [(0.0, 0.0), (-1.0, 0.0), (-2.0, 0.0), (0.25, 0.0), (-0.75, 0.1e-9), (0.0, 1.0)] {
            let escape = escape(re, im, 5000);
            assert_eq!((escape.steps, escape.smooth), (5000, None), "{re} {im}");
        }
        // The iteration z ↦ z² + 3 yields 3, 12, 147 and 21612; the fourth value is the first above 256.
        assert_eq!(escape(3.0, 0.0, 100).steps, 4);
        // The point 0.26 is close to the cusp at 1/4, where a point takes about π/√0.01 steps to escape.
        let slow = escape(0.26, 0.0, 1000).steps;
        assert!((30..40).contains(&slow), "{slow}");
    }

    #[test]
    fn smooth_number_is_continuous() {
        let along = |i: u32| escape(0.4 + f64::from(i) * 1e-4, 0.3, 1000);
        let mut jumps = 0;
        for i in 0..2000 {
            let (here, next) = (along(i), along(i + 1));
            jumps += u32::from(here.steps != next.steps);
            let change = here.smooth.unwrap() - next.smooth.unwrap();
            assert!(change.abs() < 0.1, "at {i}: {here:?} {next:?}");
            assert!((here.smooth.unwrap() - f64::from(here.steps)).abs() <= 1.0);
        }
        assert!(jumps > 2);
    }

    #[test]
    fn fast_logarithm_agrees_with_the_standard_library() {
        for number in [1.0, 1.414, 1.4143, 2.0, 3.0, 0.001, 65_536.0, 1.9e9, 1e-300, 1e300] {
            let number: f64 = number;
            assert!((log2(number) - number.log2()).abs() < 1e-9, "{number}");
        }
    }
}
