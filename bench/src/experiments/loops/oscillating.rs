//! Experiment with a competing load that is alternately on and off on one rank of a loop. It tests whether load balancing costs time where it cannot
//! gain any, and whether the result agrees with the planner's simulator.
//!
//! *Real*: matmul and SOR on two ranks pinned to two cores, with a square-wave load on the second core. The periods of the load are a tenth of the 60
//! s and 20 s in the paper of Siegell and Steenkiste, because the balancer's period follows the time slices of the operating system's scheduler,
//! which are shorter on current systems by at least this factor. The framework runs with and without balancing in turn; the phase of the wave differs
//! in each round.
//!
//! *Simulated*: 4, 6 and 8 hosts, the first of which drops to half of its speed in the second half of each period, and loops whose units (rows or
//! indices) are cheap, expensive and very expensive to move. The framework runs under SimGrid, and the planner's simulator `simulate::loops` runs
//! only the balancer on the same system. Units of a DOALL loop move while ranks compute, also in the middle of a pass. Units of a sweep move between
//! passes, while all ranks stop. For DOALL loops, the table also shows the result of the simulation of Siegell and Steenkiste, which stops all ranks
//! for every movement. Random deviations of the speeds have ten seeds, which differ between the simulator and the program.

use std::{cell::RefCell, path::Path, time::Duration};

use armature_papers::simulate::loops::{Balancing, Load as PlannerLoad, LoopSystem, Sharing};
use armature_planner::loops::{LoopOptions, MovementCosts, Reach};

use crate::{
    Bars, Experiment, Report, RunResult, Table, Target, TargetedValue,
    burner::{Load, Wave, two_cores},
    loops::{
        job::{Job, Kernel, Run},
        simulated::{Kind, Simulated},
    },
    pairs::{Contestant, round_robin},
    platforms::HostLoad,
    stats::{mean, mean_interval, median_interval, spread},
    table::digits,
    verdict::Interval,
};

use super::seconds_per_pass_of_ours;

pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "loop-oscillating",
    about: "a load that starts and stops: balancing against none on two cores, and on simulated hosts against the planner's \
            simulator",
    needs: "mpirun of Open MPI, two cores that nobody else uses; SimGrid, armature-bench-simulated-loop built for it \
            (ci/bench.sh builds it)",
    run,
};

const ROUNDS: usize = 8;
const SECONDS: f64 = 12.0;
/// Periods in seconds of the competing load in runs on real (not simulated) ranks.
const PERIODS: [f64; 2] = [6.0, 2.0];
/// Cases: name, loop, rows, and the number of passes without load balancing that calibrate the time of a pass, after as many warm-up passes.
const CASES: [(&str, Kernel, usize, usize); 3] = [
    ("matmul 1000", Kernel::Matmul, 1000, 3),
    ("SOR 4000", Kernel::Sor, 4000, 60),
    ("SOR 2000", Kernel::Sor, 2000, 200),
];
const OFF: &str = "without balancing";
const LIVE: &str = "balanced";

const FOLDER: &str = "target/bench/loop-oscillating";
const HOSTS: [usize; 3] = [4, 6, 8];
const SIMULATED_PERIODS: [f64; 2] = [60.0, 20.0];
/// Cases: name of the cost of a movement, kind of loop, number of units (rows or indices), and the seconds to move
/// one unit to another host.
const COSTS: [(&str, Kind, usize, f64); 3] = [
    ("cheap", Kind::All, 1000, 2.7e-3),
    ("dear", Kind::Sweep, 2000, 5.3e-3),
    ("very dear", Kind::Sweep, 2000, 20e-3),
];
const SEEDS: usize = 10;
/// Seconds of a pass over all rows or indices without competing load.
const PASS: f64 = 0.5;
const PASSES: usize = 480;
const BYTES: usize = 512;
const NOISE: f64 = 0.01;
const QUANTUM: f64 = 0.1;
/// Seconds between two polls for messages of a rank of a DOALL loop: the time of a block of iterations that the framework aims at.
const POLL_INTERVAL: f64 = 8e-3;

fn run(report: &mut Report, smoke: bool) -> RunResult {
    real(report, smoke)?;
    simulated(report, smoke)
}

