//! Experiment on loops on unequal hosts with constant speeds: whether load balancing settles at the best distribution of the rows, and which share of
//! the time of rank 0 it takes with 256 ranks.
//!
//! *Unequal*: 16 simulated hosts with speeds from 1 to 8. All hosts start with equal numbers of rows or indices; after the warm-up passes in which
//! the loop settles, the time of the passes is compared with that of a fixed distribution in proportion to the known speeds, after the same number of
//! warm-up passes.
//!
//! *Large*: 256 simulated hosts. Simulated time includes messages, but not the computing time of rank 0's decisions. This computing time is measured
//! separately on this machine and added for each decision.

use std::{path::Path, time::Instant};

use armature_planner::loops::{Ahead, Interaction, LoopBalancer, LoopOptions, Report as RankReport};
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    Bars, Experiment, Report, RunResult, Table, Target, TargetedValue,
    loops::simulated::{Kind, Simulated},
    stats::{mean_interval, median},
    table::digits,
    verdict::Interval,
};

pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "loop-simgrid",
    about: "loops on 16 simulated hosts of unequal speed against the ideal split; rank 0's share of time among 256",
    needs: "SimGrid, armature-bench-simulated-loop built for it (ci/bench.sh builds it)",
    run,
};

const FOLDER: &str = "target/bench/loop-simgrid";
const SEEDS: u64 = 5;
const HOSTS: usize = 16;
const SPEEDS: (f64, f64) = (1.0, 8.0);
const KINDS: [(&str, Kind); 2] = [("DOALL", Kind::All), ("DOACROSS", Kind::Sweep)];
const UNITS: usize = 2000;
const BYTES: usize = 1024;
/// Bandwidth of the simulated links in bytes per second: 1 Gbit/s.
const BANDWIDTH: f64 = 125e6;
/// Seconds of a pass over all rows or indices if all hosts have speed 1.
const PASS: f64 = 1.0;
const WARM_UP_PASSES: usize = 60;
const PASSES: usize = 60;
const MANY_HOSTS: usize = 256;

fn run(report: &mut Report, smoke: bool) -> RunResult {
    if report.selects("unequal") {
        unequal(report, smoke)?;
    }
    if report.selects("large") {
        large(report, smoke)?;
    }
    Ok(())
}

fn case(kind: Kind, speeds: Vec<f64>, smoke: bool) -> Simulated {
    let units = if smoke { UNITS / 10 } else { UNITS };
    let unit = PASS * speeds.len() as f64 / units as f64;
    let passes = |passes: usize| if smoke { passes / 10 } else { passes };
    Simulated {
        kind,
        speeds,
        loads: Vec::new(),
        bandwidth: BANDWIDTH,
        units,
        unit,
        bytes: BYTES,
        settle: passes(WARM_UP_PASSES),
        passes: passes(PASSES),
        block: 0,
        live: true,
        ideal: false,
        quantum: 0.0,
        noise: 0.0,
        seed: 0,
    }
}

fn speeds(seed: u64, hosts: usize) -> Vec<f64> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut speeds: Vec<f64> = (0..hosts).map(|_| random.random_range(SPEEDS.0..=SPEEDS.1)).collect();
    let (slowest, fastest) = (random.random_range(0..hosts / 2), random.random_range(hosts / 2..hosts));
    speeds[slowest] = SPEEDS.0;
    speeds[fastest] = SPEEDS.1;
    speeds
}

