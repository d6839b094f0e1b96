//! Results of the experiment with the image search Ferret on simulated clusters: tables, a plot, and comparisons with targets.

use super::super::ferret_costs::Bound;
use super::{
    CONTESTANTS, DPM, HEDPM, LIVE, LONG, LONG_SEARCH, LONG_SEARCH_APART, ORDERLY, REFINED, REFINED_LATER,
    Row, Run,
};
use crate::{Bars, Report, RunResult, Table, Target, TargetedValue, stats, table::digits, verdict::Interval};

/// Speed-up that the paper of the planner HeDPM reports for this planner.
const PAPER: f64 = 9.2;

pub(super) fn write_tables(report: &mut Report, rows: &[Row]) -> RunResult {
    let mut table = Table::new(&[
        "platform",
        "orderly [s]",
        "DPM [s]",
        "HeDPM [s]",
        "refined [s]",
        "best found [s]",
        "plain bound [s]",
        "bound [s]",
        "bound by",
        "HeDPM speed-up",
        "refined speed-up",
        "bound speed-up",
        "refined/plain bound",
        "refined/bound",
        "refined/best",
        "live [s]",
        "changes",
        "the last after [s]",
        "live/refined, last 80 %",
        "by arrivals alone",
    ]);
    let mut mappings =
        Table::new(&["platform", "run", "time [s]", "settled [ms/item]", "predicted [ms/item]", "mapping"]);
    for row in rows {
        let seconds = |name: &str| digits(row.seconds(name), 3);
        table.row([
            row.seed.to_string().into(),
            seconds(ORDERLY),
            seconds(DPM),
            seconds(HEDPM),
            seconds(REFINED),
            digits(row.best(), 3),
            digits(row.items * row.bound.plain(), 3),
            digits(row.bound(), 3),
            row.bound.limit().into(),
            digits(row.speedup(HEDPM), 2),
            digits(row.speedup(REFINED), 2),
            digits(row.seconds(ORDERLY) / row.bound(), 2),
            digits(row.seconds(REFINED) / (row.items * row.bound.plain()), 3),
            digits(row.seconds(REFINED) / row.bound(), 3),
            digits(row.seconds(REFINED) / row.best(), 3),
            seconds(LIVE),
            row.runs.get(LIVE).map_or(0, |run| run.changes.len()).to_string().into(),
            digits(row.runs.get(LIVE).and_then(|run| run.changes.last()).map_or(0.0, |change| change.0), 3),
            digits(row.settled(LIVE, row.bound.seconds()), 3),
            digits(row.settled(LIVE, 0.0), 3),
        ]);
        for contestant in CONTESTANTS {
            let Some(run) = row.runs.get(contestant.name) else { continue };
            mappings.row([
                row.seed.to_string().into(),
                contestant.name.into(),
                digits(run.seconds, 6),
                run.settled().map(|s| digits(1e3 * s, 3)).unwrap_or(crate::table::Cell::Empty),
                digits(1e3 * run.predicted, 3),
                run.mapping.as_str().into(),
            ]);
        }
    }
    report.table("", &table)?;
    report.table("mappings", &mappings)?;
    let seeds: Vec<String> = rows.iter().map(|row| row.seed.to_string()).collect();
    let mut bars = Bars::new(
        "Ferret on 14 simulated hosts",
        "speed-up over the orderly mapping",
        seeds.iter().map(String::as_str),
    );
    let mut add = |name: &str, value: &dyn Fn(&Row) -> f64| {
        bars.add(name, rows.iter().map(|row| Some(Interval::exact(value(row)))).collect());
    };
    add("DPM", &|row| row.speedup(DPM));
    add("HeDPM", &|row| row.speedup(HEDPM));
    add("refined", &|row| row.speedup(REFINED));
    add("live from orderly", &|row| row.speedup(LIVE));
    add("bound", &|row| row.seconds(ORDERLY) / row.bound());
    report.bars("", &bars)
}

