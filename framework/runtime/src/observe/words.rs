//! Numbers as people read them.

/// A time, or a difference of times, in the unit that suits it.
pub(crate) fn seconds(s: f64) -> String {
    match s.abs() {
        a if a >= 1.0 || a.is_nan() => format!("{s:.3} s"),
        a if a >= 1e-3 => format!("{:.3} ms", s * 1e3),
        a if a >= 1e-6 => format!("{:.3} us", s * 1e6),
        a if a >= 5e-11 => format!("{:.1} ns", s * 1e9),
        _ => "0 s".to_string(),
    }
}

/// A number with three figures or so.
pub(crate) fn short(x: f64) -> String {
    match x {
        x if x >= 1e7 => format!("{:.1} M", x / 1e6),
        x if x >= 1e4 => format!("{:.1} k", x / 1e3),
        x if x >= 100.0 => format!("{x:.0}"),
        x => format!("{x:.2}"),
    }
}

/// A number and the name of what is counted: `1 rank`, `3 batches`.
pub(crate) fn count(n: u64, thing: &str) -> String {
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
    fn one_thing_is_not_several() {
        assert_eq!([0, 1, 2].map(|n| count(n, "batch")), ["0 batches", "1 batch", "2 batches"]);
    }
}
