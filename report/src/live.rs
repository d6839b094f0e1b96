//! Text display of a running job, built from the events of the page as they arrive.

use std::collections::VecDeque;

use armature::observe::activity::Reached;
use armature::observe::number_format::{count, seconds, short};
use armature::observe::{Event, Record};
use armature_text::{line, shown};

use crate::account::{KINDS, Shares, shares};
use crate::diagnosis::diagnosis_of_part;
use crate::pace::{self, Pace};
use crate::run::{Arrangement, Rank, Run, call_text};
use crate::units::{bytes_text, short_count};

/// The display shows means over the latest part of the run, which has at least this length in
/// seconds. Means over less time would fluctuate, and means over more would show the past.
const WINDOW: f64 = 10.0;
/// Divisor: the display shows means over at least the latest hundredth of the run, because ranks
/// report less often the longer the run is.
const WINDOW_DIVISOR: f64 = 100.0;
/// Maximum number of events that the display shows.
const MAX_EVENTS: usize = 6;
/// Maximum number of columns for the name of a task.
const NAME: usize = 24;
/// Time in seconds without a report of a rank, from which on the display calls the rank silent.
const MIN_SILENCE: f64 = 5.0;

/// State of a running job.
///
/// ```
/// use armature::observe::{Event, Record};
/// use armature_report::Live;
///
/// let mut live = Live::default();
/// let start = Event::FarmStart { farm: "rows".into(), ranks: 2, workers: 2, chunking: "auto".into(), balance: "live".into() };
/// live.take(&[Record { at: 0.0, rank: 0, run: 0, event: start }]);
/// assert!(live.picture(10).starts_with("Farm rows: 2 ranks"));
/// ```
#[derive(Debug, Default)]
pub struct Live {
    run: Option<Run>,
    /// Number of items that each rank has completed in the run: by the last kind of user code (such as the last stage), and by all kinds.
    done: Vec<(u64, u64)>,
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
                self.add_record(record);
            }
        }
        if let Some(run) = &mut self.run {
            run.update_length();
            let from = run.seconds - 2.0 * window(run);
            for rank in &mut run.ranks {
                let old = rank.parts.partition_point(|part| part.to < from);
                rank.parts.drain(..old);
                rank.held.drain(..rank.held.len().saturating_sub(1));
            }
            run.lines.drain(..run.lines.len().saturating_sub(1));
            pace::drop_old(&mut run.reached, from);
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

    fn add_record(&mut self, record: &Record) {
        let Some(run) = &self.run else { return };
        if let Event::Activity(activity) = &record.event {
            if record.rank >= self.done.len() {
                self.done.resize(record.rank + 1, (0, 0));
            }
            let last = run.kinds.len().saturating_sub(1);
            let done = &mut self.done[record.rank];
            done.0 += activity.done.get(last).copied().unwrap_or(0);
            done.1 += activity.done.iter().sum::<u64>();
        }
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

    fn done(&self) -> u64 {
        self.done.iter().map(|done| done.0).sum()
    }

    /// Returns the display as `height` lines, or a few more if `height` is too small. Ranks that do
    /// not fit are omitted, but at least one is shown.
    pub fn picture(&self, height: usize) -> String {
        let Some(run) = &self.run else { return "No run has begun yet.\n".to_string() };
        let mut lines = vec![heading(run), self.progress(run)];
        let span = span(run);
        lines.extend(waited_for(run, span));
        lines.extend(run.arrangements.last().map(|(_, arrangement)| arrangement_text(arrangement)));
        lines.push(String::new());
        let event_lines = if self.latest_events.is_empty() { 0 } else { self.latest_events.len() + 1 };
        lines.extend(self.table(run, span, height.saturating_sub(lines.len() + event_lines)));
        if !self.latest_events.is_empty() {
            lines.push(String::new());
            lines.extend(self.latest_events.iter().map(|(at, text, _)| format!("{at:>9.3} s  {text}")));
        }
        lines.iter().map(|text| format!("{}\n", line(text.trim_end()))).collect()
    }

    /// Returns the state of the run as one line of text.
    pub fn line(&self) -> String {
        let Some(run) = &self.run else { return "No run has begun yet.".to_string() };
        let why = waited_for(run, span(run)).unwrap_or_default();
        line(format!("{:>9.3} s  {}. {why}", run.seconds, self.progress(run)).trim_end())
    }

    /// Returns one line with the number of completed items, the rate, and the predicted end of the run.
    fn progress(&self, run: &Run) -> String {
        let things = run.things();
        if !run.has_activity() {
            let ends = if run.has_ended { "; the run has ended" } else { "" };
            let done = run.done.map_or("the progress is unknown".to_string(), |done| {
                format!("{} {} done", short_count(done), run.done_things())
            });
            return done + ends;
        }
        if let (Some((_, reached)), false) = (run.reached.last(), run.has_ended || !run.plans.is_empty()) {
            return Live::remaining_time_text(run, reached);
        }
        if let (true, Some(done)) = (run.has_ended, run.done) {
            let (done, things) = (short_count(done), run.done_things());
            return format!("{done} {things} done in {}; the run has ended", seconds(run.seconds));
        }
        let done = self.done();
        let of = run.total.map_or(String::new(), |total| format!(" of {}", short_count(total.max(done))));
        let mut text = format!("{}{of} {things} done", short_count(done));
        let span = span(run);
        let last = run.kinds.len().saturating_sub(1);
        let recent = run
            .ranks
            .iter()
            .map(|rank| completed_in(rank, span, Some(last)))
            .fold(0.0, |sum, done| sum + done);
        let rate = if span.1 > span.0 { recent / (span.1 - span.0) } else { 0.0 };
        text += &format!(", {} a second in the last {}", short(rate), seconds(span.1 - span.0));
        if run.has_ended {
            return text + "; the run has ended";
        }
        if let Some((_, ends)) = run.plans.last() {
            let left = ends - run.seconds;
            let when =
                if left > 0.0 { format!("in {}", seconds(left)) } else { format!("{} ago", seconds(-left)) };
            return text + &format!("; according to the plan it ends {when}");
        }
        match run.total {
            Some(total) if rate > 0.0 => {
                let left = total.saturating_sub(done) as f64 / rate;
                text + &format!("; at this rate it ends in {}", seconds(left))
            }
            _ => text + "; its end cannot be predicted",
        }
    }

    /// Returns a line with the progress of a run, which rank 0 reports if it knows the amount of work.
    fn remaining_time_text(run: &Run, reached: &Reached) -> String {
        let Reached { done, total, what, .. } = reached;
        let text = format!("{} of {} {what} done", short_count(*done), short_count(*total));
        match pace::pace(&run.reached, run.seconds, window(run)) {
            Some(Pace { per_second, span }) => format!(
                "{text}, {} a second in the last {}; at this rate it ends in {}",
                short(per_second),
                seconds(span),
                seconds(total.saturating_sub(*done) as f64 / per_second)
            ),
            None => text + "; its end cannot be predicted",
        }
    }

    /// Returns the table of ranks as at most `height` lines.
    fn table(&self, run: &Run, span: (f64, f64), height: usize) -> Vec<String> {
        let row = |rank: &str,
                   host: &str,
                   activity_text: &str,
                   shares: &[String],
                   [done, rate, with]: [&str; 3]| {
            let shares: String = shares.iter().map(|share| format!("{share:>9} ")).collect();
            format!("{rank:>5} {host:<12} {activity_text:<11} {shares}{done:>8} {rate:>8}  {with}")
        };
        let mut lines =
            vec![row("rank", "host", "does", &KINDS.map(String::from), ["done", "a second", "with"])];
        // The heading of the table takes one line, and another line states the number of omitted ranks if there are any.
        let room = height.saturating_sub(1);
        let most = if run.ranks.len() > room { room.saturating_sub(1).max(1) } else { room };
        for (rank, its) in run.ranks.iter().enumerate().take(most) {
            let shares = shares(run, rank, span);
            let parts = match shares.rounded(100) {
                Some(parts) => parts.map(|part| format!("{part} %")),
                None => KINDS.map(|_| "–".to_string()),
            };
            let rate = if span.1 > span.0 { completed_in(its, span, None) / (span.1 - span.0) } else { 0.0 };
            let host: String = shown(&its.host).chars().take(12).collect();
            let done = self.done.get(rank).map_or("–".to_string(), |done| short_count(done.1));
            let rate = if its.parts.is_empty() { "–".to_string() } else { short(rate) };
            let activity_text = activity_text(run, its, &shares);
            lines.push(row(
                &rank.to_string(),
                &host,
                &activity_text,
                &parts,
                [&done, &rate, &current_work_text(run, its)],
            ));
        }
        if run.ranks.len() > most {
            lines.push(format!("Showing {most} of {} ranks.", run.ranks.len()));
        }
        lines
    }
}

/// Returns the length in seconds of the latest part of the run, over which the display shows means.
fn window(run: &Run) -> f64 {
    WINDOW.max(run.seconds / WINDOW_DIVISOR).min(run.seconds)
}

/// Returns the begin and the end of the latest part of the run, over which the display shows means,
/// in seconds since the start of the run.
fn span(run: &Run) -> (f64, f64) {
    ((run.seconds - window(run)).max(0.0), run.seconds)
}

/// Returns the seconds since the last activity record of a rank, if the rank still runs and has recorded nothing for an
/// unusually long time.
fn silence(run: &Run, rank: &Rank) -> Option<f64> {
    let last = rank.parts.last().filter(|_| rank.end.is_none())?;
    let silence = run.seconds - last.to;
    (silence > MIN_SILENCE.max(3.0 * last.activity.seconds)).then_some(silence)
}

/// Returns a sentence on the rank that has sent no report for longest or, if all ranks report, the
/// diagnosis of the latest part of the run.
fn waited_for(run: &Run, span: (f64, f64)) -> Option<String> {
    if run.has_ended {
        return None;
    }
    let silent = run.ranks.iter().enumerate().filter_map(|(rank, its)| Some((rank, silence(run, its)?)));
    match silent.max_by(|a, b| a.1.total_cmp(&b.1)) {
        Some((rank, silence)) => {
            Some(format!("Other ranks wait for rank {rank}, which has written nothing for {silence:.0} s."))
        }
        None => diagnosis_of_part(run, span),
    }
}

fn heading(run: &Run) -> String {
    let what = run.skeleton.word();
    let mut text = what.to_string();
    if !run.name.is_empty() {
        text += &format!(" {}", shown(&run.name));
    }
    if !run.program.is_empty() {
        text += &format!(" of {}", shown(&run.program));
    }
    text += &format!(": {}", count(run.ranks.len() as u64, "rank"));
    if run.number > 0 {
        text += &format!(", run {}", run.number + 1);
    }
    if !run.balance.is_empty() {
        text += &format!(", balance {}", run.balance);
    }
    text + &format!(", after {}", seconds(run.seconds))
}

/// Returns the current distribution of work as one line: the mapping, the number of units (rows or
/// indices) of each rank of a loop, or the number of workers.
pub(crate) fn arrangement_text(arrangement: &Arrangement) -> String {
    match arrangement {
        Arrangement::Mapping(mapping) => {
            let stages: Vec<String> =
                mapping.stages.iter().map(|(name, ranks)| format!("{}@{ranks}", shown(name))).collect();
            format!("Stages: {}", stages.join(" | "))
        }
        Arrangement::Units(held) => {
            let some: Vec<String> = held.iter().take(32).map(u64::to_string).collect();
            let rest = if held.len() > 32 { " …" } else { "" };
            format!("Units of the ranks: {}{rest}", some.join(" "))
        }
        Arrangement::Workers(workers) => format!("Workers: {workers}"),
    }
}

/// Returns the number of items that a rank has completed between two times, of one kind of user code or of all kinds.
fn completed_in(rank: &Rank, (from, to): (f64, f64), kind: Option<usize>) -> f64 {
    let first = rank.parts.partition_point(|part| part.to <= from);
    let parts = rank.parts[first..].iter().filter(|part| part.activity.seconds > 0.0);
    parts
        .map(|part| {
            let inside = (part.to.min(to) - part.from().max(from)).max(0.0) / part.activity.seconds;
            let done = match kind {
                Some(kind) => part.activity.done.get(kind).copied().unwrap_or(0),
                None => part.activity.done.iter().sum(),
            };
            inside.min(1.0) * done as f64
        })
        // The sum is computed by `fold`, because an empty `sum()` of floating-point numbers would be negative zero.
        .fold(0.0, |sum, done| sum + done)
}

/// Returns the kind of activity on which a rank spends most of its time, or that the rank has ended or is silent.
fn activity_text(run: &Run, rank: &Rank, shares: &Shares) -> String {
    if rank.end.is_some() {
        return "has ended".to_string();
    }
    if let Some(silence) = silence(run, rank) {
        return format!("silent {silence:.0} s");
    }
    shares.largest().unwrap_or("–").to_string()
}

/// Returns the running tasks of a rank and the memory that it holds, or the longest call of user code in its last report.
fn current_work_text(run: &Run, rank: &Rank) -> String {
    let mut text = String::new();
    for &number in &rank.running {
        let task = &run.tasks[number];
        let name: String = shown(&task.task).chars().take(NAME).collect();
        text += &format!("{name} for {}, ", seconds((run.seconds - task.begin).max(0.0)));
    }
    if let Some(held) = rank.held.last() {
        text += &format!("holds {}", bytes_text(held.bytes));
        text += &rank.budget.map_or(String::new(), |budget| format!(" of {}", bytes_text(budget)));
    } else if rank.end.is_none() && rank.running.is_empty() {
        let longest = rank.parts.iter().rev().find_map(|part| part.activity.longest.as_ref());
        text += &longest.map_or(String::new(), |longest| {
            format!("{}: {}", call_text(longest, &run.kinds), seconds(longest.seconds))
        });
    }
    text.trim_end_matches(", ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use armature::observe::activity::Activity;

    fn live(events: Vec<(f64, usize, Event)>) -> Live {
        let mut live = Live::default();
        let records = events.into_iter().map(|(at, rank, event)| Record { at, rank, run: 0, event });
        live.take(&records.collect::<Vec<_>>());
        live
    }

    fn farm() -> Vec<(f64, usize, Event)> {
        let part = |work_s, idle_s| {
            let done = vec![30];
            Event::Activity(Activity { seconds: 1.0, work_s, idle_s, done, ..Activity::default() })
        };
        let start = Event::FarmStart {
            farm: "rows".into(),
            ranks: 2,
            workers: 2,
            chunking: "auto".into(),
            balance: "live".into(),
        };
        let starts = (0..2).map(|rank| (0.0, rank, Event::RankStart(crate::situation::start(2))));
        let parts = [(1.0, 0, part(1.0 / 3.0, 1.0 / 3.0)), (1.0, 1, part(0.996, 0.0))];
        starts.chain([(0.0, 0, start)]).chain(parts).collect()
    }

    /// Returns the lines of the display that describe ranks 0 and 1.
    fn rows(text: &str) -> Vec<&str> {
        text.lines().filter(|line| line.starts_with("    0 ") || line.starts_with("    1 ")).collect()
    }

    #[test]
    fn shares_of_a_rank_sum_to_the_whole() {
        let text = live(farm()).picture(20);
        let rows = rows(&text);
        assert_eq!(rows.len(), 2, "{text}");
        for row in rows {
            let words: Vec<&str> = row.split_whitespace().collect();
            let shares =
                words.windows(2).filter(|pair| pair[1] == "%").map(|pair| pair[0].parse::<u32>().unwrap());
            assert_eq!(shares.sum::<u32>(), 100, "{row}");
        }
    }

    #[test]
    fn ranks_are_omitted_only_if_the_screen_is_too_small() {
        let live = live(farm());
        let whole = live.picture(usize::MAX).lines().count();
        for height in 1..whole + 4 {
            let text = live.picture(height);
            let shown = rows(&text).len();
            assert_eq!(shown, if height < whole { 1 } else { 2 }, "{height} lines: {text}");
            assert_eq!(text.contains("Showing 1 of 2 ranks."), height < whole, "{height} lines: {text}");
        }
    }

    /// The display must not show the number of dispatched tasks as their total number, which is unknown. The final event contains the number of
    /// completed tasks.
    #[test]
    fn unknown_total_is_not_shown() {
        let chunks = Event::Chunks {
            by: "gss".into(),
            before: "dpf".into(),
            left: 222,
            workers: 2,
            mean_s: 1e-3,
            deviation_s: 1e-4,
            block: 1.0,
            message_s: 1e-6,
            predicted_s: 0.2,
            before_s: None,
            compared: 11,
        };
        let mut events = farm();
        events.push((1.0, 0, chunks));
        let text = live(events.clone()).picture(20);
        assert!(text.contains("60 tasks done, ") && text.contains("its end cannot be predicted"), "{text}");
        events.push((2.0, 0, Event::Finish { items: 300, seconds: 2.0 }));
        let text = live(events).picture(20);
        assert!(text.contains("300 tasks done in 2.000 s; the run has ended"), "{text}");
    }
}
