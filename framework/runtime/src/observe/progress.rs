//! Progress of a run as text: finished work, rate, and remaining time. This module uses no clock, terminal or log.

use std::time::Duration;

use super::activity::Reached;
use super::event::Event;
use super::number_format::{hours, per_second, short, whole_percent};

/// Number of steps of the progress bar: far more than the columns of a terminal, so that the bar also shows fractions of an item.
pub(super) const PARTS: f64 = 1e4;

/// Parts of the text about the progress of a run, the most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Count,
    Left,
    What,
    Time,
    Rate,
    Rest,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Progress {
    /// Kind and name of the run, such as `farm "toil"`.
    pub(crate) of: String,
    /// Amount of finished work, counted in items, tasks, sweeps or units.
    pub(crate) done: u64,
    /// Amount of finished work, included in `done`, that an earlier start of the job had finished.
    pub(crate) before: u64,
    /// Finished fraction, less than 1, of the item, task or sweep in progress.
    pub(crate) part: f64,
    pub(crate) total: Option<u64>,
    /// Noun for the amounts of work, in the plural, such as `items`.
    pub(crate) what: &'static str,
    pub(crate) rest: String,
}

impl Progress {
    /// Returns the total amount of work, if it is known. The total may be a size hint of the source; it is ignored once more work is finished.
    pub(super) fn total(&self) -> Option<u64> {
        self.total.filter(|&total| total >= self.done)
    }

    pub(super) fn event(self) -> Option<Event> {
        let total = self.total()?;
        let Progress { done, before, what, .. } = self;
        Some(Event::Progress(Reached { done, before, total, what: what.to_string() }))
    }

    pub(super) fn share(&self) -> Option<f64> {
        let total = self.total()?;
        Some(if self.done < total { (self.done as f64 + self.part) / total as f64 } else { 1.0 })
    }

    /// Returns the amount of work that this run has finished, including the fraction of the item, task or sweep in progress.
    pub(super) fn done_now(&self) -> f64 {
        self.done.saturating_sub(self.before) as f64 + self.part
    }

    fn percent(&self, total: u64) -> String {
        match self.share() {
            Some(share) if self.part > 0.0 => whole_percent((share * PARTS).floor() as u64, PARTS as u64),
            _ => whole_percent(self.done, total),
        }
    }

    fn left(&self, rate: f64) -> Option<f64> {
        let left = self.total()? - self.done;
        (left > 0 && rate > 0.0).then(|| (left as f64 - self.part) / rate)
    }

    pub(super) fn text(&self, elapsed: Duration, rate: Option<f64>) -> String {
        joined(&self.parts(elapsed, rate))
    }

    /// Returns the text about the progress, shortened to at most `letters` characters: less important parts are left out, and the remaining text is
    /// truncated.
    pub(super) fn text_within(&self, letters: usize, elapsed: Duration, rate: Option<f64>) -> String {
        let mut parts = self.parts(elapsed, rate);
        while let [.., _, _] = &parts[..]
            && joined(&parts).chars().count() > letters
        {
            let least = (0..parts.len()).max_by_key(|&at| parts[at].0).unwrap_or_default();
            parts.remove(least);
        }
        joined(&parts).chars().take(letters).collect()
    }

    fn parts(&self, elapsed: Duration, rate: Option<f64>) -> Vec<(Part, String)> {
        let Progress { of, done, what, rest, .. } = self;
        let mut parts =
            vec![(Part::What, of.clone()), (Part::Time, format!("{:.1} s", elapsed.as_secs_f64()))];
        let count = match self.total() {
            Some(total) => format!("{done} of {total} {what} ({})", self.percent(total)),
            None => format!("{done} {what}"),
        };
        parts.push((Part::Count, count));
        if let Some(rate) = rate {
            parts.push((Part::Rate, format!("{} {what}/s", short(rate))));
            parts.extend(self.left(rate).map(|left| (Part::Left, format!("about {} left", hours(left)))));
        }
        parts.extend(Some((Part::Rest, rest.clone())).filter(|(_, rest)| !rest.is_empty()));
        parts
    }
}

fn joined(parts: &[(Part, String)]) -> String {
    parts.iter().map(|(_, text)| &text[..]).collect::<Vec<_>>().join("  ")
}

/// Measures the recent amount of finished work per second, from the last but one recorded increase of this amount until now. The times of increases
/// are recorded, and not the amount at fixed times, so that there is a rate even if a task takes minutes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgressRate {
    /// Minimum time between two increases of the amount of finished work that are recorded.
    span: Duration,
    older: (Duration, f64),
    newer: (Duration, f64),
}

impl ProgressRate {
    pub(super) fn new(span: Duration, now: Duration) -> Self {
        ProgressRate { span, older: (now, 0.0), newer: (now, 0.0) }
    }

