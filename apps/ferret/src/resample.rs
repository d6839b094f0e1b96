//! Resizing of a raster image with a triangle filter: bilinear interpolation for enlarging, an average over the covered area for shrinking.
//!
//! The filter only uses additions, multiplications and divisions, so that the bytes are equal on every machine.

/// Weighted source samples of one output position. The sum of the weights is one.
struct Taps {
    first: usize,
    weights: Vec<f32>,
}

fn taps(from: usize, to: usize) -> Vec<Taps> {
    let ratio = from as f32 / to as f32;
    let radius = ratio.max(1.0);
    (0..to)
        .map(|position| {
            let centre = (position as f32 + 0.5) * ratio - 0.5;
            let first = (centre - radius).ceil().max(0.0) as usize;
            let last = ((centre + radius).floor().max(0.0) as usize).min(from - 1);
            let mut weights: Vec<f32> =
                (first..=last).map(|s| (1.0 - (s as f32 - centre).abs() / radius).max(0.0)).collect();
            let sum: f32 = weights.iter().sum();
            if sum > 0.0 {
                weights.iter_mut().for_each(|w| *w /= sum);
            } else {
                // The sum of the weights is 0 only if rounding puts every sample of the filter window at its edge, where the weight is 0. Then all
                // samples get the same weight.
                let even = 1.0 / weights.len() as f32;
                weights.fill(even);
            }
            Taps { first, weights }
        })
        .collect()
}

/// Resizes an interleaved raster of `C` channels from `width`×`height` to `new_width`×`new_height`.
///
/// # Panics
/// Panics if a dimension is zero or the length of `pixels` is not `width * height * C`.
pub fn resample<const C: usize>(
    pixels: &[u8],
    (width, height): (usize, usize),
    (new_width, new_height): (usize, usize),
) -> Vec<u8> {
    assert!(width > 0 && height > 0 && new_width > 0 && new_height > 0, "an image has no empty side");
    assert_eq!(pixels.len(), width * height * C, "raster of {width}x{height}, {C} channels");
    if (width, height) == (new_width, new_height) {
        return pixels.to_vec();
    }
    let across = taps(width, new_width);
    let down = taps(height, new_height);
    let row_len = new_width * C;
    // Only the source rows that the current output row needs are kept, so that a large photograph takes no second raster of floats.
    let mut rows: Vec<Option<Vec<f32>>> = (0..height).map(|_| None).collect();
    let mut out = Vec::with_capacity(new_height * row_len);
    let mut sums = vec![0f32; row_len];
    let mut retired = 0;
    for tap in &down {
        for row in &mut rows[retired..tap.first.max(retired)] {
            *row = None;
        }
        retired = retired.max(tap.first);
        sums.fill(0.5);
        for (offset, &weight) in tap.weights.iter().enumerate() {
            let y = tap.first + offset;
            let source = &pixels[y * width * C..(y + 1) * width * C];
            let row = rows[y].get_or_insert_with(|| squeeze::<C>(source, &across));
            for (sum, value) in sums.iter_mut().zip(row.iter()) {
                *sum += weight * value;
            }
        }
        out.extend(sums.iter().map(|&sum| sum as u8));
    }
    out
}

fn squeeze<const C: usize>(source: &[u8], across: &[Taps]) -> Vec<f32> {
    let mut row = Vec::with_capacity(across.len() * C);
    for tap in across {
        let mut sum = [0f32; C];
        let samples = source[tap.first * C..].chunks_exact(C);
        for (pixel, &weight) in samples.zip(&tap.weights) {
            for channel in 0..C {
                sum[channel] += weight * f32::from(pixel[channel]);
            }
        }
        row.extend_from_slice(&sum);
    }
    row
}

#[cfg(test)]
mod tests {
    use super::resample;
    use proptest::prelude::*;

    #[test]
    fn halving_averages_and_doubling_interpolates() {
        let halved = resample::<1>(&[0, 0, 0, 100, 100, 100], (6, 1), (3, 1));
        assert_eq!(halved, [0, 50, 100]);
        let doubled = resample::<1>(&[0, 100], (2, 1), (4, 1));
        assert_eq!(doubled, [0, 25, 75, 100]);
    }

    proptest! {
        #[test]
        fn flat_raster_stays_flat(
            w in 1usize..40, h in 1usize..40, nw in 1usize..60, nh in 1usize..60, value in any::<[u8; 3]>(),
        ) {
            let flat: Vec<u8> = value.iter().copied().cycle().take(w * h * 3).collect();
            let out = resample::<3>(&flat, (w, h), (nw, nh));
            prop_assert_eq!(out.len(), nw * nh * 3);
            prop_assert!(out.chunks_exact(3).all(|pixel| pixel == value));
        }

        #[test]
        fn values_stay_within_the_range_of_the_source(
            pixels in proptest::collection::vec(20u8..200, 35), nw in 1usize..30, nh in 1usize..30,
        ) {
            let out = resample::<1>(&pixels, (7, 5), (nw, nh));
            let (low, high) = (pixels.iter().min().unwrap(), pixels.iter().max().unwrap());
            prop_assert!(out.iter().all(|v| v >= low && v <= high));
        }
    }
}
