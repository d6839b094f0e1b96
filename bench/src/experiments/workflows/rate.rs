//! Experiment: tasks per second of workflows with empty tasks on two ranks.
//!
//! *closures*: compared with a farm of the same number of empty, independent tasks.
//!
//! *commands*: `/bin/true`, compared with two shells that each run half of the commands in a loop.
//!
//! Parts: `closures`, `commands`.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use crate::{
    Experiment, Report, RunResult, Table, Target, TargetedValue,
    farm::tiny::{self, Tiny},
    pairs::{Contestant, round_robin},
    ranks::finish,
    stats::median_interval,
    workflows::empty::{self, Shape, TRUE},
};

pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "workflow-rate",
    about: "empty tasks of a workflow on two ranks, tasks/s, against a farm of the same size, and against shells that start commands",
    needs: "mpirun of Open MPI, two cores",
    run,
};

const TASKS: usize = 10_000;

/// Target for workflows of closures, in tasks per second.
const MARK: f64 = 100_000.0;

const COMMANDS: usize = 2_000;
const WORKFLOW: &str = "workflow";
const SHELLS: &str = "two shells";
/// Target for commands: minimum ratio of the workflow's commands per second to those of two shells.
const OF_SHELLS: f64 = 0.9;
const LIMIT: Duration = Duration::from_secs(60);

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let part = if smoke { 10 } else { 1 };
    if report.selects("closures") {
        closures(report, TASKS / part)?;
    }
    if report.selects("commands") { commands(report, COMMANDS / part) } else { Ok(()) }
}

fn closures(report: &mut Report, tasks: usize) -> RunResult {
    let farm = Tiny { size: 8, tasks, dedicated: false };
    let contestants = vec![
        Contestant::new("independent tasks", || empty::measure(Shape::Independent, tasks)),
        Contestant::new("layers of a hundred", || empty::measure(Shape::Layers, tasks)),
        Contestant::new("farm", || tiny::measure(farm)),
    ];
    let rounds = round_robin(report.rounds(20), contestants)?;
    let mut table = Table::new(&["tasks", "median [tasks/s]", "low", "high"]);
    for (name, samples) in rounds.iter() {
        let rate = median_interval(samples);
        table.row([name.into(), rate.value.into(), rate.low.into(), rate.high.into()]);
        if name != "farm" {
            report.mark(TargetedValue::new(name, rate, "tasks/s", Target::AtLeast(MARK)));
        }
    }
    report.table("closures", &table)
}

fn commands(report: &mut Report, tasks: usize) -> RunResult {
    let contestants = vec![
        Contestant::new(WORKFLOW, || empty::measure(Shape::Commands, tasks)),
        Contestant::new(SHELLS, || shells(tasks)),
    ];
    let rounds = round_robin(report.rounds(20), contestants)?;
    let mut table = Table::new(&["commands", "median [1/s]", "low", "high"]);
    for (name, samples) in rounds.iter() {
        let rate = median_interval(samples);
        table.row([name.into(), rate.value.into(), rate.low.into(), rate.high.into()]);
    }
    if let Some(ratio) = rounds.ratio(WORKFLOW, SHELLS) {
        report.mark(TargetedValue::new(
            "commands against two shells",
            ratio,
            "of their rate",
            Target::AtLeast(OF_SHELLS),
        ));
    }
    report.table("commands", &table)
}

fn shells(tasks: usize) -> RunResult<f64> {
    let each = tasks / 2;
    let looped = format!("i=0; while [ $i -lt {each} ]; do {TRUE}; i=$((i+1)); done");
    let mut both = Command::new("sh");
    both.arg("-c").arg(format!("({looped}) & ({looped}); wait"));
    let start = Instant::now();
    finish(both, LIMIT)?;
    Ok(2.0 * each as f64 / start.elapsed().as_secs_f64())
}
