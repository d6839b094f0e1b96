//! Experiment on a farm on a thousand simulated hosts, and on the number of workers that is worthwhile.
//!
//! The hosts are equal and connected by one switch, with links of 1 Gbit/s and 25 µs each. A sender is busy with every message for the start-up time
//! of [`NETWORK`] (`mo` in the model of Cesar et al.), which limits the number of workers of a single master. Rank 0 only distributes tasks. Tasks
//! declare their lengths, which are gamma-distributed with a deviation of 80 %; simulated times are exactly reproducible.
//!
//! *Efficiency*: 100,000 long or short tasks on 1000 ranks in addition to rank 0, from one master and through sub-masters. Sub-masters run no tasks
//! themselves, so their time counts as lost.
//!
//! *Workers*: even shorter tasks, for which only few workers are worthwhile. The planner's model (Cesar et al. 2006, (7) to (9) and (13)) predicts
//! the number of workers with the smallest performance index from the parameters of the network and the sum of all lengths. The farm runs with many
//! numbers of workers around the prediction, in equal shares as the model assumes. The second of two iterations is timed, because all ranks have
//! joined the farm by then.

use std::{collections::BTreeMap, path::Path};

use armature_planner::farm::{Chunking, Published, performance_index};

use crate::{
    Experiment, Lines, Report, RunResult, Table, Target, TargetedValue,
    farm::{
        simulated::{Network, Simulated},
        tasks::TaskShape,
    },
    plot::Series,
    table::digits,
    verdict::Interval,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "farm-simgrid",
    about: "100,000 uneven tasks on 1000 simulated workers, with sub-masters and without; the predicted number of workers \
            against the best found",
    needs: "SimGrid, armature-bench-simulated built for it (ci/bench.sh builds it)",
    run,
};

const FOLDER: &str = "target/bench/farm-simgrid";
const NETWORK: Network = Network { bandwidth: 125e6, start_up: 50e-6 };
const DEVIATION: f64 = 0.8;
const SEED: u64 = 32;

const LENGTHS: [f64; 2] = [0.05, 0.01];
const WAYS: [(Chunking, usize); 6] = [
    (Chunking::Auto, 0),
    (Chunking::Auto, 8),
    (Chunking::Auto, 16),
    (Chunking::Auto, 32),
    (Chunking::Static, 0),
    (Chunking::Policy(Published::Fac2), 0),
];
/// Mean task length in seconds, so short that only few workers are worthwhile.
const SHORT_TASK: f64 = 0.135e-3;
/// Numbers of workers to try, relative to the number that the model predicts.
const TRIED_RATIOS: [f64; 9] = [0.4, 0.6, 0.75, 0.85, 1.0, 1.15, 1.3, 1.6, 2.0];

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let (tasks, workers) = if smoke { (500, 8) } else { (100_000, 1_000) };
    efficiency(report, tasks, workers)?;
    count(report, tasks, smoke)
}

fn case(tasks: usize, mean: f64, workers: usize, chunking: Chunking) -> Simulated {
    let shape = TaskShape { tasks, mean, spread: DEVIATION, block: 1 };
    Simulated { network: NETWORK, shape, seed: SEED, iterations: 1, workers, sub_masters: 0, chunking }
}

fn efficiency(report: &mut Report, tasks: usize, workers: usize) -> RunResult {
    let mut table = Table::new(&[
        "workers",
        "tasks",
        "mean length [ms]",
        "chunks by",
        "sub-masters",
        "time [s]",
        "chunks",
        "efficiency",
    ]);
    for length in LENGTHS {
        for (chunking, sub_masters) in WAYS {
            // The few workers of a smoke run (short test of the experiment) need at most two sub-masters.
            let sub_masters = sub_masters.min(workers / 4);
            let case = Simulated { sub_masters, ..case(tasks, length, workers, chunking) };
            let run = case.run(Path::new(FOLDER))?;
            let efficiency = run.efficiency(workers);
            table.row([
                workers.into(),
                tasks.into(),
                (1e3 * length).into(),
                chunking.to_string().into(),
                sub_masters.into(),
                run.seconds.into(),
                run.chunks.into(),
                digits(efficiency, 3),
            ]);
            if chunking == Chunking::Auto {
                let what = match sub_masters {
                    0 => format!("tasks of {} ms, one master", 1e3 * length),
                    _ => format!("tasks of {} ms, {sub_masters} sub-masters", 1e3 * length),
                };
                let unit = "of the workers' time";
                report.mark(TargetedValue::new(
                    &what,
                    Interval::exact(efficiency),
                    unit,
                    Target::AtLeast(0.9),
                ));
            }
        }
    }
    report.table("efficiency", &table)
}

fn count(report: &mut Report, tasks: usize, smoke: bool) -> RunResult {
    let mean = if smoke { SHORT_TASK / 10.0 } else { SHORT_TASK };
    let model = case(tasks, mean, 1, Chunking::Static).model()?;
    let (predicted, fastest) = (model.best(1..=tasks), model.fastest(1..=tasks));
    report.note(format!(
        "{:.3} s of computing: the model says {predicted} workers, {fastest} for the shortest time",
        model.compute
    ));
    let columns = ["workers", "time [s]", "model [s]", "performance index [s]", "efficiency"];
    let mut table = Table::new(&columns);
    let mut tried = BTreeMap::new();
    for part in TRIED_RATIOS.iter().filter(|part| !smoke || [0.4, 1.0, 2.0].contains(*part)) {
        let workers = (part * predicted as f64).round().max(1.0) as usize;
        // The second of two iterations is measured, because the first one includes the time in which ranks join the farm.
        let twice = Simulated { iterations: 2, ..case(tasks, mean, workers, Chunking::Static) };
        let seconds = twice.run(Path::new(FOLDER))?.last;
        let index = performance_index(workers, seconds, model.compute);
        table.row([
            workers.into(),
            seconds.into(),
            model.time(workers).into(),
            index.into(),
            digits(model.compute / (workers as f64 * seconds), 3),
        ]);
        tried.insert(workers, (index, seconds));
    }
    report.table("workers", &table)?;
    let mut plot = Lines::new("Workers of a simulated farm", "workers", "time of all tasks [s]").log_x();
    let points = tried.iter().map(|(&workers, &(_, seconds))| (workers as f64, seconds));
    plot.add(Series::new("simulated", points.collect()));
    let points = tried.keys().map(|&workers| (workers as f64, model.time(workers)));
    plot.add(Series::new("model", points.collect()));
    report.lines("workers", &plot)?;
    let best =
        tried.iter().min_by(|a, b| a.1.0.total_cmp(&b.1.0)).map_or(f64::NAN, |(&workers, _)| workers as f64);
    let off = (predicted as f64 / best - 1.0).abs();
    let what = format!("predicted {predicted} workers against the best found, {best}");
    report.mark(TargetedValue::new(&what, Interval::exact(off), "off", Target::AtMost(0.2)));
    Ok(())
}
