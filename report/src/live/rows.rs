//! Rows of the table of ranks: single ranks, and groups of ranks with similar shares of time.

use armature::observe::number_format::count;
use armature_text::shown;

use super::progress::{completed, completed_in, rough};
use super::text::silence;
use crate::account::{self, KINDS, Shares};
use crate::run::{Arrangement, Run, Skeleton, call_text};
use crate::units::{self, bytes_text};

/// Largest differences in per cent of the time between the ranks of a group. They are tried in this order until the rows fit. Larger differences
/// would hide the rank that causes a loss.
const ALIKE: [f64; 3] = [2.0, 5.0, 10.0];

/// Time before the last record of a rank, as a fraction of the displayed part of the run. The activity that took most of this time is shown as the
/// rank's current activity.
const NOW: f64 = 0.2;

/// Activity of the ranks of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Does {
    Lost,
    Silent(f64),
    Kind(&'static str),
    Unknown,
    Ended,
}

impl Does {
    fn is_alike(self, other: Does) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

impl std::fmt::Display for Does {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Does::Lost => f.write_str("lost"),
            Does::Silent(time) => write!(f, "silent {}", rough(*time)),
            Does::Kind(kind) => f.write_str(kind),
            Does::Unknown => f.write_str("unknown"),
            Does::Ended => f.write_str("has ended"),
        }
    }
}

/// Running task of a rank, or its longest call of user code.
#[derive(Clone, Debug, Default)]
pub(super) struct Current {
    pub(super) name: String,
    /// Text that must follow the name, such as the duration of the call.
    pub(super) time: String,
    /// Further text, which may be left out.
    pub(super) more: String,
}

/// Row of the table: one rank or several ranks.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) ranks: Vec<usize>,
    pub(super) hosts: Vec<String>,
    pub(super) does: Does,
    /// Sum of the accounts of the ranks; empty if the log has no activity of them.
    pub(super) shares: Shares,
    pub(super) done: u64,
    /// Completed items per second; `None` if the log has no activity of the ranks.
    pub(super) per_second: Option<f64>,
    /// Units (rows or indices) of a loop that the ranks hold.
    pub(super) held: Option<u64>,
    pub(super) current: Current,
}

impl Row {
    fn of(run: &Run, rank: usize, span: (f64, f64)) -> Row {
        let its = &run.ranks[rank];
        let shares = account::shares(run, rank, span);
        let end = its.parts.last().map_or(span.1, |part| part.to);
        let largest = account::shares(run, rank, (end - NOW * (span.1 - span.0), end)).largest();
        let does = match (its.end.is_some() || run.has_ended, silence(run, rank), largest) {
            _ if run.lost.contains(&rank) => Does::Lost,
            (true, _, _) => Does::Ended,
            (_, Some(time), _) => Does::Silent(time),
            (_, _, Some(kind)) => Does::Kind(kind),
            _ => Does::Unknown,
        };
        let is_known = shares.total() > 0.0;
        Row {
            ranks: vec![rank],
            hosts: vec![shown(&its.host)],
            does,
            shares,
            done: completed(its, None),
            per_second: is_known.then(|| completed_in(its, span, None) / (span.1 - span.0)),
            held: held_units(run).and_then(|held| held.get(rank).copied()),
            current: current(run, rank, span),
        }
    }

    /// Returns one row for the ranks of all given rows.
    pub(super) fn sum(rows: &[Row]) -> Option<Row> {
        let mut rows = rows.iter();
        let mut sum = rows.next()?.clone();
        rows.for_each(|row| sum.add(row));
        Some(sum)
    }

    fn add(&mut self, other: &Row) {
        self.ranks.extend(&other.ranks);
        self.hosts.extend(other.hosts.iter().cloned());
        self.hosts.sort_unstable();
        self.hosts.dedup();
        self.shares = self.shares.plus(other.shares);
        self.does = match (self.does, other.does) {
            (Does::Silent(a), Does::Silent(b)) => Does::Silent(a.min(b)),
            (Does::Kind(a), Does::Kind(b)) if a != b => self.shares.largest().map_or(self.does, Does::Kind),
            (does, _) => does,
        };
        self.done += other.done;
        self.per_second = match (self.per_second, other.per_second) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        self.held = self.held.zip(other.held).map(|(a, b)| a + b);
        self.current = Current::default();
    }

    /// Returns the time without useful work in per cent, by which the rows are sorted. The time of a parked rank does not count as a loss. Infinite
    /// for ranks that are lost, silent or without a record of activity.
    fn loss(&self) -> f64 {
        match self.does {
            Does::Lost | Does::Silent(_) | Does::Unknown => f64::INFINITY,
            _ if self.shares.total() <= 0.0 => 0.0,
            _ => {
                let part =
                    (self.shares.total() - self.shares.useful() - self.shares.parked) / self.shares.total();
                (100.0 * part).round()
            }
        }
    }

