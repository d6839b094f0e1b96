//! Charts of a run over time. A chart is omitted if the log lacks its data.

use crate::bins::{Bins, MIN_ROW_BINS, done_by};
use crate::run::{Arrangement, Part, Run, Skeleton};
use crate::svg::{Chart, Line, Strip, StripBox, StripRow};

/// Maximum number of ranks drawn as separate curves; more curves could not be distinguished.
pub(crate) const CURVES: usize = 8;
/// Number of points in time at which a curve is evaluated.
const MOMENTS: usize = 400;
/// Maximum number of measured rates of a rank in a curve.
const RATES: usize = 60;
const TIME: &str = "seconds since the run began";

/// Returns a chart over time of the number of ranks that compute. `groups` has the mean time line of each group of ranks, and the number of its
/// ranks.
pub(crate) fn busy(run: &Run, groups: &[(usize, Bins)]) -> Chart {
    let count = groups.first().map_or(0, |(_, bins)| bins.cells.len());
    let point = |bin: usize| {
        let busy: f64 =
            groups.iter().map(|(ranks, bins)| *ranks as f64 * bins.cells[bin].work / bins.width).sum();
        ((bin as f64 + 0.5) * groups[0].1.width, busy.min(run.ranks.len() as f64))
    };
    let points = (0..count).map(point).collect();
    let lines = vec![Line { name: String::new(), points, is_stepped: false }];
    over_time(run, "Ranks that compute", "", lines)
}

/// Returns the chart of items completed per second and, for a pipeline, the chart of the items that have left the source and not reached the sink.
pub(crate) fn progress(run: &Run) -> Vec<Chart> {
    let last = run.kinds.len().saturating_sub(1);
    let done = done_by(run, last, MOMENTS);
    let step = run.seconds / MOMENTS as f64;
    if step <= 0.0 || done.last().is_none_or(|done| *done == 0.0) {
        return Vec::new();
    }
    // Each point is the rate over several points of time, because ranks report their progress in batches.
    let window = MOMENTS / 50;
    let rate = |n: usize| (done[n] - done[n - window]) / (window as f64 * step);
    let points = (window..=MOMENTS).map(|n| ((n as f64 - window as f64 / 2.0) * step, rate(n))).collect();
    let what = if run.skeleton == Skeleton::Pipeline { "Results" } else { run.things() };
    let title = format!("{}{} per second", what[..1].to_uppercase(), &what[1..]);
    let mut charts =
        vec![over_time(run, &title, "/s", vec![Line { name: String::new(), points, is_stepped: false }])];
    if run.skeleton == Skeleton::Pipeline && last > 0 {
        let drawn = done_by(run, 0, MOMENTS);
        let points = (0..=MOMENTS).map(|n| (n as f64 * step, (drawn[n] - done[n]).max(0.0))).collect();
        let line = Line { name: String::new(), points, is_stepped: true };
        charts.push(over_time(run, "Items between source and sink", "", vec![line]));
    }
    charts
}

/// Returns the chart of the completed items per second of each rank: the measured rates, and the
/// filtered ones that decisions about the distribution of work used. `None` if the log has none.
pub(crate) fn rates(run: &Run) -> Option<Chart> {
    let mut lines = Vec::new();
    for rank in 0..run.ranks.len().min(CURVES) {
        let raw = raw_rates(run, rank);
        if raw.iter().any(|(_, rate)| *rate > 0.0) {
            lines.push(Line { name: format!("rank {rank}"), points: raw, is_stepped: false });
        }
        let filtered = run.filtered_of(rank);
        if filtered.len() > 1 {
            lines.push(Line { name: format!("rank {rank}, filtered"), points: filtered, is_stepped: true });
        }
    }
    let title = format!("Speed of the ranks, {} per second of computing", run.things());
    (!lines.is_empty()).then(|| over_time(run, &title, "/s", lines))
}

/// Returns the rates of a rank over time: completed items per second of computing, as at most [`RATES`] means over consecutive records. Means are
/// taken because an item is often recorded later than its computing time.
fn raw_rates(run: &Run, rank: usize) -> Vec<(f64, f64)> {
    let parts: Vec<_> = run.ranks[rank].parts.iter().filter(|part| part.activity.work_s > 0.0).collect();
    let rate = |group: &[&Part]| {
        let done: u64 = group.iter().flat_map(|part| &part.activity.done).sum();
        let work: f64 = group.iter().map(|part| part.activity.work_s).sum();
        (group[group.len() - 1].to, done as f64 / work)
    };
    parts.chunks(parts.len().div_ceil(RATES).max(1)).map(rate).collect()
}

