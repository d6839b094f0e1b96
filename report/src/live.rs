//! Text display of a running job, updated with the events of its ranks as they arrive.

use std::collections::VecDeque;

use armature::observe::activity::Activity;
use armature::observe::{Event, Record};

use crate::completion_rate;
use crate::run::{Part, Run, Skeleton};

mod columns;
mod lines;
mod progress;
mod rows;
mod text;

use lines::{fitted, length, wrapped};
pub(crate) use text::arrangement_text;

/// The display shows means over the latest part of the run, which has at least this length in
/// seconds. Means over less time would fluctuate, and means over more would show the past.
const WINDOW: f64 = 10.0;
/// Divisor: the display shows means over at least the latest hundredth of the run, because ranks
/// report less often the longer the run is.
const WINDOW_DIVISOR: f64 = 100.0;
/// Maximum number of events that the display shows.
const MAX_EVENTS: usize = 6;
/// Height in lines up to which the display leaves out everything but the progress, the cause of the largest loss and the ranks.
const LOW: usize = 14;
/// Minimum number of lines for the table of ranks, before other lines are left out: heading, one rank, sum, and number of ranks left out.
const MIN_TABLE: usize = 4;

/// Size of a display in characters, and facts about the job that are not in its events.
#[derive(Clone, Debug)]
pub struct View<'v> {
    /// Name of the job, such as its directory.
    pub job: &'v str,
    /// State of the job, followed by further facts such as the number of restarts.
    pub state: Vec<String>,
    /// Seconds since the last event arrived, if they are known.
    pub quiet_s: Option<f64>,
    /// Maximum number of characters of a line.
    pub width: usize,
    /// Maximum number of lines.
    pub height: usize,
}

/// State of a running job.
///
/// ```
/// use armature::observe::{Event, Record};
/// use armature_report::{Live, View};
///
/// let mut live = Live::default();
/// let start = Event::FarmStart { farm: "rows".into(), ranks: 2, workers: 2, chunking: "auto".into(), balance: "live".into() };
/// live.take(&[Record { at: 0.0, rank: 0, run: 0, event: start }]);
/// let view = View { job: "events", state: vec!["running".into()], quiet_s: None, width: 40, height: 10 };
/// assert!(live.picture(&view).starts_with("Farm rows · 2 ranks · running"));
/// ```
#[derive(Debug, Default)]
pub struct Live {
    run: Option<Run>,
    /// Latest events: time, text, and true if the event changed the distribution of work.
    latest_events: VecDeque<(f64, String, bool)>,
}

impl Live {
    /// Takes events in the order in which [`Follower`](armature::observe::Follower) returns them.
    pub fn take(&mut self, records: &[Record]) {
        for record in records {
            if self.run.as_ref().is_none_or(|run| run.number < record.run) {
                *self = Live { run: Some(Run { number: record.run, ..Run::default() }), ..Live::default() };
            }
            // Events of an earlier run that arrive late are ignored.
            if let Some(run) = self.run.as_mut().filter(|run| run.number == record.run) {
                run.take(record);
                if let Event::Heard { rank } = &record.event {
                    run.lost.retain(|lost| lost != rank);
                }
                self.add_event(record);
            }
        }
        if let Some(run) = &mut self.run {
            run.update_length();
            let from = run.seconds - 2.0 * window(run);
            for rank in &mut run.ranks {
                merge_old(&mut rank.parts, from);
                rank.held.drain(..rank.held.len().saturating_sub(1));
            }
            run.lines.drain(..run.lines.len().saturating_sub(1));
            completion_rate::drop_old(&mut run.reached, from);
            run.schedules.clear();
        }
    }

    /// Returns the length of the current or last run so far, in seconds.
    pub fn seconds(&self) -> f64 {
        self.run.as_ref().map_or(0.0, |run| run.seconds)
    }

    /// Returns true if no run is in progress: before the first run, between two runs, and after the last one.
    pub fn is_between_runs(&self) -> bool {
        self.run.as_ref().is_none_or(|run| run.has_ended)
    }

    fn add_event(&mut self, record: &Record) {
        let acted = match &record.event {
            Event::Decision { acted, .. } => *acted,
            Event::Planned(planned) => planned.by.is_some() && !planned.kept,
            Event::Chunks { .. } | Event::Lost { .. } | Event::Heard { .. } | Event::Switch { .. } => true,
            Event::Moved { .. } | Event::Parked { .. } | Event::Woken { .. } | Event::Split { .. } => true,
            Event::Outcome { .. } | Event::Grain { .. } | Event::TaskHeld(_) => true,
            Event::TaskEnded(ended) => match ended.failure {
                Some(_) => true,
                None => return,
            },
            _ => return,
        };
        // Only the last of several consecutive decisions against a change is displayed.
        if !acted && self.latest_events.back().is_some_and(|last| !last.2) {
            self.latest_events.pop_back();
        }
        self.latest_events.push_back((record.at, record.event.to_string(), acted));
        if self.latest_events.len() > MAX_EVENTS {
            self.latest_events.pop_front();
        }
    }

