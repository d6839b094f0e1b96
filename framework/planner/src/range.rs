//! Which numbers the models work with.
//!
//! Models add, multiply and divide what they are told. Within these limits a product or quotient of any four numbers, summed
//! over all that there is, is still a number, and none becomes 0; so what is checked once, where it comes in, needs no check
//! later. Times in seconds, sizes in bytes, speeds and works of real machines are far within, whatever their units.

/// Smallest number above 0.
pub(crate) const SMALLEST: f64 = 1e-60;
/// Largest number.
pub(crate) const LARGEST: f64 = 1e60;
/// Most ranks of a loop, and numbers of workers that are compared: far beyond any machine. What is kept of a rank is some hundred
/// bytes, and to try that many numbers one by one takes some milliseconds.
pub(crate) const MOST_RANKS: usize = 1 << 20;
/// What is expected of a number that must be more than 0, for messages.
pub(crate) const POSITIVE: &str = "from 1e-60 to 1e60";
/// What is expected of a number that may be 0, for messages.
pub(crate) const AMOUNT: &str = "0, or from 1e-60 to 1e60";

/// Numbers that were computed in two ways from the same ones count as equal within this part of them: each of some thousand
/// operations rounds by 2^-53 at most. With much less a search goes round between equal mappings, with much more it
/// misses gains that can be measured.
pub(crate) const ROUNDING: f64 = 1e-12;

/// Whether a number that is not negative is less than another by more than [`ROUNDING`].
pub(crate) fn is_less(value: f64, than: f64) -> bool {
    value < than * (1.0 - ROUNDING)
}

/// Whether it can be a speed, a bandwidth, a length: something that others are divided by.
pub(crate) fn is_positive(value: f64) -> bool {
    (SMALLEST..=LARGEST).contains(&value)
}

/// Whether it can be a work, a size, a cost: something of which there may be nothing.
pub(crate) fn is_amount(value: f64) -> bool {
    value == 0.0 || is_positive(value)
}

/// The nearest amount to what was measured; none of what is negative, infinite or no number.
pub(crate) fn amount(value: f64) -> Option<f64> {
    let near = if (0.0..SMALLEST).contains(&value) { 0.0 } else { value };
    is_amount(near).then_some(near)
}

/// The same for those who cannot refuse: what is negative or no number is 0, and what is too large the largest number.
pub(crate) fn amount_or_nearest(value: f64) -> f64 {
    amount(value).unwrap_or(if value > 0.0 { LARGEST } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_refused_or_brought_within() {
        let cases = [
            (0.0, Some(0.0), 0.0),
            (-0.0, Some(0.0), 0.0),
            (5e-324, Some(0.0), 0.0),
            (SMALLEST, Some(SMALLEST), SMALLEST),
            (1.5, Some(1.5), 1.5),
            (LARGEST, Some(LARGEST), LARGEST),
            (1e61, None, LARGEST),
            (f64::INFINITY, None, LARGEST),
            (f64::NAN, None, 0.0),
            (-1.0, None, 0.0),
            (f64::NEG_INFINITY, None, 0.0),
        ];
        for (value, expected, nearest) in cases {
            assert_eq!((amount(value), amount_or_nearest(value)), (expected, nearest), "{value}");
        }
        assert!(!is_positive(0.0) && !is_positive(f64::NAN) && is_positive(1e-60) && is_amount(0.0));
        for (text, limit) in
            [POSITIVE, AMOUNT].into_iter().flat_map(|text| [(text, SMALLEST), (text, LARGEST)])
        {
            assert!(text.contains(&format!("{limit:e}")), "{text}");
        }
    }
}
