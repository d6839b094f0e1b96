//! Columns of the table of ranks for the width of a terminal.

use armature::observe::number_format::short;

use super::lines::{cut, length};
use super::rows::{Current, Does, Row, held_units};
use crate::account::KINDS;
use crate::run::{Run, Skeleton};
use crate::units::{ranges, short_count};

/// Text between two columns.
const GAP: &str = "  ";
/// Label of the row about all ranks.
const ALL: &str = "all";
/// Minimum number of characters for the running task or the longest call. Fewer would show no name beside the duration.
const MIN_CURRENT: usize = 24;
/// Maximum number of characters of the name of a host.
const MAX_HOST: usize = 16;
/// Kinds of activity, as indices into [`KINDS`], in the order in which their columns are merged into the column `other`: parked, set-up, not known,
/// messages, no core, waiting. The first [`BY_SIZE`] of them are first sorted by their shares, the smallest first. Computing, the last kind, keeps
/// its column.
const MERGED_FIRST: [usize; KINDS.len()] = [5, 2, 4, 3, 1, 6, 0];
/// Number of kinds of activity at the beginning of [`MERGED_FIRST`] that are sorted by their shares.
const BY_SIZE: usize = KINDS.len() - 2;

/// Steps that make the table narrower. They are taken one after another until the table fits the terminal.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Measure {
    DropHost,
    DropCurrent,
    DropRate,
    /// The columns of this number of kinds of activity become one column, `other`.
    Merge(usize),
    DropDone,
    DropDoes,
}

/// Column of the table: heading, one cell for each row, and true if the cells are aligned to the right.
struct Column {
    head: String,
    cells: Vec<String>,
    is_number: bool,
}

/// Returns the table as a heading line and a line for each row, each of at most `width` characters. `all` is the last row, about all ranks. If no
/// column fits beside the numbers of the ranks, returns no lines.
pub(super) fn table(run: &Run, rows: &[Row], all: Option<&Row>, width: usize) -> Vec<String> {
    let is_workflow = run.skeleton == Skeleton::Workflow;
    let mut measures = vec![Measure::DropHost, Measure::DropRate];
    measures.extend((2..=BY_SIZE).map(Measure::Merge));
    measures.extend([Measure::DropDone, Measure::DropDoes, Measure::Merge(BY_SIZE + 1)]);
    // In a workflow, the last column has the running tasks and is dropped late. In other runs it has the longest calls and is dropped early.
    let place = if is_workflow { measures.len() - 3 } else { 1 };
    measures.insert(place, Measure::DropCurrent);
    let mut taken = 0;
    loop {
        let columns = columns(run, rows, all, &measures[..taken]);
        let is_current_shown = !measures[..taken].contains(&Measure::DropCurrent);
        let fixed: usize = columns.iter().map(|column| column.width() + GAP.len()).sum();
        let needed = if is_current_shown { fixed + MIN_CURRENT } else { fixed - GAP.len() };
        if needed <= width || taken == measures.len() {
            let current = is_current_shown.then(|| current(run, rows, all, width.saturating_sub(fixed)));
            return drawn(columns.into_iter().chain(current.flatten()).collect(), width);
        }
        taken += 1;
    }
}

impl Column {
    fn new(head: &str, is_number: bool, cells: impl Iterator<Item = String>) -> Self {
        Column { head: head.to_string(), cells: cells.collect(), is_number }
    }

    fn width(&self) -> usize {
        self.cells.iter().map(|cell| length(cell)).chain([length(&self.head)]).max().unwrap_or(0)
    }
}

/// Returns the lines of the columns. The last columns are left out if they are wider than the terminal after all measures.
fn drawn(mut columns: Vec<Column>, width: usize) -> Vec<String> {
    let full = |columns: &[Column]| columns.iter().map(|column| column.width() + GAP.len()).sum::<usize>();
    while columns.len() > 1 && full(&columns) - GAP.len() > width {
        columns.pop();
    }
    if columns.len() < 2 {
        return Vec::new();
    }
    let line = |text: fn(&Column, usize) -> &str, place: usize| {
        let cells: Vec<String> = columns
            .iter()
            .map(|column| match (text(column, place), column.width()) {
                (text, width) if column.is_number => format!("{text:>width$}"),
                (text, width) => format!("{text:<width$}"),
            })
            .collect();
        cells.join(GAP).trim_end().to_string()
    };
    let rows = (0..columns[0].cells.len()).map(|place| line(|column, place| &column.cells[place], place));
    let lines = [line(|column, _| &column.head, 0)].into_iter().chain(rows);
    // The row about all ranks is left out if its cells are empty.
    lines.filter(|line| line.trim_start() != ALL).collect()
}

