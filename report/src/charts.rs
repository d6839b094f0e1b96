//! Charts of a run over time. A chart is omitted if the log lacks its data.

use armature::observe::number_format::seconds;

use crate::account::Shares;
use crate::bins::{Bins, done_by};
use crate::run::{Arrangement, Run, Skeleton};
use crate::svg::{Chart, Line, Row, Strip};

/// Maximum number of ranks drawn as separate curves; more curves could not be distinguished.
const CURVES: usize = 12;
/// Number of points in time at which a curve is evaluated.
const MOMENTS: usize = 400;
const TIME: &str = "seconds since the run began";

/// Returns the chart of the number of computing ranks over time.
pub(crate) fn busy(run: &Run, bins: &Bins) -> Chart {
    let busy = bins.busy();
    let points = busy.iter().enumerate().map(|(n, busy)| ((n as f64 + 0.5) * bins.width, *busy)).collect();
    let lines = vec![Line { name: "in user code".into(), points, is_stepped: false }];
    over_time(run, "Ranks that compute", "ranks", lines)
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
    let name =
        if run.skeleton == Skeleton::Pipeline { "results".to_string() } else { run.things().to_string() };
    let unit = format!("{} a second", run.things());
    let mut charts =
        vec![over_time(run, "Done a second", &unit, vec![Line { name, points, is_stepped: false }])];
    if run.skeleton == Skeleton::Pipeline && last > 0 {
        let drawn = done_by(run, 0, MOMENTS);
        let points = (0..=MOMENTS).map(|n| (n as f64 * step, (drawn[n] - done[n]).max(0.0))).collect();
        let line = Line { name: "drawn, not at the sink".into(), points, is_stepped: true };
        charts.push(over_time(run, "Items in flight", "items", vec![line]));
    }
    charts
}

/// Returns the chart of the completed items per second of each rank: the measured rates, and the
/// filtered ones that decisions about the distribution of work used. `None` if the log has none.
pub(crate) fn rates(run: &Run) -> Option<Chart> {
    let mut lines = Vec::new();
    for rank in 0..run.ranks.len().min(CURVES) {
        let raw: Vec<(f64, f64)> = run.ranks[rank]
            .parts
            .iter()
            .filter(|part| part.activity.work_s > 0.0)
            .map(|part| {
                let done: u64 = part.activity.done.iter().sum();
                (part.to, done as f64 / part.activity.work_s)
            })
            .collect();
        if raw.iter().any(|(_, rate)| *rate > 0.0) {
            lines.push(Line { name: format!("rank {rank}"), points: smoothed(&raw), is_stepped: false });
        }
        let filtered = run.filtered_of(rank);
        if filtered.len() > 1 {
            lines.push(Line { name: format!("rank {rank}, filtered"), points: filtered, is_stepped: true });
        }
    }
    let unit = format!("{} per second of computing", run.things());
    (!lines.is_empty()).then(|| over_time(run, "Rates of the ranks", &unit, lines))
}

/// Returns the means of groups of consecutive points, at most 120 groups, so that the curve is readable.
fn smoothed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let size = points.len().div_ceil(120).max(1);
    let mean = |group: &[(f64, f64)]| {
        let n = group.len() as f64;
        (group.iter().map(|p| p.0).sum::<f64>() / n, group.iter().map(|p| p.1).sum::<f64>() / n)
    };
    points.chunks(size).map(mean).collect()
}

/// Returns the chart of the distribution of work over time: the ranks of each stage, the number of
/// units (rows or indices) of each rank of a loop, or the number of workers.
pub(crate) fn arrangement(run: &Run) -> Option<Strip> {
    let ends = run.arrangements.iter().skip(1).map(|(at, _)| *at).chain([run.seconds]);
    let mut rows: Vec<Row> = Vec::new();
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
                rows.push((name, Vec::new()));
            }
            let boxes = &mut rows[place].1;
            match boxes.last_mut() {
                Some(last) if last.2 == text => last.1 = end,
                _ => boxes.push((*begin, end.max(*begin), text)),
            }
        }
    }
    for (_, boxes) in &mut rows {
        boxes.truncate(BOXES);
    }
    let title = match run.skeleton {
        Skeleton::Pipeline => "Ranks of each stage",
        Skeleton::Loop => "Units of each rank",
        _ => "Workers",
    };
    (!rows.is_empty()).then(|| Strip { title: title.into(), to: run.seconds, rows })
}

