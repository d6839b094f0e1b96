//! Amounts of memory and time with units.

use std::time::Duration;

/// Units of memory, in bytes. Decimal and binary prefixes differ, as in IEC 80000-13.
const MEMORY: [(&str, u64); 9] = [
    ("B", 1),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Units of time, in seconds.
const TIME: [(&str, u64); 5] = [("s", 1), ("min", 60), ("m", 60), ("h", 3600), ("d", 86_400)];

/// Parses a number of bytes with an optional unit. Returns `None` if the text is not an amount, or if the amount exceeds 64 bits.
///
/// ```
/// use armature_workflow_files::bytes;
/// assert_eq!([bytes("2 GiB"), bytes("500MB"), bytes("123")], [Some(2 << 30), Some(500_000_000), Some(123)]);
/// assert_eq!(bytes("1.5 GB"), None);
/// ```
pub fn bytes(text: &str) -> Option<u64> {
    amount(text, &MEMORY)
}

/// Parses a time in whole seconds, minutes, hours or days. Returns `None` if the text is not a time, or if the seconds exceed 64 bits.
///
/// ```
/// use armature_workflow_files::time;
/// assert_eq!(["90", "90 s", "5min", "5m", "2 h"].map(|text| time(text).unwrap().as_secs()), [90, 90, 300, 300, 7200]);
/// assert_eq!(time("soon"), None);
/// ```
pub fn time(text: &str) -> Option<Duration> {
    amount(text, &TIME).map(Duration::from_secs)
}

fn amount(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim_start();
    let factor = if unit.is_empty() { 1 } else { units.iter().find(|known| known.0 == unit)?.1 };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_parsed_with_units_and_do_not_overflow() {
        assert_eq!(bytes("2 GiB"), Some(2 << 30));
        assert_eq!(bytes("500MB"), Some(500_000_000));
        assert_eq!(bytes("7"), Some(7));
        assert_eq!(time("5 min"), Some(Duration::from_secs(300)));
        for wrong in ["", "GiB", "-1 B", "1.5 GB", "1 gb", "99999999999 TiB"] {
            assert_eq!(bytes(wrong), None, "{wrong:?}");
        }
    }
}