/// Returns the chart of the distribution of work over time: the ranks of each stage, the number of
/// units (rows or indices) of each rank of a loop, or the number of workers.
pub(crate) fn arrangement(run: &Run) -> Option<Strip> {
    let ends = run.arrangements.iter().skip(1).map(|(at, _)| *at).chain([run.seconds]);
    let mut rows: Vec<StripRow> = Vec::new();
    for ((begin, arrangement), end) in run.arrangements.iter().zip(ends) {
        let cells: Vec<(String, String)> = match arrangement {
            Arrangement::Mapping(mapping) => {
                mapping.stages.iter().map(|(name, ranks)| (name.clone(), ranks.clone())).collect()
            }
            Arrangement::Units(held) => {
                let some = held.iter().enumerate().take(RANKS);
                some.map(|(rank, units)| (format!("rank {rank}"), units.to_string())).collect()
            }
            Arrangement::Workers(workers) => vec![("workers".to_string(), workers.to_string())],
        };
        for (place, (name, text)) in cells.into_iter().enumerate() {
            if place >= rows.len() {
                rows.push(StripRow { name, ..StripRow::default() });
            }
            let boxes = &mut rows[place].boxes;
            match boxes.last_mut() {
                Some(last) if last.text == text => last.end = end,
                _ => {
                    boxes.push(StripBox { begin: *begin, end: end.max(*begin), text, ..StripBox::default() })
                }
            }
        }
    }
    rows.iter_mut().for_each(|row| row.boxes = combined(std::mem::take(&mut row.boxes)));
    let title = match run.skeleton {
        Skeleton::Pipeline => "Ranks of each stage",
        Skeleton::Loop if run.ranks.len() > RANKS => "Units of each of the first 32 ranks",
        Skeleton::Loop => "Units of each rank",
        _ => "Workers",
    };
    (!rows.is_empty()).then(|| Strip { title: title.into(), to: run.seconds, rows })
}

/// Combines consecutive boxes, so that at most [`BOXES`] remain. The label of a combined box has the first and the last text.
fn combined(boxes: Vec<StripBox>) -> Vec<StripBox> {
    let size = boxes.len().div_ceil(BOXES).max(1);
    let one = |group: &[StripBox]| {
        let (first, last) = (&group[0], &group[group.len() - 1]);
        let text =
            if group.len() == 1 { first.text.clone() } else { format!("{} … {}", first.text, last.text) };
        StripBox { begin: first.begin, end: last.end, text, ..StripBox::default() }
    };
    boxes.chunks(size).map(one).collect()
}

/// Maximum number of rows (ranks or stages) of a strip chart, which shows each row as a sequence of
/// labelled boxes along the time axis.
const RANKS: usize = 32;
/// Maximum number of boxes in a row of a strip chart. A box stands for a time in which a rank or
/// stage does the same.
const BOXES: usize = 400;

fn over_time(run: &Run, title: &str, unit: &str, lines: Vec<Line>) -> Chart {
    Chart {
        title: title.into(),
        unit: unit.into(),
        to: run.seconds,
        x_name: TIME.into(),
        lines,
        marks: run.changes.clone(),
    }
}

/// Returns the chart of the peak memory of the ranks' processes, with their memory limits.
pub(crate) fn memory(run: &Run) -> Option<Strip> {
    let peaks = run
        .ranks
        .iter()
        .enumerate()
        .filter_map(|(rank, its)| Some((rank, its.memory_peak?, its.memory_limit)));
    let rows: Vec<StripRow> = peaks
        .take(RANKS)
        .map(|(rank, peak, limit)| {
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            let text = match limit {
                Some(limit) => format!("{:.0} MiB of {:.0}", mib(peak), mib(limit)),
                None => format!("{:.0} MiB", mib(peak)),
            };
            let boxes = vec![StripBox { end: mib(peak), text, ..StripBox::default() }];
            StripRow { name: format!("rank {rank}"), boxes, is_plan: false }
        })
        .collect();
    let to = rows.iter().map(|row| row.boxes[0].end).fold(0.0, f64::max);
    (!rows.is_empty()).then(|| Strip { title: "Peak memory of the ranks' processes, MiB".into(), to, rows })
}

/// Returns the chart of the ranks' activities over time, for an SVG figure, which cannot contain a script.
pub(crate) fn gantt(run: &Run) -> Option<Strip> {
    if !run.has_activity() {
        return None;
    }
    let rows = (0..run.ranks.len().min(RANKS)).map(|rank| {
        let bins = Bins::of(run, &[rank], MIN_ROW_BINS);
        // Adjacent bins in which the rank spends most time on the same kind of activity form one box.
        let mut boxes: Vec<StripBox> = Vec::new();
        for (n, cell) in bins.cells.iter().enumerate() {
            let (begin, end) = (n as f64 * bins.width, (n + 1) as f64 * bins.width);
            let Some(what) = cell.largest() else { continue };
            match boxes.last_mut() {
                Some(last) if last.text == what && (last.end - begin).abs() < 1e-9 * run.seconds => {
                    last.end = end
                }
                _ => boxes.push(StripBox { begin, end, text: what.to_string(), ..StripBox::default() }),
            }
        }
        StripRow { name: format!("rank {rank}"), boxes, is_plan: false }
    });
    Some(Strip { title: "Activity of the ranks".into(), to: run.seconds, rows: rows.collect() })
}
