//! Range of the numbers that the models accept.
//!
//! Models add, multiply and divide their input. Within this range a product or quotient of any four numbers, summed over all stages, tasks and
//! processors, is a finite number, and no product becomes 0. A number that was checked on input therefore needs no later check. Times in seconds,
//! sizes in bytes, and speeds and works of real machines are far within the range, whatever their units.

/// Smallest number above 0 that the planner's models accept.
pub const SMALLEST: f64 = 1e-60;
/// Largest number that the planner's models accept.
pub const LARGEST: f64 = 1e60;
/// Maximum number of ranks of a loop, and of worker counts that are compared: far beyond any machine. The state of one rank takes some hundred
/// bytes, and a comparison of this number of worker counts takes some milliseconds.
pub const MOST_RANKS: usize = 1 << 20;
/// Text in error messages about a number that must be above 0: the accepted range.
pub const POSITIVE: &str = "from 1e-60 to 1e60";
/// Text in error messages about a number that may be 0: the accepted range.
pub const AMOUNT: &str = "0, or from 1e-60 to 1e60";

/// Relative difference up to which two numbers computed in different ways from equal input count as equal; each of some thousand operations has a
/// rounding error of at most 2^-53. With a much smaller value a search cycles between equal mappings, with a much larger one it misses gains that
/// can be measured.
pub const ROUNDING: f64 = 1e-12;

/// Returns true if `value` is less than `than` by more than a relative difference of [`ROUNDING`]. Both must not be negative.
pub fn is_less(value: f64, than: f64) -> bool {
    value < than * (1.0 - ROUNDING)
}

/// Returns true if the planner's models accept the value as a divisor: a speed, a bandwidth or a length.
pub fn is_positive(value: f64) -> bool {
    (SMALLEST..=LARGEST).contains(&value)
}

/// Returns true if the planner's models accept the value as a work, a size or a cost, which may be 0.
pub fn is_amount(value: f64) -> bool {
    value == 0.0 || is_positive(value)
}

/// Returns a measured value as a number that the models accept: 0 for a value below [`SMALLEST`], otherwise the value itself. `None` if the value is
/// negative, infinite, above [`LARGEST`] or NaN.
pub fn amount(value: f64) -> Option<f64> {
    let near = if (0.0..SMALLEST).contains(&value) { 0.0 } else { value };
    is_amount(near).then_some(near)
}

/// Returns a value as a number that the models accept, for callers that cannot reject the value: 0 for a NaN or a value below [`SMALLEST`],
/// [`LARGEST`] for a value above `LARGEST`, and otherwise the value itself.
pub fn amount_or_nearest(value: f64) -> f64 {
    amount(value).unwrap_or(if value > 0.0 { LARGEST } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_accepted_refused_or_clamped() {
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
