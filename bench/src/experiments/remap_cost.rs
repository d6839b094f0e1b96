//! Experiment on the cost of changing the mapping (assignment of stages to ranks) of a running pipeline.
//!
//! The pipeline starts with one mapping and repeatedly changes to another and back: a serial stage with state migrates, and the set of replicated
//! stages changes, too. The mean time of runs with only one of both mappings is the expected time; the difference, divided by the number of changes,
//! is the cost of one change. This cost is compared with the time that the pipeline takes for the items in flight at a change (a window). The table
//! also shows the cost of a change that the framework estimates from the arrival times of results in the changing run.

use armature_planner::pipeline::Mapping;

use crate::{
    Bars, Experiment, Report, RunResult, Table, Target, TargetedValue,
    pairs::{Contestant, Rounds, round_robin},
    remap_run::{Job, Run},
    stats::{mean, median, median_interval},
    synthetic_work::{REMAPPED, spec},
    table::digits,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "remap-cost",
    about: "cost of one change of mapping in a stream of items of a millisecond, against the time of a window",
    needs: "mpirun of Open MPI, two cores",
    run,
};

/// Number of items between two changes of the mapping. To estimate the cost, the framework needs the arrival of all items in flight at the change,
/// and of as many further items, before the next change. With competing processes, up to 70 items are in flight, so an interval of 100 would be too
/// short.
const REMAP_INTERVAL: u64 = 200;
const ITEMS: u64 = 2_650;
const ROUNDS: usize = 12;

const ONE: &str = "one mapping";
const OTHER: &str = "the other";
const EXCHANGED: &str = "exchanged";

/// Case: name, number of ranks, `mpi` (true if the ranks run under mpirun), and two mappings (assignments of stages to ranks) with equal throughput.
struct Case {
    name: &'static str,
    ranks: usize,
    mpi: bool,
    mappings: [&'static str; 2],
}

const ON_TWO: [&str; 2] =
    ["read@0 | first@0 | middle@1 | last@0,1 | write@0", "read@0 | first@0,1 | middle@0 | last@1 | write@0"];
const ON_FOUR: [&str; 2] = [
    "read@0 | first@0,1 | middle@2 | last@2,3 | write@0",
    "read@0 | first@2,3 | middle@1 | last@0,1 | write@0",
];
const CASES: [Case; 4] = [
    Case { name: "2 ranks", ranks: 2, mpi: true, mappings: ON_TWO },
    Case { name: "4 ranks", ranks: 4, mpi: true, mappings: ON_FOUR },
    Case { name: "2 threads", ranks: 2, mpi: false, mappings: ON_TWO },
    Case { name: "4 threads", ranks: 4, mpi: false, mappings: ON_FOUR },
];

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let items = if smoke { 850 } else { ITEMS };
    let columns = [
        "ranks",
        "changes",
        "cost of one [ms]",
        "low",
        "high",
        "in flight [items]",
        "window [ms]",
        "own account [ms]",
        "own low",
        "own high",
    ];
    let mut table = Table::new(&columns);
    let (mut costs, mut owns, mut windows) = (Vec::new(), Vec::new(), Vec::new());
    for case in &CASES {
        let mut runs = Vec::new();
        let rounds = measure(case, items, report.rounds(ROUNDS), &mut runs)?;
        let runs = &runs[1..];
        let [one, other, exchanged] = [ONE, OTHER, EXCHANGED].map(|name| rounds.of(name).unwrap_or_default());
        let (mut cost, mut window, mut ratio) = (Vec::new(), Vec::new(), Vec::new());
        for (round, run) in runs.iter().enumerate() {
            let undisturbed = 0.5 * (one[round] + other[round]);
            cost.push((exchanged[round] - undisturbed) / run.changes);
            window.push(run.in_flight * undisturbed / items as f64);
            ratio.push(cost[round] / window[round]);
        }
        let in_ms = |seconds: &[f64]| median_interval(&seconds.iter().map(|s| 1e3 * s).collect::<Vec<_>>());
        let (cost, window) = (in_ms(&cost), in_ms(&window));
        let accounts = |pick: fn(&Run) -> Option<f64>| {
            let reported: Vec<f64> = runs.iter().filter_map(pick).collect();
            match reported.is_empty() {
                true => Err(format!("{}: the framework reported the cost of no change", case.name)),
                false => Ok(reported),
            }
        };
        let own = in_ms(&accounts(|run| run.cost)?);
        table.row([
            case.name.into(),
            digits(median(&runs.iter().map(|run| run.changes).collect::<Vec<_>>()), 0),
            cost.value.into(),
            cost.low.into(),
            cost.high.into(),
            mean(&runs.iter().map(|run| run.in_flight).collect::<Vec<_>>()).into(),
            window.value.into(),
            own.value.into(),
            own.low.into(),
            own.high.into(),
        ]);
        report.mark(TargetedValue::new(
            case.name,
            median_interval(&ratio),
            "windows for one change",
            Target::AtMost(1.0),
        ));
        report.mark(TargetedValue::new(
            &format!("{}, own account", case.name),
            median_interval(&accounts(|run| run.cost_windows)?),
            "windows for one change",
            Target::AtMost(1.0),
        ));
        costs.push(Some(cost));
        owns.push(Some(own));
        windows.push(Some(window));
    }
    report.table("", &table)?;
    let mut bars = Bars::new(
        "One change of mapping (median, 95 % interval)",
        "time [ms]",
        CASES.iter().map(|case| case.name),
    );
    bars.add("what it costs the stream", costs);
    bars.add("by its own account", owns);
    bars.add("a window of items", windows);
    report.bars("", &bars)
}

/// Measures in turn runs with each of the two mappings and a run that changes between them. `runs` receives the results of the changing runs,
/// including the warm-up.
fn measure(case: &Case, items: u64, rounds: usize, runs: &mut Vec<Run>) -> RunResult<Rounds> {
    let [one, other] = case.mappings;
    for text in case.mappings {
        Mapping::parse(text, &spec(REMAPPED)).map_err(|e| format!("{text}: {e}"))?;
    }
    let job = |mapping: &str| Job::fixed("moved", items, mapping);
    let start = |job: Job| if case.mpi { job.on_mpi(case.ranks) } else { job.on_threads(case.ranks) };
    let contestants = vec![
        Contestant::new(ONE, || Ok(start(job(one))?.total)),
        Contestant::new(OTHER, || Ok(start(job(other))?.total)),
        Contestant::new(EXCHANGED, || {
            let run = start(Job { exchange: Some((REMAP_INTERVAL, other.into())), ..job(one) })?;
            if run.changes < 1.0 {
                return Err("the mapping was never exchanged".into());
            }
            let total = run.total;
            runs.push(run);
            Ok(total)
        }),
    ];
    round_robin(rounds, contestants)
}
