//! Rate of progress of a run, computed from rank 0's progress reports.

use armature::observe::activity::Reached;

/// Number of progress reports that are kept however old they are. In a slow run there may be no others.
const MIN_REPORTS: usize = 2;

/// Rate at which items were completed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CompletionRate {
    pub(crate) per_second: f64,
    /// Length in seconds of the time over which the rate was measured.
    pub(crate) span: f64,
}

/// Returns the rate of completed items in the last `window` seconds, or in a longer time if no item was completed in them. `None` if no item was
/// completed at all.
pub(crate) fn completion_rate(reached: &[(f64, Reached)], now: f64, window: f64) -> Option<CompletionRate> {
    let (last_at, last) = reached.last()?;
    let now = now.max(*last_at);
    let begin = reached.first().map(|(_, first)| (0.0, first.before))?;
    let is_before = |(at, done): &(f64, u64)| *at <= now - window && *done < last.done;
    let some = reached.iter().map(|(at, reached)| (*at, reached.done));
    let (at, done) = some.rev().find(is_before).unwrap_or(begin);
    let span = now - at;
    let is_known = last.done > done && span > 0.0;
    is_known.then(|| CompletionRate { per_second: (last.done - done) as f64 / span, span })
}

/// Removes the progress reports before the time `from`, except for the last `MIN_REPORTS` of them.
pub(crate) fn drop_old(reached: &mut Vec<(f64, Reached)>, from: f64) {
    let old = reached.partition_point(|(at, _)| *at < from);
    reached.drain(..old.saturating_sub(MIN_REPORTS));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the progress reports of a run of 1000 items. `done` has the number of completed items after each second.
    fn progress_reports(done: impl Iterator<Item = u64>) -> Vec<(f64, Reached)> {
        let mut reports: Vec<(f64, Reached)> = Vec::new();
        for (second, done) in (1..).zip(done) {
            if reports.last().is_none_or(|(_, last)| last.done != done) {
                reports.push((
                    f64::from(second),
                    Reached { done, before: 0, total: 1000, what: "items".into() },
                ));
            }
        }
        reports
    }

    #[test]
    fn pace_is_measured_over_the_last_seconds() {
        let reports = progress_reports((1..=20).chain((1..=20).map(|n| 20 + 10 * n)));
        assert_eq!(
            completion_rate(&reports, 40.0, 10.0),
            Some(CompletionRate { per_second: 10.0, span: 10.0 })
        );
        assert_eq!(
            completion_rate(&reports[..5], 5.0, 10.0),
            Some(CompletionRate { per_second: 1.0, span: 5.0 })
        );
        assert_eq!(completion_rate(&[], 5.0, 10.0), None);
    }

    #[test]
    fn pace_window_extends_back_to_the_last_progress() {
        // The reports state one completed item per minute.
        let mut reports = progress_reports((1..=200).map(|second| second / 60));
        drop_old(&mut reports, 180.0);
        assert_eq!(
            completion_rate(&reports, 200.0, 10.0),
            Some(CompletionRate { per_second: 1.0 / 80.0, span: 80.0 })
        );
    }

    #[test]
    fn pace_excludes_items_of_an_earlier_run() {
        let reached = |done| Reached { done, before: 400, total: 1000, what: "tasks".into() };
        assert_eq!(completion_rate(&[(1.0, reached(400))], 2.0, 10.0), None);
        let reports = [(1.0, reached(410)), (2.0, reached(420))];
        assert_eq!(
            completion_rate(&reports, 2.0, 10.0),
            Some(CompletionRate { per_second: 10.0, span: 2.0 })
        );
    }
}
