//! Experiment on the utilization of two cores by a farm: 10,000 tasks of 0.5 ms whose lengths have a deviation of 80 %, on two ranks that both
//! compute, pinned to two cores.
//!
//! The farm runs alone, and next to a process that permanently takes half of the second core. The programs written by hand send one task per message
//! with eight requested ahead, give half of the tasks to each rank, or give half of the *work* to each rank; the last program needs the task lengths
//! in advance, and shows the limit of the machine. The framework runs with automatic chunking and with the fixed chunking policies.
//!
//! The efficiency is the sum of all task times, measured around each task, divided by twice the time of the run. The measured time of a task includes
//! interruptions by other processes, which makes the efficiency too high. Therefore the table also shows the time relative to that of equal halves of
//! the work.

use std::cell::RefCell;
use std::time::Duration;

use armature_planner::farm::{Chunking, Published};

use crate::{
    Bars, Experiment, Report, RunResult, Table, Target, TargetedValue,
    burner::{Load, share, two_cores},
    farm::{
        job::{Job, Run, Way},
        task_set::{TaskSet, steps_in},
    },
    pairs::{Contestant, Rounds, round_robin},
    stats::{median, median_interval},
    table::digits,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "farm-efficiency",
    about: "10,000 tasks of 0.5 ms on two computing ranks: share of time in tasks, and against a static split under a load",
    needs: "mpirun of Open MPI, two cores that nobody else uses",
    run,
};

const ROUNDS: usize = 20;
const TASKS: usize = 10_000;
const LENGTH: f64 = 0.5e-3;
const DEVIATION: f64 = 0.8;
const SEED: u64 = 2006;
/// Time for measuring the fraction of a core that a thread gets next to the load process. It covers many time slices of the scheduler.
const MEASURE_SHARE: Duration = Duration::from_millis(500);

const AUTO: &str = "armature";
const STATIC: &str = "armature, static";
const BY_HAND: &str = "MPI by hand, 8 ahead";
const HALVES: &str = "MPI by hand, static";
const EVEN: &str = "MPI by hand, equal work";

/// Compared ways to distribute the tasks. Only the first five have targets.
const WAYS: [(&str, Way); 11] = [
    (AUTO, Way::Farm(Chunking::Auto)),
    (BY_HAND, Way::Ahead(8)),
    (STATIC, Way::Farm(Chunking::Static)),
    (HALVES, Way::Halves),
    (EVEN, Way::Even),
    ("armature, SS", Way::Farm(Chunking::Policy(Published::SelfScheduling))),
    ("armature, GSS", Way::Farm(Chunking::Policy(Published::Gss))),
    ("armature, FAC2", Way::Farm(Chunking::Policy(Published::Fac2))),
    ("armature, AWF-B", Way::Farm(Chunking::Policy(Published::AwfB))),
    ("armature, AF", Way::Farm(Chunking::Policy(Published::Af))),
    ("armature, DAF", Way::Farm(Chunking::Policy(Published::Daf))),
];

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let cores = two_cores()?;
    let mean = steps_in(LENGTH);
    let tasks = if smoke { TASKS / 20 } else { TASKS };
    let task_set = TaskSet { tasks, mean, deviation: DEVIATION, seed: SEED };
    report.note(format!("{tasks} tasks of {mean:.0} steps on average, ranks pinned to cores {cores:?}"));
    let rounds = report.rounds(ROUNDS);
    let job = |way| Job { task_set, way, cores: cores.to_vec() };

    let (with_alone, with_load) = (report.selects("alone"), report.selects("beside"));
    let ways = if report.selects("policies") { &WAYS[..] } else { &WAYS[..5] };
    let runs: Vec<RefCell<Vec<Run>>> = ways.iter().map(|_| RefCell::default()).collect();
    let alone = ways.iter().zip(&runs).filter(|_| with_alone).map(|((name, way), runs)| {
        Contestant::new(*name, move || {
            let run = job(*way).on_two_ranks()?;
            runs.borrow_mut().push(run);
            Ok(run.seconds)
        })
    });
    let alone = round_robin(rounds, alone.collect())?;
    // The first run of each way to distribute the tasks is the warm-up.
    let runs: Vec<Vec<Run>> =
        runs.into_iter().map(|runs| runs.into_inner().into_iter().skip(1).collect()).collect();

    let thread_shares = RefCell::new(Vec::new());
    let loaded_rounds = ways.iter().filter(|(name, _)| with_load && *name != EVEN).map(|(name, way)| {
        let thread_shares = &thread_shares;
        Contestant::new(*name, move || {
            let load = Load::on_core(cores[1]).start()?;
            let run = job(*way).on_two_ranks()?;
            thread_shares.borrow_mut().push(share(cores[1], MEASURE_SHARE)?);
            drop(load);
            Ok(run.seconds)
        })
    });
    let loaded_rounds = round_robin(rounds, loaded_rounds.collect())?;

    write_tables(report, ways, &alone, &loaded_rounds, &runs)?;
    let thread_shares = thread_shares.into_inner();
    if !thread_shares.is_empty() {
        // Maximum speed of any distribution of the work, relative to equal halves. If a rank gets the share s of the second core, equal halves take
        // the time 0.5 / s, and a distribution without waiting 1 / (1 + s).
        let thread_shares = median(&thread_shares);
        let bound = (1.0 + thread_shares) / (2.0 * thread_shares);
        report.note(format!(
            "beside the load a thread keeps {thread_shares:.3} of the second core: nothing can be more than {bound:.3} times as \
             fast as equal halves"
        ));
    }
    record_marks(report, &alone, &loaded_rounds, &runs[0]);
    Ok(())
}

