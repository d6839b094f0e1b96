//! Formats times and amounts of memory for users.

/// Formats a time below 10 s with three decimals, below a minute with one, otherwise in minutes and seconds or hours and minutes.
pub(super) fn seconds(time: f64) -> String {
    match time {
        t if t < 10.0 => format!("{t:.3} s"),
        t if t < 60.0 => format!("{t:.1} s"),
        t if t < 3600.0 => format!("{:.0} min {:02.0} s", (t / 60.0).floor(), (t % 60.0).floor()),
        t => format!("{:.0} h {:02.0} min", (t / 3600.0).floor(), (t / 60.0).floor() % 60.0),
    }
}

/// Formats bytes with three digits and a binary unit, as in `1.50 GiB`.
pub(super) fn bytes(amount: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = amount as f64;
    let mut unit = 0;
    // A value that would be rounded to four digits is shown in the next larger unit.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

pub(super) fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{:.0} %", 100.0 * part / whole) } else { "–".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_with_three_significant_digits() {
        let shown: Vec<_> = [0, 999, 1000, 1536, 10 << 20, (3 << 30) / 2, u64::MAX].map(bytes).into();
        assert_eq!(shown, ["0 B", "999 B", "0.98 KiB", "1.50 KiB", "10.0 MiB", "1.50 GiB", "16777216 TiB"]);
        let shown: Vec<_> = [0.0, 9.9, 59.0, 60.0, 3599.0, 7290.0].map(seconds).into();
        assert_eq!(shown, ["0.000 s", "9.900 s", "59.0 s", "1 min 00 s", "59 min 59 s", "2 h 01 min"]);
    }
}