fn real(report: &mut Report, smoke: bool) -> RunResult {
    let mut table = Table::new(&["loop", "period [s]", "who", "time [s]", "low", "high", "movements"]);
    let (mut names, mut bars) = (Vec::new(), Vec::new());
    for (name, kernel, size, passes) in CASES {
        let all = report.selects(name);
        let mut periods = PERIODS.map(|period| (period, format!("{name}, period of {period} s"))).to_vec();
        periods.retain(|(_, what)| report.selects(what) || all);
        if periods.is_empty() || smoke && size == 4000 {
            continue;
        }
        let size = if smoke { size / 10 } else { size };
        let cores = two_cores()?;
        let job = Job { cores: cores.to_vec(), ..Job::new(kernel, size, passes) };
        let alone = seconds_per_pass_of_ours(&job)?;
        let seconds = if smoke { 0.1 } else { SECONDS };
        // Half of the time a load runs, during which a pass takes up to twice as long.
        let passes = (seconds / (1.4 * alone)).ceil() as usize;
        let job = Job { passes, settle: passes.div_ceil(10), columns: 0, ..job };
        for (period, what) in periods {
            let length = Duration::from_secs_f64(if smoke { period / 100.0 } else { period });
            let wave = Wave::new(length, 0.5)?;
            let (mut movements, parts) = (Vec::new(), RefCell::new(Vec::new()));
            let (mut round, mut other) = (0, 0);
            let run_with_load = |live: bool, seed: u64| -> RunResult<Run> {
                let load = Load::on_core(cores[1]).wave(wave.seeded(seed)).start()?;
                let run = Job { live, ..job.clone() }.with_framework(2)?;
                parts.borrow_mut().push(load.part()?);
                Ok(run)
            };
            let contestants = vec![
                Contestant::new(OFF, || {
                    round += 1;
                    Ok(run_with_load(false, round)?.seconds)
                }),
                Contestant::new(LIVE, || {
                    other += 1;
                    let run = run_with_load(true, other)?;
                    movements.push(run.movements);
                    Ok(run.seconds)
                }),
            ];
            let rounds = round_robin(report.rounds(ROUNDS), contestants)?;
            report.note(format!(
                "{what}: {:.3} ms a pass where nothing disturbs, {passes} passes; the load had {} of its core",
                1e3 * alone,
                spread(&parts.into_inner())
            ));
            for (who, samples) in rounds.iter() {
                let time = median_interval(samples);
                let movement_cell = (who == LIVE).then(|| digits(mean(&movements), 1));
                let cells = [time.value, time.low, time.high].map(Into::into);
                table.row(
                    [name.into(), period.into(), who.into()]
                        .into_iter()
                        .chain(cells)
                        .chain([movement_cell.into()]),
                );
            }
            if let Some(ratio) = rounds.ratio(LIVE, OFF) {
                let unit = "times the time without balancing";
                report.mark(TargetedValue::new(&what, ratio, unit, Target::AtMost(1.05)));
                names.push(what);
                bars.push(Some(ratio));
            }
        }
    }
    if names.is_empty() {
        return Ok(());
    }
    report.table("real", &table)?;
    let title = "Beside a load that comes and goes (median, 95 % interval)";
    let mut plot = Bars::new(title, "time / time without balancing", names.iter().map(String::as_str));
    plot.add(LIVE, bars);
    report.bars("real", &plot)
}

/// Efficiency and number of movements of rows or indices, first with the framework under SimGrid, then in the planner's simulator.
type Pair = ((f64, f64), (f64, f64));