pub(super) fn record_marks(report: &mut Report, rows: &[Row]) {
    for name in [DPM, HEDPM, REFINED, LIVE] {
        let speedups: Vec<f64> = rows.iter().map(|row| row.speedup(name)).collect();
        let largest = speedups.iter().copied().fold(0.0, f64::max);
        report.note(format!(
            "{name}: median speed-up {:.2}, largest {largest:.2} (the paper: HeDPM {PAPER} on its one cluster)",
            stats::median(&speedups)
        ));
    }
    report.note(
        "the plain bound: all work at all speeds, and what host 0 must compute or send; the bound: also that `load` \
         is serial, so that one host gets all items",
    );
    for (name, bound) in [("plain bound", Bound::plain as fn(&Bound) -> f64), ("bound", Bound::seconds)] {
        let ratio = |row: &Row| row.seconds(REFINED) / (row.items * bound(&row.bound));
        let ratios: Vec<f64> = rows.iter().map(ratio).collect();
        let (least, most) = (
            ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratios.iter().copied().fold(0.0, f64::max),
        );
        report.note(format!(
            "refined takes {:.2} times the time of the {name} (median; {least:.2} to {most:.2}); within 10 % on {} of {}",
            stats::median(&ratios),
            ratios.iter().filter(|&&ratio| ratio <= 1.1).count(),
            rows.len()
        ));
    }
    let worst = |value: &dyn Fn(&Row) -> f64| rows.iter().map(value).fold(0.0, f64::max);
    let behind = worst(&|row| row.seconds(REFINED) / row.bound().max(row.best()));
    let searched_mapping = |row: &Row| f64::min(row.seconds(LONG_SEARCH), row.seconds(LONG_SEARCH_APART));
    let pace_ratio: Vec<f64> = rows.iter().map(|row| row.seconds(REFINED) / searched_mapping(row)).collect();
    report.note(format!(
        "refined takes {:.3} times the time of the better of two searches that are {} times as long (median; at most {:.3}); \
         within 10 % on {} of {}",
        stats::median(&pace_ratio),
        LONG / armature_planner::pipeline::PlanOptions::default().budget,
        pace_ratio.iter().copied().fold(0.0, f64::max),
        pace_ratio.iter().filter(|&&ratio| ratio <= 1.1).count(),
        rows.len()
    ));
    let what = "refined against the best mapping found, worst platform";
    report.mark(TargetedValue::new(what, Interval::exact(behind), "times its time", Target::AtMost(1.1)));
    let backlog = rows.iter().filter(|row| {
        let settled = row.runs.get(REFINED).and_then(Run::settled);
        settled.is_some_and(|pace| pace < row.bound.seconds())
    });
    let backlog: Vec<String> = backlog.map(|row| row.seed.to_string()).collect();
    report.note(format!(
        "platforms on which the last 80 % of refined's items arrive faster than all hosts can do them, as they wait behind an \
         old one: {}",
        if backlog.is_empty() { "none".into() } else { backlog.join(", ") }
    ));
    let mut behind = |name: &'static str, how: &str, least: fn(&Row) -> f64| {
        let ratios: Vec<f64> = rows.iter().map(|row| row.settled(name, least(row))).collect();
        let worst = ratios.iter().copied().fold(0.0, f64::max);
        report.note(format!(
            "over the last 80 % of the items, {how}, {name} takes {:.3} times the time of refined (median; at most \
             {worst:.3}); within 15 % on {} of {}",
            stats::median(&ratios),
            ratios.iter().filter(|&&ratio| ratio <= 1.15).count(),
            rows.len()
        ));
        worst
    };
    for name in [LIVE, REFINED_LATER] {
        behind(name, "by arrivals alone", |_| 0.0);
    }
    let held = |row: &Row| row.bound.seconds();
    let [worst_live, _] = [LIVE, REFINED_LATER].map(|name| behind(name, "no pace beyond the bound", held));
    let what = "live against refined over the last 80 % of the items, worst platform";
    report.mark(TargetedValue::new(
        what,
        Interval::exact(worst_live),
        "times its time",
        Target::AtMost(1.15),
    ));
    let able: Vec<&Row> = rows.iter().filter(|row| row.seconds(ORDERLY) / row.bound() >= PAPER).collect();
    report.note(format!("{} of {} platforms allow a speed-up of {PAPER}", able.len(), rows.len()));
    if !able.is_empty() {
        let least = able.iter().map(|row| row.speedup(REFINED)).fold(f64::INFINITY, f64::min);
        let what = "refined over orderly, worst platform that allows it";
        report.mark(TargetedValue::new(
            what,
            Interval::exact(least),
            "times as fast",
            Target::AtLeast(PAPER),
        ));
    }
}
