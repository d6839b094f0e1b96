//! Progress of a run: finished work of the total, rate, and predicted end.

use armature::observe::number_format::{hours, short, whole_percent};

use super::lines::Part;
use crate::completion_rate::{CompletionRate, completion_rate};
use crate::run::{Rank, Run};
use crate::units::{self, short_count};

/// Minimum duration in seconds that is shown without decimals.
const MIN_WHOLE_SECONDS: f64 = 10.0;

/// Returns the finished work, its share of the total, the rate and the predicted end, as parts of a line. `span` is the part of the run over which
/// the rate is measured.
pub(super) fn progress(run: &Run, span: (f64, f64)) -> Vec<Part> {
    let ended = run.has_ended.then(|| (1, "the run has ended".to_string()));
    if let (Some(done), true) = (run.done, run.has_ended) {
        let done =
            format!("{} {} done in {}", short_count(done), run.done_things(), units::time(run.seconds));
        return [(0, done)].into_iter().chain(ended).collect();
    }
    let planned = run.plans.last().map(|(_, ends)| ends - run.seconds);
    if let (Some((_, reached)), false) = (run.reached.last(), run.has_ended) {
        let rate = completion_rate(&run.reached, run.seconds, span.1 - span.0);
        return parts(reached.done, Some(reached.total), &reached.what, rate, planned);
    }
    if !run.has_activity() {
        return [(0, "progress unknown".to_string())].into_iter().chain(ended).collect();
    }
    let last = run.kinds.len().saturating_sub(1);
    let done = run.ranks.iter().map(|rank| completed(rank, Some(last))).sum();
    let total = run.total.map(|total| total.max(done));
    let length = span.1 - span.0;
    let recent = run.ranks.iter().fold(0.0, |sum, rank| sum + completed_in(rank, span, Some(last)));
    let rate = (length > 0.0).then(|| CompletionRate { per_second: recent / length, span: length });
    let mut parts = parts(done, total, run.things(), rate, planned);
    if let Some(ended) = ended {
        parts.pop();
        parts.push(ended);
    }
    parts
}

/// Returns the parts of the line for a run that has not ended. `planned_s` is the time until the planned end, if there is a plan.
fn parts(
    done: u64,
    total: Option<u64>,
    things: &str,
    rate: Option<CompletionRate>,
    planned_s: Option<f64>,
) -> Vec<Part> {
    let of = total.map_or(String::new(), |total| format!(" of {}", short_count(total)));
    let mut parts = vec![(0, format!("{}{of} {things} done", short_count(done)))];
    parts.extend(total.map(|total| (3, whole_percent(done, total))));
    parts.push(match rate {
        Some(CompletionRate { per_second, span }) => {
            (2, format!("{} {things}/s in the last {}", short(per_second), rough(span)))
        }
        None => (2, "rate unknown".to_string()),
    });
    let left = total.map(|total| total.saturating_sub(done) as f64);
    let rate = rate.map(|rate| rate.per_second).filter(|rate| *rate > 0.0);
    let end = match (planned_s, left.zip(rate)) {
        (Some(left), _) if left > 0.0 => format!("ends in {} according to the plan", hours(left)),
        (Some(left), _) => format!("the plan has ended {} ago", hours(-left)),
        (None, Some((left, rate))) => format!("about {} left", hours(left / rate)),
        (None, None) => "end unknown".to_string(),
    };
    parts.push((1, end));
    parts
}

/// Returns a duration without decimals if it is long.
pub(super) fn rough(time: f64) -> String {
    if time < MIN_WHOLE_SECONDS { units::time(time) } else { hours(time.round()) }
}

/// Returns the number of items that a rank has completed in the run, of one kind of user code or of all kinds.
pub(super) fn completed(rank: &Rank, kind: Option<usize>) -> u64 {
    rank.parts.iter().map(|part| of_kind(&part.activity.done, kind)).sum()
}

/// Returns the number of items that a rank has completed between two times, of one kind of user code or of all kinds.
pub(super) fn completed_in(rank: &Rank, (from, to): (f64, f64), kind: Option<usize>) -> f64 {
    let first = rank.parts.partition_point(|part| part.to <= from);
    let parts = rank.parts[first..].iter().filter(|part| part.activity.seconds > 0.0);
    parts
        .map(|part| {
            let inside = (part.to.min(to) - part.from().max(from)).max(0.0) / part.activity.seconds;
            inside.min(1.0) * of_kind(&part.activity.done, kind) as f64
        })
        // The sum is computed by `fold`, because an empty `sum()` of floating-point numbers would be negative zero.
        .fold(0.0, |sum, done| sum + done)
}

fn of_kind(done: &[u64], kind: Option<usize>) -> u64 {
    match kind {
        Some(kind) => done.get(kind).copied().unwrap_or(0),
        None => done.iter().sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(parts: &[Part]) -> Vec<&str> {
        parts.iter().map(|part| part.1.as_str()).collect()
    }

    #[test]
    fn end_is_predicted_only_from_a_known_total_and_rate() {
        let rate = |per_second| Some(CompletionRate { per_second, span: 10.0 });
        let text = "20.00 rows/s in the last 10 s";
        let known = parts(200, Some(1200), "rows", rate(20.0), None);
        assert_eq!(texts(&known), ["200 of 1200 rows done", "16 %", text, "about 50 s left"]);
        let planned = parts(200, Some(1200), "rows", rate(20.0), Some(-61.0));
        assert_eq!(texts(&planned)[3], "the plan has ended 1:01 min ago");
        let no_total = parts(200, None, "rows", rate(20.0), None);
        assert_eq!(texts(&no_total), ["200 rows done", text, "end unknown"]);
        let no_rate = parts(0, Some(1200), "rows", None, None);
        assert_eq!(texts(&no_rate), ["0 of 1200 rows done", "0 %", "rate unknown", "end unknown"]);
    }

    #[test]
    fn long_durations_have_no_decimals() {
        assert_eq!([0.25, 9.5, 10.0, 12.4, 83.1].map(rough), ["250 ms", "9.5 s", "10 s", "12 s", "1:23 min"]);
    }
}