fn simulated(report: &mut Report, smoke: bool) -> RunResult {
    let mut wanted = COSTS.to_vec();
    wanted.retain(|(name, ..)| report.selects(&format!("simulated {name}")));
    if wanted.is_empty() {
        return Ok(());
    }
    let columns = [
        "moves",
        "hosts",
        "period [s]",
        "none",
        "none, simulator",
        "balanced",
        "simulator",
        "difference",
        "movements",
        "simulator's",
        "stopped for moves",
    ];
    let mut table = Table::new(&columns);
    let hosts = if smoke { &HOSTS[..1] } else { &HOSTS[..] };
    for (name, kind, units, move_one) in wanted {
        let mut worst: Option<Interval> = None;
        let mut bars = [Vec::new(), Vec::new(), Vec::new()];
        let mut names = Vec::new();
        for &hosts in hosts {
            for period in SIMULATED_PERIODS {
                let case = Case {
                    name,
                    kind,
                    units,
                    move_one,
                    hosts,
                    period,
                    passes: if smoke { 20 } else { PASSES },
                };
                let seeds = if smoke { 2 } else { report.rounds(SEEDS) };
                let (none, none_planned) = (case.program(0, false)?, case.simulator(0, &Balancing::Off)?);
                let (mut pairs, mut stopped) = (Vec::new(), Vec::new());
                for seed in 0..seeds as u64 {
                    pairs.push((case.program(seed, true)?, case.simulator(seed, &balancing(kind))?));
                    stopped.push(100.0 * case.simulator(seed, &Balancing::Pipelined(options(kind)))?.0);
                }
                let of = |part: fn(&Pair) -> f64| pairs.iter().map(part).collect::<Vec<f64>>();
                let (ours, theirs) = (of(|pair| 100.0 * pair.0.0), of(|pair| 100.0 * pair.1.0));
                let off = mean_interval(&of(|pair| 100.0 * (pair.0.0 - pair.1.0)));
                table.row([
                    name.into(),
                    hosts.into(),
                    period.into(),
                    digits(100.0 * none.0, 1),
                    digits(100.0 * none_planned.0, 1),
                    digits(mean(&ours), 1),
                    digits(mean(&theirs), 1),
                    digits(off.value, 1),
                    digits(mean(&of(|pair| pair.0.1)), 1),
                    digits(mean(&of(|pair| pair.1.1)), 1),
                    digits(mean(&stopped), 1),
                ]);
                report.note(format!(
                    "{name} moves, {hosts} hosts, {period} s: {:.1} % without balancing, {:.1} % balanced, {:.1} % in the simulator",
                    100.0 * none.0,
                    mean(&ours),
                    mean(&theirs)
                ));
                names.push(format!("{hosts} hosts, {period} s"));
                bars[0].push(Some(Interval::exact(100.0 * none.0)));
                bars[1].push(Some(mean_interval(&ours)));
                bars[2].push(Some(mean_interval(&theirs)));
                let distance = if off.value < 0.0 {
                    Interval { value: -off.value, low: -off.high, high: -off.low }
                } else {
                    off
                };
                if worst.is_none_or(|worst| distance.value > worst.value) {
                    worst = Some(distance);
                }
            }
        }
        if let Some(worst) = worst {
            let what = format!("{name} moves, farthest from the simulator");
            report.mark(TargetedValue::new(&what, worst, "points", Target::AtMost(3.0)));
        }
        let title = format!("A host at half of its speed for half of the time, {name} moves");
        let mut plot = Bars::new(&title, "efficiency [%]", names.iter().map(String::as_str));
        for (who, values) in
            ["without balancing", "balanced", "the planner's simulator"].into_iter().zip(bars)
        {
            plot.add(who, values);
        }
        report.bars(&name.replace(' ', "-"), &plot)?;
    }
    report.table("simulated", &table)
}

/// Parameters of a simulated loop and of the competing load on the first of its hosts.
struct Case {
    name: &'static str,
    kind: Kind,
    units: usize,
    move_one: f64,
    hosts: usize,
    period: f64,
    passes: usize,
}

impl Case {
    /// Runs the loop with the framework on simulated hosts. Returns the efficiency of the loop, and the number of movements of rows or indices.
    fn program(&self, seed: u64, live: bool) -> RunResult<(f64, f64)> {
        let wave = Wave::new(Duration::from_secs_f64(self.period), 0.5)?.rest_first();
        let job = Simulated {
            kind: self.kind,
            speeds: vec![1.0; self.hosts],
            loads: vec![HostLoad { host: 0, wave, share: 0.5 }],
            bandwidth: BYTES as f64 / self.move_one,
            units: self.units,
            unit: PASS * self.hosts as f64 / self.units as f64,
            bytes: BYTES,
            settle: 0,
            passes: self.passes,
            block: 0,
            live,
            ideal: false,
            quantum: QUANTUM,
            noise: NOISE,
            seed,
        };
        let run = job.run(&Path::new(FOLDER).join(self.name.replace(' ', "-")))?;
        Ok((run.efficiency(&job), run.movements))
    }

    /// Runs the loop in the planner's simulator. Returns the efficiency of the loop, and the number of movements of rows or indices.
    fn simulator(&self, seed: u64, balancing: &Balancing) -> RunResult<(f64, f64)> {
        let mut system = LoopSystem::equal(self.hosts, self.units as u64, self.passes as u64, PASS);
        system.loads = vec![PlannerLoad { rank: 0, off: 0.5 * self.period, on: 0.5 * self.period }];
        system.sharing = Sharing::Fluid;
        system.noise = NOISE;
        system.seed = seed;
        system.movement = MovementCosts { fixed: 0.0, per_unit: self.move_one };
        system.hook = POLL_INTERVAL;
        let run = system.run(balancing)?;
        Ok((run.efficiency(), run.movements as f64))
    }
}

fn balancing(kind: Kind) -> Balancing {
    match kind {
        Kind::All => Balancing::Overlapped(options(kind)),
        Kind::Sweep => Balancing::Pipelined(options(kind)),
    }
}

fn options(kind: Kind) -> LoopOptions {
    let reach = match kind {
        Kind::All => Reach::Anywhere,
        Kind::Sweep => Reach::Neighbours,
    };
    let mut options = LoopOptions { reach, ..LoopOptions::default() };
    options.period.quantum = QUANTUM;
    options
}
