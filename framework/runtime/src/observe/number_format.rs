//! Text forms of numbers and times for people.

use std::time::Duration;

use crate::session::placement::ranges;

/// Factor between two successive metric prefixes, such as m and µ.
const STEP: f64 = 1e3;

/// Limit from which on a number is shown with the next larger metric prefix, so that two digits precede the point.
const MANY: f64 = 10.0 * STEP;

/// Returns a time, or a difference of times, as text in a suitable unit.
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

/// Returns a number as text with about three significant digits.
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

const WHOLE: u8 = 100;

/// Returns a fraction of 1 as text in per cent, with `decimals` digits after the decimal point.
pub fn percent(part: f64, decimals: usize) -> String {
    format!("{:.decimals$} %", f64::from(WHOLE) * part)
}

/// Returns the finished part of the work as text in per cent, rounded down, so that 100 % means that all work is finished. If `total` is 0, returns
/// 100 %.
pub fn whole_percent(done: u64, total: u64) -> String {
    let percent = u128::from(done) * u128::from(WHOLE);
    format!("{} %", percent.checked_div(total.into()).unwrap_or(WHOLE.into()))
}

const SIXTY: u64 = 60;

/// Returns a long time in the style of a clock: `17 s`, `2:05 min`, `1:00:00 h`.
pub fn hours(seconds: f64) -> String {
    // The conversion of a large or negative number of seconds to an integer saturates.
    let seconds = seconds.ceil() as u64;
    let (minutes, s) = (seconds / SIXTY, seconds % SIXTY);
    match (minutes / SIXTY, minutes % SIXTY) {
        (0, 0) => format!("{s} s"),
        (0, m) => format!("{m}:{s:02} min"),
        (h, m) => format!("{h}:{m:02}:{s:02} h"),
    }
}

/// Returns the amount of work per second if `amount` took `time`. The result is finite even if `time` is 0.
pub(crate) fn per_second(amount: f64, time: Duration) -> f64 {
    amount / time.max(Duration::from_nanos(1)).as_secs_f64()
}

/// Returns a number with the counted noun: `1 rank`, `3 batches`.
pub fn count(n: u64, thing: &str) -> String {
    match n {
        1 => format!("1 {thing}"),
        n if thing.ends_with("ch") => format!("{n} {thing}es"),
        n => format!("{n} {thing}s"),
    }
}

/// Returns numbers as a text that programs read again.
pub(crate) fn figures(numbers: &[u64]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Number of ranks up to which a sentence names each of them. On more ranks, the sentence would fill the screen.
pub(crate) const NAMED: usize = 16;

/// Returns numbers of ranks as text: `0, 1, 3`, or as ranges, `0-99, 200`, if there are many.
pub(crate) fn ranks(numbers: &[usize]) -> String {
    match numbers.len() > NAMED {
        true => ranges(numbers.to_vec()).join(", "),
        false => numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// Returns a value of each rank as text, separated by `separator`. If there are many ranks, returns the least and the greatest value.
pub(crate) fn by_rank<T: Copy + PartialOrd>(
    values: &[T],
    separator: &str,
    text: impl Fn(T) -> String,
) -> String {
    let (Some(&first), true) = (values.first(), values.len() > NAMED) else {
        return values.iter().map(|&value| text(value)).collect::<Vec<_>>().join(separator);
    };
    let least = values.iter().fold(first, |least, &value| if value < least { value } else { least });
    let greatest =
        values.iter().fold(first, |greatest, &value| if value > greatest { value } else { greatest });
    match (text(least), text(greatest)) {
        (least, greatest) if least == greatest => least,
        (least, greatest) => format!("{least} to {greatest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_ranks_are_summarised() {
        assert_eq!(ranks(&[3, 0, 1]), "3, 0, 1");
        assert_eq!(ranks(&(0..40).chain([50]).collect::<Vec<_>>()), "0-39, 50");
        let text = |values: &[u64]| by_rank(values, " ", |value| value.to_string());
        assert_eq!([text(&[]), text(&[2, 1]), text(&[8; 16])[..3].into()], ["", "2 1", "8 8"]);
        assert_eq!([text(&[8; 17]), text(&(0..17).rev().collect::<Vec<_>>())], ["8", "0 to 16"]);
    }

    #[test]
    fn times_are_formatted_with_suitable_units() {
        let shown = [0.0, 1e-12, 2e-9, 2.5e-6, -0.004, 12.0, f64::INFINITY].map(seconds);
        assert_eq!(shown, ["0 s", "0 s", "2.0 ns", "2.500 us", "-4.000 ms", "12.000 s", "inf s"]);
    }

    #[test]
    fn numbers_are_formatted_with_si_prefixes() {
        let shown = [0.0, 12.345, 123.4, 9999.0, 12_345.0, 9_990_000.0, 12_345_678.0].map(short);
        assert_eq!(shown, ["0.00", "12.35", "123", "9999", "12.3 k", "9990.0 k", "12.3 M"]);
        assert_eq!([percent(0.125, 0), percent(1.0 / 3.0, 1)], ["12 %", "33.3 %"]);
    }

    #[test]
    fn whole_percent_rounds_down() {
        let shown = [(0, 7), (1, 3), (999, 1000), (7, 7), (0, 0), (u64::MAX, u64::MAX)];
        let shown = shown.map(|(done, total)| whole_percent(done, total));
        assert_eq!(shown, ["0 %", "33 %", "99 %", "100 %", "100 %", "100 %"]);
    }

    #[test]
    fn long_times_are_formatted_like_a_clock() {
        let shown = [0.0, 0.2, 59.5, 61.0, 3599.0, 3600.0, 100_000.0].map(hours);
        assert_eq!(shown, ["0 s", "1 s", "1:00 min", "1:01 min", "59:59 min", "1:00:00 h", "27:46:40 h"]);
    }

    #[test]
    fn rate_over_zero_time_is_finite() {
        assert_eq!(per_second(3.0, Duration::from_millis(500)), 6.0);
        assert!(per_second(3.0, Duration::ZERO).is_finite());
    }

    #[test]
    fn counts_use_singular_and_plural() {
        assert_eq!([0, 1, 2].map(|n| count(n, "batch")), ["0 batches", "1 batch", "2 batches"]);
    }
}
