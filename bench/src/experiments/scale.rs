//! Experiment on the growth with the number of ranks: farm, pipeline, loops and workflow on 64 to 4,000 simulated hosts.
//!
//! The hosts are equal and connected by one switch, with links of 1 Gbit/s and 25 µs each. The figures come from the event log of each run: the
//! efficiency (computing time of all ranks divided by ranks and time), the share of the time that rank 0 spends on messages, planning and set-up, and
//! the messages that it sends for each task. Simulated time includes messages, but not the computing time of rank 0's decisions; the real time of the
//! simulation includes all ranks' code.

mod planner;

use std::{
    fmt, fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use armature_report::{Run as LoggedRun, efficiencies};

use crate::{
    Experiment, Report, RunResult, Table, Target, TargetedValue,
    loops::simulated::SPEED,
    ranks::{finish, simulation},
    table::digits,
    verdict::Interval,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "scale",
    about: "efficiency and the time of rank 0 on 64, 256, 1,000 and 4,000 simulated ranks, for every skeleton; farms with up to \
            100,000 workers in the planner's simulator",
    needs: "SimGrid and 22 GB of memory; the simulated programs (ci/bench.sh builds them)",
    run,
};

const FOLDER: &str = "target/bench/scale";
/// Time limit of one simulation. A pipeline on 4,000 ranks took 53 minutes on a busy machine.
const LIMIT: Duration = Duration::from_secs(4 * 3_600);
const RANKS: [usize; 4] = [64, 256, 1_000, 4_000];
/// Computing time for each rank of a farm in seconds. The loss at the start and at the end of a farm grows less: on 1,000 ranks, tasks
/// of 10 ms reach 0.978 with 2 s and 0.996 with 10 s.
const FARM_WORK: f64 = 10.0;
/// Computing time for each rank of a loop in seconds.
const LOOP_WORK: f64 = 2.0;
/// Maximum number of tasks of a farm. With more, the simulation takes hours.
const MOST_TASKS: usize = 2_000_000;
/// Times of a farm's tasks in milliseconds.
const TASKS: [f64; 3] = [1.0, 10.0, 100.0];
/// Ranks for each sub-master of a farm.
const RANKS_OF_SUBMASTER: usize = 100;
/// Number of rows or indices of a loop for each rank, and its passes.
const UNITS: usize = 8;
const PASSES: usize = 50;
/// Tasks of the workflow.
const WORKFLOW: usize = 30_000;

/// Growth of one skeleton with the number of ranks.
#[derive(Clone, Copy, Debug)]
enum Case {
    Farm { task_ms: f64, has_submasters: bool },
    Pipeline,
    DoAll,
    Sweep,
    Workflow,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Case::Farm { task_ms, has_submasters: false } => write!(f, "farm, tasks of {task_ms} ms"),
            Case::Farm { task_ms, has_submasters: true } => {
                write!(f, "farm, tasks of {task_ms} ms, sub-masters")
            }
            Case::Pipeline => f.write_str("pipeline of four stages"),
            Case::DoAll => f.write_str("DOALL"),
            Case::Sweep => f.write_str("DOACROSS"),
            Case::Workflow => f.write_str("workflow of 30,000 tasks"),
        }
    }
}

/// Figures of one simulated run.
struct Figures {
    seconds: f64,
    efficiency: f64,
    /// Share of the time that rank 0 spends on messages, planning and set-up.
    rank_0: f64,
    /// Messages that rank 0 sends for each task, item, or row and pass.
    messages: f64,
    /// Real seconds of the simulation.
    real: f64,
}

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let ranks: &[usize] = if smoke { &[4, 8] } else { &RANKS };
    let mut cases: Vec<Case> = Vec::new();
    if report.selects("farm") {
        cases.extend(TASKS.map(|task_ms| Case::Farm { task_ms, has_submasters: false }));
        cases.extend(TASKS.map(|task_ms| Case::Farm { task_ms, has_submasters: true }));
    }
    for (part, case) in [
        ("pipeline", Case::Pipeline),
        ("doall", Case::DoAll),
        ("sweep", Case::Sweep),
        ("workflow", Case::Workflow),
    ] {
        if report.selects(part) {
            cases.push(case);
        }
    }
    let columns = [
        "case",
        "ranks",
        "simulated time [s]",
        "efficiency",
        "rank 0 busy with messages",
        "messages per task",
        "real time [s]",
    ];
    let mut table = Table::new(&columns);
    for &ranks in ranks {
        for &case in &cases {
            let figures = case.simulate(ranks, smoke)?;
            println!(
                "   {case} on {ranks} ranks: efficiency {:.3}, rank 0 {:.4}, {:.3} messages per task, {:.1} s",
                figures.efficiency, figures.rank_0, figures.messages, figures.real
            );
            table.row([
                case.to_string().into(),
                ranks.into(),
                figures.seconds.into(),
                digits(figures.efficiency, 3),
                digits(figures.rank_0, 4),
                digits(figures.messages, 3),
                digits(figures.real, 1),
            ]);
            if ranks == 1_000 {
                let mark = |what: &str, value, unit, target| {
                    TargetedValue::new(
                        &format!("{case}, 1,000 ranks: {what}"),
                        Interval::exact(value),
                        unit,
                        target,
                    )
                };
                if matches!(case, Case::Farm { task_ms: 10.0, .. }) {
                    report.mark(mark("efficiency", figures.efficiency, "of the time", Target::AtLeast(0.95)));
                }
                report.mark(mark("rank 0", figures.rank_0, "of its time", Target::AtMost(0.05)));
            }
        }
    }
    if !cases.is_empty() {
        report.table("ranks", &table)?;
    }
    if report.selects("planner") { planner::run(report, smoke) } else { Ok(()) }
}

