//! Numbers as people read them.

use std::time::Duration;

/// From one prefix of a unit to the next.
const STEP: f64 = 1e3;

/// From here on a number is shown with the next prefix, which leaves two figures before the point.
const MANY: f64 = 10.0 * STEP;

/// A time, or a difference of times, in the unit that suits it.
pub fn seconds(s: f64) -> String {
    let (mut value, mut unit) = (s, "s");
    for smaller in ["ms", "us", "ns"] {
        if value.abs() < 1.0 {
            (value, unit) = (value * STEP, smaller);
        }
    }
    let digits = if unit == "ns" { 1 } else { 3 };
    match format!("{value:.digits$} {unit}") {
        nothing if nothing.trim_start_matches('-') == "0.0 ns" => "0 s".to_string(),
        text => text,
    }
}

/// A number with three figures or so.
pub fn short(x: f64) -> String {
    let (mut value, mut prefix) = (x, "");
    for larger in [" k", " M"] {
        if value >= MANY {
            (value, prefix) = (value / STEP, larger);
        }
    }
    match prefix {
        "" if x >= 100.0 => format!("{x:.0}"),
        "" => format!("{x:.2}"),
        _ => format!("{value:.1}{prefix}"),
    }
}

/// A part of a whole, in per cent with this many `decimals`.
pub fn percent(part: f64, decimals: usize) -> String {
    format!("{:.decimals$} %", 100.0 * part)
}

/// How much of `amount` there is in each second of `time`, however short that is.
pub(crate) fn per_second(amount: f64, time: Duration) -> f64 {
    amount / time.max(Duration::from_nanos(1)).as_secs_f64()
}

/// A number and the name of what is counted: `1 rank`, `3 batches`.
pub fn count(n: u64, thing: &str) -> String {
    match n {
        1 => format!("1 {thing}"),
        n if thing.ends_with("ch") => format!("{n} {thing}es"),
        n => format!("{n} {thing}s"),
    }
}

/// Numbers in a row.
pub(crate) fn figures(numbers: &[u64]) -> String {
    let list: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    list.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_suits_them() {
        let shown = [0.0, 1e-12, 2e-9, 2.5e-6, -0.004, 12.0, f64::INFINITY].map(seconds);
        assert_eq!(shown, ["0 s", "0 s", "2.0 ns", "2.500 us", "-4.000 ms", "12.000 s", "inf s"]);
    }

    #[test]
    fn numbers_have_the_prefix_that_suits_them() {
        let shown = [0.0, 12.345, 123.4, 9999.0, 12_345.0, 9_990_000.0, 12_345_678.0].map(short);
        assert_eq!(shown, ["0.00", "12.35", "123", "9999", "12.3 k", "9990.0 k", "12.3 M"]);
        assert_eq!([percent(0.125, 0), percent(1.0 / 3.0, 1)], ["12 %", "33.3 %"]);
    }

    #[test]
    fn a_rate_is_finite() {
        assert_eq!(per_second(3.0, Duration::from_millis(500)), 6.0);
        assert!(per_second(3.0, Duration::ZERO).is_finite());
    }

    #[test]
    fn one_thing_is_not_several() {
        assert_eq!([0, 1, 2].map(|n| count(n, "batch")), ["0 batches", "1 batch", "2 batches"]);
    }
}