/// Maximum number of rows (ranks or stages) of a strip chart, which shows each row as a sequence of
/// labelled boxes along the time axis.
const RANKS: usize = 64;
/// Maximum number of boxes in a row of a strip chart. A box stands for a time in which a rank or
/// stage does the same.
const BOXES: usize = 400;

/// Returns the chart of predicted and measured times per item after changes of the distribution of work.
pub(crate) fn outcomes(run: &Run) -> Option<Chart> {
    let finite = run.outcomes.iter().filter(|o| o.predicted_s.is_finite() && o.after_s.is_finite());
    let points: Vec<(f64, f64, String)> = finite
        .map(|o| {
            let text = format!(
                "at {:.2} s: {} predicted, {} measured, {} before",
                o.at,
                seconds(o.predicted_s),
                seconds(o.after_s),
                seconds(o.before_s)
            );
            (o.predicted_s, o.after_s, text)
        })
        .collect();
    let to = points.iter().map(|p| p.0.max(p.1)).fold(0.0, f64::max) * 1.05;
    (!points.is_empty()).then(|| Chart {
        title: "Predicted and measured times after changes".into(),
        unit: "measured, seconds".into(),
        x_name: "predicted, seconds".into(),
        to,
        points,
        diagonal: true,
        ..Chart::default()
    })
}

fn over_time(run: &Run, title: &str, unit: &str, lines: Vec<Line>) -> Chart {
    Chart {
        title: title.into(),
        unit: unit.into(),
        to: run.seconds,
        x_name: TIME.into(),
        lines,
        marks: run.changes.clone(),
        ..Chart::default()
    }
}

/// Returns the chart of the peak memory of the ranks' processes, with their memory limits.
pub(crate) fn memory(run: &Run) -> Option<Strip> {
    let peaks = run
        .ranks
        .iter()
        .enumerate()
        .filter_map(|(rank, its)| Some((rank, its.memory_peak?, its.memory_limit)));
    let rows: Vec<Row> = peaks
        .take(RANKS)
        .map(|(rank, peak, limit)| {
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            let text = match limit {
                Some(limit) => format!("{:.0} MiB of {:.0}", mib(peak), mib(limit)),
                None => format!("{:.0} MiB", mib(peak)),
            };
            (format!("rank {rank}"), vec![(0.0, mib(peak), text)])
        })
        .collect();
    let to = rows.iter().map(|row| row.1[0].1).fold(0.0, f64::max);
    (!rows.is_empty()).then(|| Strip { title: "Peak memory of the ranks' processes, MiB".into(), to, rows })
}

/// Returns the chart of the ranks' activities over time, for an SVG figure, which cannot contain a script.
pub(crate) fn gantt(run: &Run) -> Option<Strip> {
    if !run.has_activity() {
        return None;
    }
    let bins = Bins::of(run, 1);
    let rows = bins.cells.iter().take(RANKS).enumerate().map(|(rank, cells)| {
        // Adjacent groups of bins whose ranks spend most time on the same kind of activity form one box.
        let mut boxes: Vec<(f64, f64, String)> = Vec::new();
        let size = bins.count.div_ceil(BOXES);
        for (n, group) in cells.chunks(size).enumerate() {
            let (from, to) = (n as f64 * size as f64 * bins.width, (n + 1) as f64 * size as f64 * bins.width);
            let sum = group.iter().fold(Shares::default(), |sum, cell| sum.plus(*cell));
            let Some(what) = sum.largest() else { continue };
            match boxes.last_mut() {
                Some(last) if last.2 == what && (last.1 - from).abs() < 1e-9 * run.seconds => last.1 = to,
                _ => boxes.push((from, to.min(run.seconds), what.to_string())),
            }
        }
        (format!("rank {rank}"), boxes)
    });
    Some(Strip { title: "Activity of the ranks".into(), to: run.seconds, rows: rows.collect() })
}
