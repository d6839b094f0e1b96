//! Numbers with units as a person would write them, for pages, figures and sentences.

use armature::observe::number_format::short;

/// Formats a length of time with about three digits: `27.3 ms`, `1.22 s`, `2 min 5 s`, `3 h 12 min`, `2 d 3 h`.
pub(crate) fn time(seconds: f64) -> String {
    // Minimum times, in seconds, that are written in minutes, hours and days. They have two units.
    const MINUTES: f64 = 120.0;
    const HOURS: f64 = 7200.0;
    const DAYS: f64 = 172_800.0;
    let two = |small_s: f64, per_large: u64, large: &str, small: &str| {
        let count = (seconds / small_s).round() as u64;
        format!("{} {large} {} {small}", count / per_large, count % per_large)
    };
    match seconds.abs() {
        s if !s.is_finite() => "unknown".to_string(),
        s if s >= DAYS => two(3600.0, 24, "d", "h"),
        s if s >= HOURS => two(60.0, 60, "h", "min"),
        s if s >= MINUTES => two(1.0, 60, "min", "s"),
        s if s >= 0.9995 => format!("{} s", digits(seconds)),
        s if s >= 0.999_5e-3 => format!("{} ms", digits(seconds * 1e3)),
        s if s >= 0.999_5e-6 => format!("{} µs", digits(seconds * 1e6)),
        s if s >= 0.5e-9 => format!("{:.0} ns", seconds * 1e9),
        _ => "0 s".to_string(),
    }
}

/// Formats a number from 1 to 1000 with three digits, without zeros at the end of a fraction.
fn digits(x: f64) -> String {
    let decimals = match x.abs() {
        x if x >= 99.95 => 0,
        x if x >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{x:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// Formats a number of bytes: `512 B`, `12.0 kB`.
pub(crate) fn bytes_text(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        _ => format!("{}B", short(bytes as f64)),
    }
}

/// Formats a number of messages or items.
pub(crate) fn short_count(n: u64) -> String {
    if n < 100_000 { n.to_string() } else { short(n as f64) }
}

/// Formats a list of numbers with ranges, such as `0-3, 7`. The numbers must be in ascending order.
pub(crate) fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    runs.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_units_that_a_person_would_choose() {
        let shown =
            [0.0, 3e-9, 1.5e-5, 5.0e-4, 0.0273, 0.9999, 1.22, 12.345, 119.6, 125.0, 11_520.0, 183_600.0]
                .map(time);
        let expected = [
            "0 s",
            "3 ns",
            "15 µs",
            "500 µs",
            "27.3 ms",
            "1 s",
            "1.22 s",
            "12.3 s",
            "120 s",
            "2 min 5 s",
            "3 h 12 min",
            "2 d 3 h",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn consecutive_numbers_are_written_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 3, 7]), "0-3, 7");
        assert_eq!(ranges(&[]), "");
    }
}