    /// Returns the largest difference between the shares of two rows, in per cent.
    fn difference(&self, other: &Row) -> f64 {
        let of = |row: &Row| row.shares.named().map(|share| 100.0 * share / row.shares.total().max(1e-9));
        of(self).iter().zip(of(other)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }

    /// Returns the number of the only rank, or the number of ranks.
    pub(super) fn label(&self) -> String {
        match self.ranks.as_slice() {
            [rank] => rank.to_string(),
            ranks => count(ranks.len() as u64, "rank"),
        }
    }

    pub(super) fn host(&self) -> String {
        match self.hosts.as_slice() {
            [host] => host.clone(),
            hosts => count(hosts.len() as u64, "host"),
        }
    }

    /// Returns the shares of the time in per cent, with the sum 100, in the order of [`KINDS`].
    pub(super) fn percentages(&self) -> Option<[u32; KINDS.len()]> {
        self.shares.rounded(100)
    }
}

/// Returns a row for each rank, those with the largest loss first.
pub(super) fn rows(run: &Run, span: (f64, f64)) -> Vec<Row> {
    let mut rows: Vec<Row> = (0..run.ranks.len()).map(|rank| Row::of(run, rank, span)).collect();
    rows.sort_by(|a, b| b.loss().total_cmp(&a.loss()));
    rows
}

/// Returns at most `most` rows, and the number of ranks that are in none of them. If there are too many rows, ranks with similar shares of time have
/// a common row.
pub(super) fn grouped(rows: &[Row], most: usize) -> (Vec<Row>, usize) {
    let mut groups = rows.to_vec();
    for limit in ALIKE {
        if groups.len() <= most {
            break;
        }
        groups = alike(rows, limit);
    }
    let left_out = groups.iter().skip(most).map(|group| group.ranks.len()).sum();
    groups.truncate(most);
    (groups, left_out)
}

/// Groups rows that differ by at most `limit` per cent of the time from the first row of their group.
fn alike(rows: &[Row], limit: f64) -> Vec<Row> {
    let mut groups: Vec<(&Row, Row)> = Vec::new();
    for row in rows {
        let fits =
            |(first, _): &&mut (&Row, Row)| first.does.is_alike(row.does) && first.difference(row) <= limit;
        match groups.iter_mut().find(fits) {
            Some((_, group)) => group.add(row),
            None => groups.push((row, row.clone())),
        }
    }
    let mut groups: Vec<Row> = groups.into_iter().map(|(_, group)| group).collect();
    groups.iter_mut().for_each(|group| group.ranks.sort_unstable());
    groups.sort_by(|a, b| b.loss().total_cmp(&a.loss()));
    groups
}

/// Returns the number of units (rows or indices) of a loop that each rank holds. `None` if the last decision was about the units that were left at
/// its time, as in the middle of a pass of a DOALL loop.
pub(super) fn held_units(run: &Run) -> Option<&[u64]> {
    let units = |arrangement: &'_ (f64, Arrangement)| match &arrangement.1 {
        Arrangement::Units(held) => Some(held.iter().sum::<u64>()),
        _ => None,
    };
    match run.arrangements.as_slice() {
        [first, .., last] if units(first) != units(last) => None,
        [.., (_, Arrangement::Units(held))] => Some(held),
        _ => None,
    }
}

/// Returns the running tasks of a rank and the memory that it holds, or the longest call of user code in a part of the run.
fn current(run: &Run, rank: usize, span: (f64, f64)) -> Current {
    let its = &run.ranks[rank];
    let mut current = Current::default();
    let mut more = Vec::new();
    let is_over = run.has_ended || its.end.is_some();
    if let Some((first, others)) = its.running.split_first().filter(|_| !is_over) {
        let task = &run.tasks[*first];
        current.name = shown(&task.task);
        current.time = format!(" for {}", rough((run.seconds - task.begin).max(0.0)));
        if !others.is_empty() {
            more.push(count(others.len() as u64, "other task"));
        }
    } else if run.skeleton == Skeleton::Workflow {
        current.name = if is_over { "" } else { "no task" }.to_string();
    } else {
        let recent = its.parts.iter().filter(|part| part.to > span.0);
        let calls = recent.filter_map(|part| part.activity.longest.as_ref());
        if let Some(longest) = calls.max_by(|a, b| a.seconds.total_cmp(&b.seconds)) {
            current.name = call_text(longest, &run.kinds);
            current.time = format!(": {}", units::time(longest.seconds));
        }
    }
    if let Some(held) = its.held.last() {
        let of = its.budget.map_or(String::new(), |budget| format!(" of {}", bytes_text(budget)));
        more.push(format!("holds {}{of}", bytes_text(held.bytes)));
    }
    current.more = more.join(", ");
    current
}
