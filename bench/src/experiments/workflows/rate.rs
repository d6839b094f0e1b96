//! Experiment: tasks per second of workflows with empty tasks on two ranks, and many commands at once.
//!
//! *closures*: compared with a farm of the same number of empty, independent tasks.
//!
//! *commands*: `/bin/true`, compared with two shells that each run half of the commands in a loop.
//!
//! *slots*: `sleep 1` in 1,000 slots of one rank, compared with `make -j1000`. The start of the first commands and the end of the last ones are part
//! of the time.
//!
//! Parts: `closures`, `commands`, `slots`.

use std::{
    fmt::Write,
    fs,
    path::Path,
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
    about: "tasks per second of a workflow: empty closures, commands against shells, and 1,000 slots of commands against make",
    needs: "mpirun of Open MPI, make, two cores, armature-workflow beside this binary",
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

/// Commands that may run at the same time in part *slots*, and the number of commands that each slot runs.
const SLOTS: usize = 1_000;
const EACH: usize = 20;
const SLEEP: &str = "/bin/sleep";
/// Target: minimum share of the time in which a slot runs a command.
const BUSY: f64 = 0.99;

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let part = if smoke { 10 } else { 1 };
    if report.selects("closures") {
        closures(report, TASKS / part)?;
    }
    if report.selects("commands") {
        commands(report, COMMANDS / part)?;
    }
    if report.selects("slots") { slots(report, SLOTS / part) } else { Ok(()) }
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

fn slots(report: &mut Report, slots: usize) -> RunResult {
    let folder = std::path::absolute("target/bench/workflow-slots")?;
    fs::create_dir_all(&folder)?;
    let (mut dag, mut rules, mut targets) = (String::new(), String::new(), String::from("all:"));
    for task in 0..slots * EACH {
        writeln!(dag, "TASK t{task} {SLEEP} 1")?;
        writeln!(rules, "t{task}:\n\t{SLEEP} 1")?;
        write!(targets, " t{task}")?;
    }
    fs::write(folder.join("sleeps.dag"), dag)?;
    fs::write(folder.join("Makefile"), format!("{targets}\n{rules}"))?;
    let workflow = std::env::current_exe()?.with_file_name("armature-workflow");
    let cores = slots.to_string();
    let contestants = vec![
        Contestant::new(WORKFLOW, || {
            busy(
                &folder,
                &workflow,
                &["sleeps.dag", "--cores", &cores, "--outputs", "outputs", "--skip-rescue"],
            )
        }),
        Contestant::new("make", || busy(&folder, Path::new("make"), &["--silent", "-j", &cores, "all"])),
    ];
    let rounds = round_robin(report.rounds(5), contestants)?;
    let mut table = Table::new(&["slots", "median [of the time busy]", "low", "high"]);
    for (name, samples) in rounds.iter() {
        let share = median_interval(samples);
        table.row([name.into(), share.value.into(), share.low.into(), share.high.into()]);
        if name == WORKFLOW {
            let name = format!("{slots} slots");
            report.mark(TargetedValue::new(&name, share, "of the time busy", Target::AtLeast(BUSY)));
        }
    }
    report.table("slots", &table)
}

/// Runs a program whose slots each run [`EACH`] commands of one second. Returns the share of the time in which a slot runs one.
fn busy(folder: &Path, program: &Path, arguments: &[&str]) -> RunResult<f64> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    let start = Instant::now();
    finish(command, LIMIT)?;
    Ok(EACH as f64 / start.elapsed().as_secs_f64())
}