impl Case {
    fn simulate(self, ranks: usize, smoke: bool) -> RunResult<Figures> {
        let events = Path::new(FOLDER).join("events");
        if events.exists() {
            fs::remove_dir_all(&events).map_err(|e| format!("cannot remove {}: {e}", events.display()))?;
        }
        fs::create_dir_all(FOLDER).map_err(|e| format!("cannot create {FOLDER}: {e}"))?;
        let mut command = simulation(ranks, LIMIT);
        command.env("ARMATURE_EVENTS", &events);
        let things = self.arguments(&mut command, ranks, smoke)?;
        let start = Instant::now();
        finish(command, LIMIT)?;
        let real = start.elapsed().as_secs_f64();
        let log = armature::observe::read(&events).map_err(|e| e.to_string())?;
        let runs = LoggedRun::all(&log.records);
        let longest = runs
            .iter()
            .max_by(|a, b| a.seconds.total_cmp(&b.seconds))
            .ok_or("the run has logged no events")?;
        let all =
            efficiencies(longest, "run", (0.0, longest.seconds)).ok_or("the log has no activity of ranks")?;
        let root = longest.ranks.first().ok_or("the log has no ranks")?;
        let busy: f64 = root.parts.iter().map(|part| part.activity.messages_s + part.activity.set_up_s).sum();
        let sent: u64 = root.sent.values().map(|(count, _)| count).sum();
        Ok(Figures {
            seconds: longest.seconds,
            efficiency: all.useful_time / (ranks as f64 * longest.seconds),
            rank_0: busy / longest.seconds,
            messages: sent as f64 / things as f64,
            real,
        })
    }

    /// Adds the program and its arguments to the command. Returns the number of tasks, of items, or of rows times passes.
    fn arguments(self, command: &mut Command, ranks: usize, smoke: bool) -> RunResult<usize> {
        let of_loop = if smoke { LOOP_WORK / 10.0 } else { LOOP_WORK };
        let of_farm = if smoke { of_loop } else { FARM_WORK };
        let mut simulated = |name: &str, arguments: &[String]| {
            command.arg(format!("armature-bench-simulated{name}")).args(arguments);
        };
        Ok(match self {
            Case::Farm { task_ms, has_submasters } => {
                let tasks = ((ranks as f64 * of_farm / (task_ms / 1e3)) as usize).min(MOST_TASKS);
                let submasters = if has_submasters { (ranks / RANKS_OF_SUBMASTER).max(2) } else { 0 };
                let operations = SPEED * task_ms / 1e3;
                simulated(
                    "",
                    &[
                        format!("tasks={tasks}"),
                        format!("mean={operations}"),
                        "deviation=0.5".into(),
                        format!("sub-masters={submasters}"),
                    ],
                );
                tasks
            }
            Case::Pipeline => {
                let items = ranks * if smoke { 5 } else { 50 };
                simulated("-pipeline", &[format!("items={items}"), format!("cost={}", SPEED * 0.01)]);
                items
            }
            Case::DoAll | Case::Sweep => {
                let kind = if matches!(self, Case::DoAll) { "all" } else { "sweep" };
                let (units, unit) = (ranks * UNITS, SPEED * of_loop / (UNITS * PASSES) as f64);
                simulated(
                    "-loop",
                    &[
                        format!("kind={kind}"),
                        format!("units={units}"),
                        format!("unit={unit}"),
                        "bytes=1024".into(),
                        format!("passes={PASSES}"),
                        "live=true".into(),
                    ],
                );
                units * PASSES
            }
            Case::Workflow => {
                let tasks = if smoke { 60 } else { WORKFLOW };
                let platform = Path::new(FOLDER).join("platform.toml");
                fs::write(
                    &platform,
                    format!("bandwidth = \"125 MB\"\n[[processor]]\ncount = {ranks}\nmemory = \"64 GiB\"\n"),
                )?;
                command.args([
                    "armature-workflow",
                    "--generate",
                    &format!("montage:{tasks}"),
                    "--synthetic-work",
                    // Tasks take 0.1 to 100 ms. Idle ranks poll: with tasks of up to 1,000 s, the simulation would take hours. The ranks hold the
                    // values of tasks in the memory of this machine: in full size, those of all tasks would need 150 GB.
                    "--time-scale",
                    "0.0001",
                    "--size-scale",
                    "0.001",
                    "--memory-scale",
                    "0.001",
                    "--platform",
                ]);
                command.arg(platform);
                tasks
            }
        })
    }
}
