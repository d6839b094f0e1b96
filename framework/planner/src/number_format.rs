//! Formats of numbers in messages for users.

use std::fmt;

/// Time in seconds, shown with three digits in s, ms, µs or ns.
pub(crate) struct Seconds(pub(crate) f64);

const DIGITS: usize = 3;

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut value, mut unit) = (self.0, "s");
        for smaller in ["ms", "µs", "ns"] {
            if value != 0.0 && value.abs() < 1.0 {
                (value, unit) = (value * 1e3, smaller);
            }
        }
        let before = format!("{:.0}", value.abs().trunc()).len();
        write!(f, "{value:.*} {unit}", DIGITS.saturating_sub(before))
    }
}

/// Fraction, shown as a percentage; with one decimal if the format gives no precision.
pub(crate) struct Percent(pub(crate) f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.*} %", f.precision().unwrap_or(1), 100.0 * self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_with_suitable_units() {
        let shown = [0.0, 2e-9, 2.5e-6, -0.004, 0.0999, 12.34, 4321.0].map(|s| Seconds(s).to_string());
        assert_eq!(shown, ["0.00 s", "2.00 ns", "2.50 µs", "-4.00 ms", "99.9 ms", "12.3 s", "4321 s"]);
        assert_eq!(Seconds(f64::INFINITY).to_string(), "inf s");
        assert_eq!(
            (Percent(0.1234).to_string(), format!("{:.0}", Percent(1.5))),
            ("12.3 %".into(), "150 %".into())
        );
    }
}
