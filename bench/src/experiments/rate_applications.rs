//! Experiment on the service rates, estimated during a run, of stages of the two applications of Beard and Chamberlain (2015), as in their Figs. 16
//! and 17.
//!
//! The numbers of replicas of the stages are those of the paper: five dot products before a reducer, four hashes and two verifiers. The rate (items
//! per second) of the stage `reduce` or `verify` is estimated during the run, by the paper's heuristic and by the framework's estimator, and compared
//! with the rate of the stage when it runs alone on items in memory. On simulated ranks, the true rate follows from the declared cost, and the
//! framework's events provide the estimates.

use armature::observe::Event;
use rabin_karp::cost;

use super::stream_runs::{folder, simulated};
use crate::plot::Series;
use crate::ranks::Launch;
use crate::streams::{App, alone};
use crate::verdict::Interval;
use crate::{Experiment, Lines, Report, RunResult, Table, Target, TargetedValue};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rate-applications",
    about: "online service rates of the rate paper's two applications, against the stages alone",
    needs: "mpirun of Open MPI, SimGrid, rabin-karp and matmul-stream built for it (ci/bench.sh builds them)",
    run,
};

/// Maximum relative error of an estimated rate that counts as right, as in the paper by Beard and Chamberlain.
const TOLERANCE: f64 = 0.20;
const ESTIMATORS: [&str; 2] = ["heuristic", "framework"];

struct RankStatistics {
    items: f64,
    used: f64,
    held_up: f64,
    converged: f64,
}

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let heads = ["application", "estimator", "estimates", "within 20 %", "lowest", "median", "highest"];
    let mut table = Table::new(&heads);
    let heads = ["application", "rank", "items", "periods used", "held up", "converged"];
    let mut ranks = Table::new(&heads);
    for (app, name, _, size) in App::ALL {
        let (rate, bytes) = alone(app, if smoke { 0.02 } else { 1.0 })?;
        report.note(format!("{name}: {rate:.4e} items/s alone, {:.1} MB/s", 1e-6 * rate * bytes));
        let amount = match (app, smoke) {
            (App::Product, true) => 40,
            (App::Product, false) => 400,
            (App::Search, true) => 2 << 20,
            (App::Search, false) => 1 << 30,
        };
        let output = Launch { limit: std::time::Duration::from_secs(300), ..Launch::ranks(size) }
            .output("watched", &[name.to_string(), amount.to_string()])?;
        let mut plot = Lines::new(
            &format!("Online service rate of the {name}'s stage"),
            "convergence",
            "rate / rate alone",
        );
        for estimator in ESTIMATORS {
            let estimates: Vec<f64> = estimates(&output, estimator).map(|estimate| estimate / rate).collect();
            let near = estimates.iter().filter(|&&ratio| (ratio - 1.0).abs() <= TOLERANCE).count();
            let share = (!estimates.is_empty()).then(|| 100.0 * near as f64 / estimates.len() as f64);
            let sorted = |q| (!estimates.is_empty()).then(|| crate::stats::quantile(&estimates, q));
            table.row([
                name.into(),
                estimator.into(),
                estimates.len().into(),
                share.map(|share| format!("{share:.0} %")).into(),
                sorted(0.0).into(),
                sorted(0.5).into(),
                sorted(1.0).into(),
            ]);
            let points = (1..).zip(&estimates).map(|(n, &ratio)| (f64::from(n), ratio)).collect();
            plot.add(Series::new(estimator, points));
            if estimator == "framework"
                && let Some(share) = share
            {
                let what = format!("{name}: estimates of the framework within 20 %");
                report.mark(TargetedValue::new(&what, Interval::exact(share), "%", Target::AtLeast(50.0)));
            }
        }
        let most = ESTIMATORS.iter().map(|e| estimates(&output, e).count()).max().unwrap_or(0).max(2);
        for (bound, at) in [("alone + 20 %", 1.0 + TOLERANCE), ("alone − 20 %", 1.0 - TOLERANCE)] {
            plot.add(Series::new(bound, vec![(1.0, at), (most as f64, at)]));
        }
        report.lines(name, &plot)?;
        for (rank, seen) in watched(&output)? {
            ranks.row([
                name.into(),
                rank.into(),
                seen.items.into(),
                seen.used.into(),
                seen.held_up.into(),
                if seen.converged > 0.0 { seen.converged.into() } else { "no, and says so".into() },
            ]);
        }
    }
    report.table("", &table)?;
    report.table("ranks", &ranks)?;
    on_simulated_ranks(report, smoke)
}