fn unequal(report: &mut Report, smoke: bool) -> RunResult {
    let columns =
        ["loop", "seed", "ideal split [s]", "settled [s]", "equal numbers [s]", "of the ideal", "movements"];
    let mut table = Table::new(&columns);
    let mut bars = [Vec::new(), Vec::new()];
    for (name, kind) in KINDS {
        let (mut of_ideal, mut of_equal) = (Vec::new(), Vec::new());
        for seed in 1..=if smoke { 1 } else { SEEDS } {
            let live = case(kind, speeds(seed, HOSTS), smoke);
            // A loop without load balancing also needs the warm-up passes, in which the framework chooses the strip width.
            let still = Simulated { live: false, ..live.clone() };
            let ideal = Simulated { ideal: true, ..still.clone() }.run(Path::new(FOLDER))?;
            let (settled, equal) = (live.run(Path::new(FOLDER))?, still.run(Path::new(FOLDER))?);
            of_ideal.push(ideal.seconds / settled.seconds);
            of_equal.push(ideal.seconds / equal.seconds);
            table.row([
                name.into(),
                (seed as usize).into(),
                ideal.seconds.into(),
                settled.seconds.into(),
                equal.seconds.into(),
                digits(ideal.seconds / settled.seconds, 3),
                digits(settled.movements, 0),
            ]);
        }
        // The target applies to the slowest run among all seeds, so the value has no statistical interval.
        let worst = of_ideal.iter().copied().fold(f64::INFINITY, f64::min);
        let what = format!("{name}, worst of the seeds");
        report.mark(TargetedValue::new(
            &what,
            Interval::exact(worst),
            "of the ideal split's speed",
            Target::AtLeast(0.95),
        ));
        bars[0].push(Some(mean_interval(&of_equal)));
        bars[1].push(Some(mean_interval(&of_ideal)));
    }
    report.table("unequal", &table)?;
    let title = "16 simulated hosts of speeds 1 to 8 (mean of seeds, 95 % interval)";
    let mut plot = Bars::new(title, "part of the ideal split's speed", KINDS.map(|(name, _)| name));
    for (who, values) in ["equal numbers", "settled"].into_iter().zip(bars) {
        plot.add(who, values);
    }
    report.bars("unequal", &plot)
}

fn large(report: &mut Report, smoke: bool) -> RunResult {
    let ranks = if smoke { 32 } else { MANY_HOSTS };
    let decision = decision_time(ranks, if smoke { 20 } else { 400 })?;
    report.note(format!("a decision about {ranks} ranks takes {:.1} us", 1e6 * decision));
    let columns =
        ["loop", "ranks", "time [s]", "interactions", "in messages [s]", "in decisions [s]", "share of time"];
    let mut table = Table::new(&columns);
    for (name, kind) in KINDS {
        let mut job = case(kind, speeds(1, ranks), smoke);
        job.units = ranks * if smoke { 4 } else { 16 };
        job.unit = PASS * ranks as f64 / job.units as f64;
        (job.settle, job.passes) = if smoke { (2, 4) } else { (10, 30) };
        let run = job.run(Path::new(FOLDER))?;
        let deciding = decision * run.interactions;
        let share = (run.interacting + deciding) / run.seconds;
        table.row([
            name.into(),
            ranks.into(),
            run.seconds.into(),
            digits(run.interactions, 0),
            run.interacting.into(),
            deciding.into(),
            digits(share, 4),
        ]);
        let what = format!("{name}, rank 0 of {ranks}");
        report.mark(TargetedValue::new(&what, Interval::exact(share), "of its time", Target::AtMost(0.05)));
    }
    report.table("large", &table)
}

/// Returns the median time in seconds of a decision of the load balancer about `ranks` ranks, whose measured rates change before each decision.
fn decision_time(ranks: usize, times: usize) -> RunResult<f64> {
    let mut balancer = LoopBalancer::new(ranks, LoopOptions::default())?;
    let mut random = StdRng::seed_from_u64(1);
    let mut held = vec![16; ranks];
    let mut took = Vec::with_capacity(times);
    for time in 0..times {
        let report = |held: u64, rate: f64| RankReport { units: rate, seconds: 1.0, held };
        let reports: Vec<RankReport> =
            held.iter().map(|&held| report(held, random.random_range(1.0..8.0))).collect();
        let now = time as f64;
        let start = Instant::now();
        let decision = balancer.interact(&Interaction {
            now,
            reports: &reports,
            phase: 0.1,
            cost: 0.0,
            ahead: Ahead::Unknown,
        })?;
        took.push(start.elapsed().as_secs_f64());
        if decision.is_act() {
            held.clone_from(&decision.target);
            balancer.moved(now, 0.0);
        }
    }
    Ok(median(&took))
}