fn write_tables(
    report: &mut Report,
    ways: &[(&str, Way)],
    alone: &Rounds,
    loaded_rounds: &Rounds,
    runs: &[Vec<Run>],
) -> RunResult {
    let columns = [
        "who",
        "alone [s]",
        "low",
        "high",
        "efficiency",
        "time of equal work",
        "beside the load [s]",
        "low",
        "high",
        "times as fast as static",
    ];
    let mut table = Table::new(&columns);
    for ((name, _), runs) in ways.iter().zip(runs) {
        let time = alone.of(name).map(median_interval);
        let efficiency = (!runs.is_empty()).then(|| digits(median(&efficiencies(runs)), 3));
        let of_even = alone.ratio(name, EVEN).map(|ratio| digits(ratio.value, 3));
        let loaded = loaded_rounds.of(name).map(median_interval);
        table.row([
            (*name).into(),
            time.map(|time| time.value).into(),
            time.map(|time| time.low).into(),
            time.map(|time| time.high).into(),
            efficiency.into(),
            of_even.into(),
            loaded.map(|time| time.value).into(),
            loaded.map(|time| time.low).into(),
            loaded.map(|time| time.high).into(),
            loaded_rounds.ratio(STATIC, name).map(|ratio| digits(ratio.value, 3)).into(),
        ]);
    }
    report.table("", &table)?;
    let title = "10,000 tasks of 0.5 ms on two ranks (median, 95 % interval)";
    let mut bars = Bars::new(title, "time [s]", ways.iter().map(|(name, _)| *name));
    for (name, rounds) in [("nothing else runs", alone), ("a load on the second core", loaded_rounds)] {
        bars.add(name, ways.iter().map(|(way, _)| rounds.of(way).map(median_interval)).collect());
    }
    report.bars("", &bars)
}

fn efficiencies(runs: &[Run]) -> Vec<f64> {
    runs.iter().map(Run::efficiency).collect()
}

fn record_marks(report: &mut Report, alone: &Rounds, loaded_rounds: &Rounds, auto: &[Run]) {
    if !auto.is_empty() {
        let efficiency = median_interval(&efficiencies(auto));
        let unit = "of two ranks' time";
        report.mark(TargetedValue::new("alone, time in tasks", efficiency, unit, Target::AtLeast(0.95)));
    }
    let mut mark = |what: &str, ratio, unit: &str, target| {
        if let Some(ratio) = ratio {
            report.mark(TargetedValue::new(what, ratio, unit, target));
        }
    };
    let speed = "of its speed";
    mark("alone, against equal work by hand", alone.ratio(EVEN, AUTO), speed, Target::AtLeast(0.95));
    mark("alone, against MPI by hand", alone.ratio(BY_HAND, AUTO), speed, Target::AtLeast(0.95));
    let faster = "times as fast";
    mark("beside the load, against static", loaded_rounds.ratio(STATIC, AUTO), faster, Target::AtLeast(1.40));
    mark(
        "beside the load, against static by hand",
        loaded_rounds.ratio(HALVES, AUTO),
        faster,
        Target::AtLeast(1.40),
    );
}
