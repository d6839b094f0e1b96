//! Experiment on live balancing on simulated clusters whose speeds are constant: the time until the mapping (assignment of stages to hosts) settles,
//! its quality, and its stability.
//!
//! The clusters and the items are those of the experiment `ferret-simgrid`; the items are repeated four times, so that the beginning and the end of
//! the run have little weight. The costs of items differ by a factor of up to a hundred, which is the only noise: speeds and links are constant.

use std::path::Path;

use super::{
    ferret_costs::Costs,
    ferret_simgrid::{CONTESTANTS, Case, Contestant, LIVE, PROFILE, REFINED, Run, SEEDS},
};
use crate::{
    Bars, Experiment, Report, RunResult, Table, Target, TargetedValue, stats, table::digits,
    verdict::Interval,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "live-settling",
    about: "live balancing from an orderly mapping on 20 simulated clusters: throughput, number of changes, stability",
    needs: "SimGrid, Ferret built for it (ci/bench.sh builds it)",
    run,
};

const ITEMS: usize = 700;
const REPEATS: usize = 4;
const MAX_CHANGES: f64 = 3.0;

struct Row {
    seed: u64,
    refined: Run,
    live: Run,
    /// Minimum seconds per item on this row's cluster, if all hosts share the work and no host is ever idle.
    least: f64,
}

impl Row {
    fn pace(run: &Run) -> Option<f64> {
        run.pace(run.arrivals.len() / 2)
    }

    fn ratio(&self) -> f64 {
        self.live.pace_ratio(&self.refined, Row::pace, self.least)
    }

    /// Returns the seconds per item with live balancing relative to the refined (default) planner's mapping, from arrival times alone. Items that
    /// waited behind an older item may arrive faster than the hosts process them.
    fn by_arrivals(&self) -> f64 {
        self.live.pace_ratio(&self.refined, Row::pace, 0.0)
    }

    /// Returns the ratio of the times per item (live balancing to the refined planner's mapping) over the last 80 % of the items, as the experiment
    /// `ferret-simgrid` measures it with a quarter as many items.
    fn settled_ratio(&self) -> f64 {
        self.live.pace_ratio(&self.refined, Run::settled, self.least)
    }

    fn late_changes(&self) -> usize {
        let half = self.live.arrivals.get(self.live.arrivals.len() / 2).copied().unwrap_or(f64::INFINITY);
        self.live.changes.iter().filter(|(at, _)| *at > half).count()
    }
}

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let costs = Costs::read(Path::new(PROFILE), ITEMS)?;
    let items = if smoke { ITEMS / 2 } else { REPEATS * ITEMS };
    report.note(format!("{items} items; times are simulated, the pace is that of the second half"));
    let mut rows = Vec::new();
    for seed in SEEDS.take(if smoke { 2 } else { 20 }) {
        if !report.selects(&seed.to_string()) {
            continue;
        }
        let case = Case::new("live-settling", seed, &costs, items)?;
        let (refined, live) = (case.run(contestant(REFINED)?)?, case.run(contestant(LIVE)?)?);
        if refined.checksum != live.checksum {
            return Err(format!("on platform {seed} live delivered something else than refined").into());
        }
        rows.push(Row { seed, refined, live, least: case.bound().seconds() });
    }
    if rows.is_empty() {
        return Ok(());
    }
    write_tables(report, &rows)?;
    let worst = |value: &dyn Fn(&Row) -> f64| Interval::exact(rows.iter().map(value).fold(0.0, f64::max));
    let ratios: Vec<f64> = rows.iter().map(Row::ratio).collect();
    let near = ratios.iter().filter(|&&ratio| ratio <= 1.1).count();
    report.note(format!(
        "live takes {:.3} times the time of refined (median); within 10 % on {near} of {} platforms",
        stats::median(&ratios),
        rows.len()
    ));
    let mut mark = |what: &str, value: Interval, unit: &str, most: f64| {
        report.mark(TargetedValue::new(what, value, unit, Target::AtMost(most)));
    };
    mark("live against refined, worst platform", worst(&Row::ratio), "times its time", 1.1);
    mark("the same over the last 80 % of the items", worst(&Row::settled_ratio), "times its time", 1.15);
    mark(
        "changes of mapping, most on a platform",
        worst(&|r| r.live.changes.len() as f64),
        "changes",
        MAX_CHANGES,
    );
    mark(
        "changes in the second half, most on a platform",
        worst(&|r| r.late_changes() as f64),
        "changes",
        0.0,
    );
    Ok(())
}

fn contestant(name: &str) -> RunResult<&'static Contestant> {
    CONTESTANTS.iter().find(|c| c.name == name).ok_or_else(|| format!("there is no contestant {name}").into())
}

fn write_tables(report: &mut Report, rows: &[Row]) -> RunResult {
    let mut table = Table::new(&[
        "platform",
        "refined [ms/item]",
        "live [ms/item]",
        "live/refined",
        "by arrivals alone",
        "last 80 %",
        "changes",
        "the last after [s]",
        "of [s]",
        "mapping in the end",
    ]);
    for row in rows {
        let last = row.live.changes.last();
        table.row([
            row.seed.to_string().into(),
            digits(1e3 * Row::pace(&row.refined).unwrap_or(f64::NAN), 3),
            digits(1e3 * Row::pace(&row.live).unwrap_or(f64::NAN), 3),
            digits(row.ratio(), 3),
            digits(row.by_arrivals(), 3),
            digits(row.settled_ratio(), 3),
            row.live.changes.len().to_string().into(),
            digits(last.map_or(0.0, |change| change.0), 3),
            digits(row.live.seconds, 3),
            last.map_or("", |change| change.1.as_str()).into(),
        ]);
    }
    report.table("", &table)?;
    let seeds: Vec<String> = rows.iter().map(|row| row.seed.to_string()).collect();
    let mut bars = Bars::new(
        "Live from orderly on 14 simulated hosts, second half of the stream",
        "time of an item, of refined's",
        seeds.iter().map(String::as_str),
    );
    bars.add("live", rows.iter().map(|row| Some(Interval::exact(row.ratio()))).collect());
    report.bars("", &bars)
}