    /// Returns the display as at most `height` lines of at most `width` characters. If the display is too small, the least important parts are left
    /// out, and ranks with similar shares of time have a common row.
    pub fn picture(&self, view: &View) -> String {
        let Some(run) = &self.run else {
            let mut parts = text::state(view);
            parts.extend([(2, "no run has begun yet".to_string()), (8, view.job.to_string())]);
            return joined(&fitted(&parts, view.width, view.height.min(2)));
        };
        let (width, span, is_low) = (view.width, span(run), view.height <= LOW);
        let mut lines = fitted(&text::head(run, span.1, view), width, if is_low { 1 } else { 2 });
        lines.extend(fitted(&progress::progress(run, span), width, 2));
        lines.extend(text::why_lines(run, span, width, if is_low { 2 } else { 4 }));
        // The running tasks of a workflow are the reason for which other ranks wait.
        if !is_low || run.skeleton == Skeleton::Workflow {
            lines.extend(fitted(&text::distribution(run), width, if is_low { 1 } else { 2 }));
        }
        if !is_low {
            lines.push(String::new());
        }
        lines.truncate(view.height.saturating_sub(MIN_TABLE).max(2));
        let table = table(run, span, width, view.height.saturating_sub(lines.len()));
        if table.is_empty() && lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines.extend(table);
        let room = view.height.saturating_sub(lines.len() + 1).min(self.latest_events.len());
        if room > 0 && !is_low {
            lines.push(String::new());
            let latest = self.latest_events.iter().skip(self.latest_events.len() - room);
            let at = |at: f64| format!("{at:>9.3} s  ");
            lines.extend(latest.flat_map(|(time, text, _)| {
                let room = width.saturating_sub(length(&at(*time)));
                wrapped(text, room, 1).into_iter().map(move |text| at(*time) + &text)
            }));
        }
        lines.truncate(view.height);
        joined(&lines)
    }

    /// Returns the state of the run as one line of text.
    pub fn line(&self) -> String {
        let Some(run) = &self.run else { return "No run has begun yet.".to_string() };
        let progress: Vec<String> =
            progress::progress(run, span(run)).into_iter().map(|part| part.1).collect();
        let why = if run.has_ended { String::new() } else { text::why(run, span(run)).join(" ") };
        let text = format!("{:>9.3} s  {}. {why}", run.seconds, progress.join(", "));
        armature_text::line(text.trim_end())
    }
}

/// Returns the table of ranks as at most `height` lines.
fn table(run: &Run, span: (f64, f64), width: usize, height: usize) -> Vec<String> {
    let rows = rows::rows(run, span);
    // The heading of the table takes one line, and the sum of several ranks another.
    let all = rows::Row::sum(&rows).filter(|_| rows.len() > 1 && height >= MIN_TABLE);
    let room = height.saturating_sub(1 + usize::from(all.is_some()));
    let (mut shown, mut left_out) = rows::grouped(&rows, room);
    if left_out > 0 {
        // Another line states the number of omitted ranks.
        (shown, left_out) = rows::grouped(&rows, room.saturating_sub(1).max(1));
    }
    let mut lines = columns::table(run, &shown, all.as_ref(), width);
    if left_out > 0 && !lines.is_empty() {
        let mut parts = vec![(0, format!("{left_out} of {} ranks are not shown", rows.len()))];
        if run.has_activity() {
            parts.push((1, "none has a larger loss".to_string()));
        }
        lines.extend(fitted(&parts, width, 1));
    }
    lines
}

fn joined(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Returns the length in seconds of the latest part of the run, over which the display shows means.
fn window(run: &Run) -> f64 {
    WINDOW.max(run.seconds / WINDOW_DIVISOR).min(run.seconds)
}

/// Returns the beginning and the end of the part of the run over which the display shows means, in seconds since the start of the run. For a run that
/// has ended, this is the whole run. Otherwise it is the latest part. It ends at the earliest of the last records of the ranks that still write,
/// because the time after a rank's last record would count as not known.
fn span(run: &Run) -> (f64, f64) {
    if run.has_ended {
        return (0.0, run.seconds);
    }
    let is_writing = |rank: &usize| {
        run.ranks[*rank].end.is_none() && !run.lost.contains(rank) && text::silence(run, *rank).is_none()
    };
    let last =
        (0..run.ranks.len()).filter(is_writing).filter_map(|rank| Some(run.ranks[rank].parts.last()?.to));
    let to = last.fold(run.seconds, f64::min);
    ((to - window(run)).max(0.0), to)
}

/// Replaces the parts of a rank's time that end before a time by one part with their sums, so that the memory for a long run is bounded.
fn merge_old(parts: &mut Vec<Part>, from: f64) {
    let count = parts.partition_point(|part| part.to < from);
    let [first, .., last] = &parts[..count] else { return };
    let (begin, to) = (first.from(), last.to);
    let mut sum = Activity { seconds: to - begin, ..Activity::default() };
    for Part { activity, .. } in parts.drain(..count) {
        sum.work_s += activity.work_s;
        sum.idle_s += activity.idle_s;
        sum.messages_s += activity.messages_s;
        sum.set_up_s += activity.set_up_s;
        sum.parked_s += activity.parked_s;
        sum.lost_s += activity.lost_s;
        sum.longest = [sum.longest, activity.longest]
            .into_iter()
            .flatten()
            .max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        sum.done.resize(sum.done.len().max(activity.done.len()), 0);
        sum.done.iter_mut().zip(activity.done).for_each(|(sum, done)| *sum += done);
    }
    parts.insert(0, Part { to, activity: sum });
}

#[cfg(test)]
mod tests;