/// Parses the rates that an estimator printed, in the order of ranks and time.
fn estimates<'o>(output: &'o str, estimator: &'o str) -> impl Iterator<Item = f64> + 'o {
    output.lines().filter_map(move |line| {
        let rest = line.strip_prefix("estimate ")?.strip_prefix(estimator)?;
        rest.split_whitespace().nth(1)?.parse().ok()
    })
}

fn watched(output: &str) -> RunResult<Vec<(usize, RankStatistics)>> {
    let mut ranks = Vec::new();
    for line in output.lines().filter_map(|line| line.strip_prefix("watched ")) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let value = |name: &str| {
            let at = fields.iter().position(|word| *word == name);
            let value = at.and_then(|at| fields.get(at + 1)?.parse::<f64>().ok());
            value.ok_or_else(|| format!("expected {name} in `{line}`"))
        };
        let seen = RankStatistics {
            items: value("items")?,
            used: value("used")?,
            held_up: value("held_up")?,
            converged: value("converged")?,
        };
        // Ranks that created the stage but processed no items have no statistics.
        if seen.items > 0.0 {
            ranks.push((value("rank")? as usize, seen));
        }
    }
    if ranks.is_empty() {
        return Err(format!("no rank has watched its stage:\n{output}").into());
    }
    ranks.sort_by_key(|(rank, _)| *rank);
    Ok(ranks)
}

/// Runs `rabin-karp` on seven simulated ranks, and compares the framework's estimates of the stages' times per item with the costs that `rabin-karp`
/// declares to the simulator.
fn on_simulated_ranks(report: &mut Report, smoke: bool) -> RunResult {
    let events = folder("rate-applications")?.join("events");
    let _ = std::fs::remove_dir_all(&events);
    let (segment, size) = (64 << 10, if smoke { "4M" } else { "64M" });
    let fields = format!(
        "foobar --generate foobar:{size} --count --segment {segment} --mapping auto --balance live --events {}",
        events.display()
    );
    let fields: Vec<String> = fields.split(' ').map(String::from).collect();
    simulated("rabin-karp", 7, &fields)?;
    let candidates = segment / "foobar".len();
    let declared = [("hash", cost::hash(segment, candidates)), ("verify", cost::verify(candidates, 6))];
    let mut table = Table::new(&["stage", "estimates", "lowest / declared", "highest / declared"]);
    let records = armature::observe::read(&events)?.records;
    for (name, operations) in declared {
        let mut ratios = Vec::new();
        for record in &records {
            if let Event::Measured { stage, seconds_per_item, .. } = &record.event
                && stage == name
            {
                ratios.push(seconds_per_item / (1e-9 * operations));
            }
        }
        if ratios.is_empty() {
            return Err(format!("no estimate of {name} is among the events").into());
        }
        let (low, high) = (crate::stats::quantile(&ratios, 0.0), crate::stats::quantile(&ratios, 1.0));
        table.row([name.into(), ratios.len().into(), low.into(), high.into()]);
        let far = (low - 1.0).abs().max((high - 1.0).abs());
        let what = format!("simulated, {name}: largest error of the framework's estimate");
        report.mark(TargetedValue::new(
            &what,
            Interval::exact(100.0 * far),
            "%",
            Target::AtMost(100.0 * TOLERANCE),
        ));
    }
    report.table("simulated", &table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_output_is_parsed() {
        let output = "estimate heuristic 5 100\nestimate framework 5 90.5\nestimate heuristic 5 120\n\
            watched rank 5 items 10 used 8 held_up 2 converged 2 rate 99\n\
            watched rank 0 items 0 used 0 held_up 0 converged 0 rate NaN\n";
        assert_eq!(estimates(output, "heuristic").collect::<Vec<_>>(), [100.0, 120.0]);
        assert_eq!(estimates(output, "framework").collect::<Vec<_>>(), [90.5]);
        let ranks = watched(output).unwrap();
        assert!(ranks.len() == 1 && ranks[0].0 == 5 && ranks[0].1.held_up == 2.0);
        assert!(watched("nothing").is_err());
    }
}