    /// Records that the amount `done` of work is finished at time `now`. Returns the recent amount of work per second, if any work is finished.
    pub(super) fn see(&mut self, now: Duration, done: f64) -> Option<f64> {
        if done > self.newer.1 && now.saturating_sub(self.newer.0) >= self.span {
            self.older = std::mem::replace(&mut self.newer, (now, done));
        }
        let (then, before) = self.older;
        (done > before).then(|| per_second(done - before, now.saturating_sub(then)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn progress(done: u64, total: Option<u64>) -> Progress {
        let (of, rest) = ("farm \"toil\"".to_string(), "3 workers".to_string());
        Progress { of, done, before: 0, part: 0.0, total, what: "tasks", rest }
    }

    #[test]
    fn remaining_time_is_shown_if_the_total_is_known() {
        let known = progress(275, Some(1000)).text(S * 5, Some(55.0));
        assert_eq!(
            known,
            "farm \"toil\"  5.0 s  275 of 1000 tasks (27 %)  55.00 tasks/s  about 14 s left  3 workers"
        );
        let endless = progress(275, None).text(S * 5, Some(55.0));
        assert_eq!(endless, "farm \"toil\"  5.0 s  275 tasks  55.00 tasks/s  3 workers");
    }

    #[test]
    fn narrow_line_keeps_the_most_important_fields() {
        let known = progress(275, Some(1000));
        let within = |letters| known.text_within(letters, S * 5, Some(55.0));
        assert_eq!(within(200), known.text(S * 5, Some(55.0)));
        assert_eq!(within(64), "farm \"toil\"  5.0 s  275 of 1000 tasks (27 %)  about 14 s left");
        assert_eq!(within(57), "farm \"toil\"  275 of 1000 tasks (27 %)  about 14 s left");
        assert_eq!(within(45), "275 of 1000 tasks (27 %)  about 14 s left");
        assert_eq!((within(30), within(11)), ("275 of 1000 tasks (27 %)".into(), "275 of 1000".into()));
    }

    #[test]
    fn partial_units_count_as_progress() {
        let sweep =
            |done, part| Progress { done, part, rest: String::new(), what: "sweeps", ..progress(0, Some(2)) };
        assert_eq!(
            sweep(0, 0.5).text(S * 30, Some(0.5 / 30.0)),
            "farm \"toil\"  30.0 s  0 of 2 sweeps (25 %)  0.02 sweeps/s  about 1:30 min left"
        );
        assert_eq!((sweep(1, 0.25).share(), sweep(2, 0.0).share()), (Some(0.625), Some(1.0)));
        assert!(sweep(1, 0.9999).text(S, None).contains("(99 %)"), "not all is done");
        assert_eq!(Progress { before: 1, ..sweep(1, 0.25) }.done_now(), 0.25);
    }

    #[test]
    fn impossible_values_are_not_shown() {
        let more = Progress { rest: String::new(), ..progress(1001, Some(1000)) };
        assert_eq!(more.text(S, Some(2.0)), "farm \"toil\"  1.0 s  1001 tasks  2.00 tasks/s");
        assert!(!progress(1000, Some(1000)).text(S, Some(2.0)).contains("left"), "there is nothing left");
        assert!(progress(9999, Some(10_000)).text(S, None).contains("(99 %)"), "not all is done");
        assert!(progress(0, Some(0)).text(S, None).contains("0 of 0 tasks (100 %)"));
        assert!(
            !progress(0, Some(7)).text(S, None).contains("/s"),
            "there is no rate before anything is done"
        );
    }

    #[test]
    fn rate_is_measured_over_the_last_seconds() {
        let mut rate = ProgressRate::new(S * 5, S * 100);
        assert_eq!(rate.see(S * 102, 0.0), None);
        let slow = (103..120).map(|second| rate.see(S * second, f64::from(second) - 100.0)).last().unwrap();
        assert_eq!(slow, Some(1.0));
        let fast = (121..140)
            .map(|second| rate.see(S * second, 20.0 + (f64::from(second) - 120.0) * 10.0))
            .last()
            .unwrap();
        assert_eq!(fast, Some(10.0));
    }

    #[test]
    fn rate_window_extends_back_to_the_last_progress() {
        let mut rate = ProgressRate::new(S * 5, Duration::ZERO);
        let seen: Vec<Option<f64>> =
            (1..=240).map(|second| rate.see(S * second, f64::from(second / 60))).collect();
        assert!(seen[..59].iter().all(Option::is_none));
        assert!(
            seen[59..].iter().flatten().all(|rate| (1.0 / 121.0..=1.0 / 60.0).contains(rate)),
            "{seen:?}"
        );
        assert_eq!(seen[59..].iter().filter(|rate| rate.is_none()).count(), 0);
    }
}
