//! Durations of user code by kind: quantiles, and a picture of the distribution.

use std::fmt::Write;

use armature::observe::activity::Work;

use crate::run::{Kind, Run, call_text};
use crate::units::time;

/// Row of the table of durations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Durations {
    /// Name of the kind of user code, such as a stage.
    pub name: String,
    /// Columns of the row: number of calls, total time, median, 90th percentile, 99th percentile, and longest call.
    pub cells: Vec<String>,
    /// Histogram of the durations of the calls, as a small SVG picture.
    pub picture: String,
}

/// Returns a row for each kind of user code that has completed items, in the order of the kinds.
pub(crate) fn durations(run: &Run) -> Vec<Durations> {
    run.kinds.iter().filter(|kind| kind.done > 0).map(|kind| row(kind, run)).collect()
}

fn row(kind: &Kind, run: &Run) -> Durations {
    let quantile = |part: f64| quantile(kind, part).map_or("–".to_string(), time);
    let longest = kind.longest.as_ref().map_or("–".to_string(), |longest| {
        format!("{} ({})", time(longest.seconds), call_text(longest, &run.kinds))
    });
    let cells = vec![
        kind.done.to_string(),
        time(kind.seconds),
        quantile(0.5),
        quantile(0.9),
        quantile(0.99),
        longest,
    ];
    Durations { name: kind.name.clone(), cells, picture: picture(kind) }
}

/// Returns the quantile `part` (from 0 to 1) of the durations of a kind of user code: the geometric mean of the limits of the histogram step that
/// contains it; `None` without durations.
pub(crate) fn quantile(kind: &Kind, part: f64) -> Option<f64> {
    let total: u64 = kind.steps.values().sum();
    let wanted = part * total as f64;
    let mut sum = 0;
    for (&step, &count) in &kind.steps {
        sum += count;
        if sum as f64 >= wanted && count > 0 {
            return Some((Work::step_s(step) * Work::step_s(step + 1)).sqrt());
        }
    }
    None
}

fn picture(kind: &Kind) -> String {
    let (Some((&first, _)), Some((&last, _))) = (kind.steps.first_key_value(), kind.steps.last_key_value())
    else {
        return String::new();
    };
    let most = kind.steps.values().copied().max().unwrap_or(1).max(1) as f64;
    let last = last.min(first + 63);
    let width = f64::from(last - first + 1) * 6.0;
    let mut svg = format!(
        r#"<svg role="img" class="spark" viewBox="0 0 {width} 24" width="{width}" height="24"><title>from {} to {}</title>"#,
        time(Work::step_s(first)),
        time(Work::step_s(last + 1))
    );
    for (step, count) in kind.steps.range(first..=last) {
        let high = 22.0 * *count as f64 / most + 1.0;
        let _ = write!(
            svg,
            r#"<rect class="bar" x="{}" y="{:.1}" width="5" height="{high:.1}"/>"#,
            f64::from(step - first) * 6.0,
            24.0 - high
        );
    }
    svg + "</svg>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_lies_within_its_histogram_step() {
        let mut kind = Kind { done: 100, ..Kind::default() };
        // 90 of the 100 calls take about a microsecond, and 10 about a millisecond.
        kind.steps.insert(20, 90);
        kind.steps.insert(40, 10);
        let at = |part| quantile(&kind, part).unwrap();
        assert!((1e-6..2e-6).contains(&at(0.5)) && (1e-6..2e-6).contains(&at(0.9)), "{}", at(0.5));
        assert!((1e-3..2e-3).contains(&at(0.95)), "{}", at(0.95));
        assert_eq!(quantile(&Kind::default(), 0.5), None);
    }
}
