//! A farm on a thousand simulated hosts, and how many workers pay.
//!
//! Equal hosts around one switch, links of 1 Gbit/s and 25 µs each. A sender is busy with every message for
//! [`START_UP`]: the paper's `mo`, which is what one master of many workers runs out of. Rank 0 only hands out. Tasks declare
//! their lengths, which are gamma-distributed with a deviation of 80 %; simulated time repeats to the last digit.
//!
//! *Efficiency*: 100,000 tasks on 1000 workers, long and short ones, from one master.
//!
//! *Workers*: shorter tasks still, so that more workers soon stop to pay. The planner's model (Cesar et al. 2006, (7) to
//! (9) and (13)) predicts the number with the least performance index from the network's figures and the sum of all
//! lengths. The farm is run with many numbers around the prediction, in equal shares as the model supposes.

use std::{collections::BTreeMap, fs, path::Path, process::Command, time::Duration};

use armature_planner::farm::{Chunking, IterationModel, MessageCosts, Protocol, performance_index};

use crate::{
    Experiment, Lines, Mark, Outcome, Report, Table, Target,
    farm::tasks::TaskShape,
    platforms::Cluster,
    plot::Series,
    ranks::{finish, one},
    table::digits,
    verdict::Interval,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "farm-simgrid",
    about: "100,000 uneven tasks on 1000 simulated workers; the predicted number of workers against the best found",
    needs: "SimGrid, armature-bench-simulated built for it (ci/bench.sh builds it)",
    run,
};

const SIMULATE: &str = "ci/smpi/run.sh";
const PROGRAM: &str = "armature-bench-simulated";
/// How long a simulated run may take in real time.
const LIMIT: Duration = Duration::from_secs(3600);
/// Operations a second of a host.
const SPEED: f64 = 1e9;
/// Bytes a second of a link.
const BANDWIDTH: f64 = 125e6;
/// Seconds that a message keeps its sender busy.
const START_UP: f64 = 50e-6;
/// Bytes of a task, and of its result.
const BYTES: f64 = 8.0;
const DEVIATION: f64 = 0.8;
const SEED: u64 = 32;

/// Mean lengths of tasks in seconds, where 1000 workers are to be used well.
const LENGTHS: [f64; 2] = [0.05, 0.01];
const POLICIES: [Chunking; 3] = [Chunking::Auto, Chunking::Static, Chunking::Fac2];
/// Mean length where few workers pay.
const SHORT: f64 = 0.135e-3;
/// Numbers of workers that are tried, as parts of the predicted one.
const TRIED: [f64; 13] = [0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4, 1.6, 2.0];

fn run(report: &mut Report, smoke: bool) -> Outcome {
    let (tasks, workers) = if smoke { (500, 8) } else { (100_000, 1_000) };
    efficiency(report, tasks, workers)?;
    count(report, tasks, smoke)
}

/// What is run.
struct Case {
    tasks: usize,
    workers: usize,
    /// Mean length of a task, in seconds.
    length: f64,
    chunking: Chunking,
}

/// How it went.
struct Run {
    seconds: f64,
    /// Seconds of all tasks together.
    work: f64,
    chunks: f64,
}

impl Case {
    fn simulate(&self) -> Outcome<Run> {
        let hosts = self.workers + 1;
        let cluster = Cluster { speeds: vec![SPEED; hosts], bandwidths: vec![BANDWIDTH; hosts] };
        let folder = Path::new("target/bench/farm-simgrid");
        fs::create_dir_all(folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
        let (platform, hostfile) = (folder.join("cluster.xml"), folder.join("cluster.hosts"));
        fs::write(&platform, cluster.xml())?;
        fs::write(&hostfile, cluster.hostfile())?;
        let mut command = Command::new(SIMULATE);
        command.arg(hosts.to_string()).arg("--platform").arg(platform).arg("--hosts").arg(hostfile);
        command.args(Cluster::NETWORK).args(["--cfg", &format!("smpi/os:0:{START_UP}:0")]);
        command.args([PROGRAM, &format!("tasks={}", self.tasks), &format!("mean={}", SPEED * self.length)]);
        command.args([format!("deviation={DEVIATION}"), format!("seed={SEED}")]);
        command.arg(format!("chunking={}", self.chunking));
        command.env("RUST_LOG", "error").env("ARMATURE_SMPI_TIMEOUT", LIMIT.as_secs().to_string());
        let values = one(&finish(command, LIMIT)?)?;
        let value = |name: &str| {
            values.get(name).copied().ok_or_else(|| format!("the simulated farm printed no {name}"))
        };
        Ok(Run { seconds: value("seconds")?, work: value("operations")? / SPEED, chunks: value("chunks")? })
    }
}

impl Run {
    fn efficiency(&self, workers: usize) -> f64 {
        self.work / (workers as f64 * self.seconds)
    }
}

fn efficiency(report: &mut Report, tasks: usize, workers: usize) -> Outcome {
    let mut table = Table::new(&[
        "workers",
        "tasks",
        "mean length [ms]",
        "chunks by",
        "time [s]",
        "chunks",
        "efficiency",
    ]);
    for length in LENGTHS {
        for chunking in POLICIES {
            let run = Case { tasks, workers, length, chunking }.simulate()?;
            let efficiency = run.efficiency(workers);
            table.row([
                workers.into(),
                tasks.into(),
                (1e3 * length).into(),
                chunking.to_string().into(),
                run.seconds.into(),
                (run.chunks as usize).into(),
                digits(efficiency, 3),
            ]);
            if chunking == Chunking::Auto {
                let what = format!("tasks of {} ms, one master", 1e3 * length);
                let unit = "of the workers' time";
                report.mark(Mark::new(&what, Interval::exact(efficiency), unit, Target::AtLeast(0.9)));
            }
        }
    }
    report.table("efficiency", &table)
}

fn count(report: &mut Report, tasks: usize, smoke: bool) -> Outcome {
    let mean = if smoke { SHORT / 10.0 } else { SHORT };
    let shape = TaskShape { tasks, mean, spread: DEVIATION, block: 1 };
    let compute = shape.iterations(SEED)?.next().unwrap_or_default().iter().sum::<f64>();
    let model = IterationModel {
        messages: MessageCosts::new(START_UP, 1.0 / BANDWIDTH),
        volume: 2.0 * BYTES * tasks as f64,
        out: 0.5,
        compute,
        master: 0.0,
        protocol: Protocol::Asynchronous,
    };
    let (predicted, fastest) = (model.best(1..=tasks), model.fastest(1..=tasks));
    report.note(format!(
        "{compute:.3} s of computing: the model says {predicted} workers, {fastest} for the shortest time"
    ));
    let columns = ["workers", "time [s]", "model [s]", "performance index [s]", "efficiency"];
    let mut table = Table::new(&columns);
    let mut tried = BTreeMap::new();
    for part in TRIED.iter().filter(|part| !smoke || [0.5, 1.0, 2.0].contains(*part)) {
        let workers = (part * predicted as f64).round().max(1.0) as usize;
        let run = Case { tasks, workers, length: mean, chunking: Chunking::Static }.simulate()?;
        let index = performance_index(workers, run.seconds, run.work);
        table.row([
            workers.into(),
            run.seconds.into(),
            model.time(workers).into(),
            index.into(),
            digits(run.efficiency(workers), 3),
        ]);
        tried.insert(workers, (index, run.seconds));
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
    report.mark(Mark::new(&what, Interval::exact(off), "off", Target::AtMost(0.2)));
    Ok(())
}