/// Returns all columns except the last one, with the steps `measures` taken.
fn columns(run: &Run, rows: &[Row], all: Option<&Row>, measures: &[Measure]) -> Vec<Column> {
    let every = || rows.iter().chain(all);
    let is_dropped = |measure: Measure| measures.contains(&measure);
    let labels = rows.iter().map(Row::label).chain(all.map(|_| ALL.to_string()));
    let mut columns = vec![Column::new("rank", true, labels)];
    if !is_dropped(Measure::DropHost) && every().any(|row| row.hosts.iter().any(|host| !host.is_empty())) {
        columns.push(Column::new("host", false, every().map(|row| cut(&row.host(), MAX_HOST))));
    }
    let is_known = run.has_activity();
    if is_known {
        let have_ended = rows.iter().all(|row| row.does == Does::Ended);
        if !is_dropped(Measure::DropDoes) && !have_ended {
            let does = rows.iter().map(|row| row.does.to_string()).chain(all.map(|_| String::new()));
            columns.push(Column::new("does", false, does));
        }
        let merged = measures.iter().rev().find_map(|measure| match measure {
            Measure::Merge(count) => Some(*count),
            _ => None,
        });
        columns.extend(shares(rows, all, merged.unwrap_or(0)));
    }
    if !is_dropped(Measure::DropDone) {
        if let Some(held) = held_units(run) {
            let total: u64 = held.iter().sum();
            let cell = |row: &Row| row.held.map_or("–".to_string(), |held| format!("{held} of {total}"));
            columns.push(Column::new("holds", true, every().map(cell)));
        } else if is_known {
            let head = if run.skeleton == Skeleton::Pipeline { "stage items" } else { run.things() };
            columns.push(Column::new(head, true, every().map(|row| short_count(row.done))));
        }
    }
    if is_known && !is_dropped(Measure::DropRate) {
        let rate = |row: &Row| row.per_second.map_or("–".to_string(), short);
        columns.push(Column::new("a second", true, every().map(rate)));
    }
    columns
}

/// Returns a column for the share of each kind of activity. The first `merged` kinds in the order of [`MERGED_FIRST`] become one column.
fn shares(rows: &[Row], all: Option<&Row>, merged: usize) -> Vec<Column> {
    let every: Vec<&Row> = rows.iter().chain(all).collect();
    let sum = Row::sum(&every.iter().map(|row| (*row).clone()).collect::<Vec<_>>());
    let mean = sum.and_then(|sum| sum.percentages()).unwrap_or_default();
    let mut order = MERGED_FIRST;
    order[..BY_SIZE].sort_by_key(|kind| mean[*kind]);
    let merged = &order[..merged];
    let percent = |row: &Row, kinds: &[usize]| match row.percentages() {
        Some(parts) => format!("{} %", kinds.iter().map(|kind| parts[*kind]).sum::<u32>()),
        None => "–".to_string(),
    };
    let column =
        |head: &str, kinds: &[usize]| Column::new(head, true, every.iter().map(|row| percent(row, kinds)));
    let alone = (0..KINDS.len()).filter(|kind| !merged.contains(kind));
    let mut columns: Vec<Column> = alone.map(|kind| column(KINDS[kind], &[kind])).collect();
    if !merged.is_empty() {
        // The column `waits` stays the last one.
        let place = columns.len() - usize::from(columns.len() > 1);
        columns.insert(place, column("other", merged));
    }
    columns
}

/// Returns the last column: running tasks, longest calls, and the numbers of the ranks of groups.
fn current(run: &Run, rows: &[Row], all: Option<&Row>, width: usize) -> Option<Column> {
    let cell = |row: &Row| {
        if row.ranks.len() > 1 {
            return cut(&format!("ranks {}", ranges(&row.ranks)), width);
        }
        let Current { name, time, more } = &row.current;
        let name = cut(name, width.saturating_sub(length(time)));
        let short = format!("{name}{time}");
        match (short.is_empty(), more.is_empty()) {
            (_, true) => short,
            (true, false) => cut(more, width),
            _ if length(&short).saturating_add(length(more) + 2) <= width => format!("{short}, {more}"),
            _ => short,
        }
    };
    let head = if run.skeleton == Skeleton::Workflow { "runs" } else { "longest call" };
    let cells: Vec<String> = rows.iter().map(cell).chain(all.map(|_| String::new())).collect();
    let is_empty = cells.iter().all(String::is_empty);
    (!is_empty).then(|| Column { head: head.to_string(), cells, is_number: false })
}
