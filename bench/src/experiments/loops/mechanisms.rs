//! Effects of the filter, the threshold and the period of a balancer next to a load, and the time of a loop by the
//! number of hosts: plots like those of Siegell and Steenkiste (1997), made with the planner's simulator.
//!
//! *Period* (their Fig. 19): efficiency by the number of hosts for several balancing periods, with all other
//! mechanisms off, as in the paper: no filter, no threshold, no weighing of costs, and all ranks wait for
//! instructions. *Filter* (Fig. 22), *threshold* under a constant load (Fig. 23) and under a load that alternates
//! (Fig. 24): the measured rate of a rank next to a load, and the number of units assigned to it. *Hosts* (Figs. 25
//! to 30): time and efficiency of loops whose units are cheap, expensive and very expensive to move, with the
//! balancing of the framework. `loop-oscillating` compares these results with real programs.

use armature_planner::loops::{LoopOptions, MovementCosts, PeriodOptions, Reach, Smoothing};
use armature_planner::simulate::loops::{Balancing, Load, LoopRun, LoopSystem, Sharing};

use super::oscillating::{COSTS, HOOK, balancing};
use crate::{
    Experiment, Lines, Mark, Outcome, Report, Table, Target,
    plot::Series,
    stats::{mean_interval, paired_ratios},
    table::digits,
    verdict::Interval,
};

pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "loop-mechanisms",
    about: "what filter, threshold and period of balancing do beside a load, and time by the number of hosts, by the planner's \
            simulator",
    needs: "nothing",
    run,
};

const SEEDS: u64 = 10;
/// Hosts of the runs whose course is plotted; the next constant lists the numbers of hosts for the comparison of
/// times.
const RANKS: usize = 4;
const HOSTS: [usize; 7] = [2, 3, 4, 5, 6, 7, 8];
/// Periods of the load in seconds; the load is on in the second half of a period.
const PERIODS: [f64; 2] = [60.0, 20.0];
/// Rows of the loop whose course is plotted; the next constants are the seconds of a pass and the number of passes.
const UNITS: u64 = 1000;
const PASS: f64 = 0.25;
const PASSES: u64 = 960;
/// Duration in seconds of a permanent load: longer than any simulated run.
const ALWAYS: f64 = 1e6;
/// Time slice of the scheduler in seconds; the next constants are the balancing periods in multiples of the time
/// slice.
const QUANTUM: f64 = 0.1;
const PAPERS: f64 = 10.0;
const SCALES: [f64; 4] = [5.0, PAPERS, 20.0, 40.0];
/// Seconds of an interaction; the next constants are the costs of moving rows, and the noise of the rates from pass
/// to pass.
const INTERACTION: f64 = 5e-3;
const MOVEMENT: MovementCosts = MovementCosts { fixed: 30e-3, per_unit: 2.7e-3 };
const NOISE: f64 = 0.01;
/// Seconds of a loop on one host, for any number of hosts; the next constant is the number of passes.
const SEQUENTIAL: f64 = 960.0;
const ALL_PASSES: u64 = 480;

fn run(report: &mut Report, smoke: bool) -> Outcome {
    let extent = if smoke { Extent { seeds: 2, part: 12 } } else { Extent { seeds: SEEDS, part: 1 } };
    if report.wants("period") {
        period(report, &extent)?;
    }
    if report.wants("course") {
        courses(report, &extent)?;
    }
    if report.wants("hosts") {
        hosts(report, &extent)?;
    }
    Ok(())
}

/// Number of seeds, and the factor by which the number of passes is reduced.
struct Extent {
    seeds: u64,
    part: u64,
}

impl Extent {
    /// Runs the system with all seeds.
    fn runs(&self, system: &LoopSystem, balancing: &Balancing) -> Outcome<Vec<LoopRun>> {
        let passes = system.passes / self.part;
        let run = |seed| LoopSystem { seed, passes, ..system.clone() }.run(balancing);
        Ok((0..self.seeds).map(run).collect::<Result<_, _>>()?)
    }
}

fn of(runs: &[LoopRun], value: impl Fn(&LoopRun) -> f64) -> Interval {
    mean_interval(&runs.iter().map(value).collect::<Vec<f64>>())
}

fn percent(run: &LoopRun) -> f64 {
    100.0 * run.efficiency()
}

/// Returns the system of SOR on `ranks` hosts; on the first host, a load and the rank take turns.
fn sor(ranks: usize, load: Load) -> LoopSystem {
    let mut system = LoopSystem::equal(ranks, UNITS, PASSES, PASS);
    system.loads = vec![load];
    system.sharing = Sharing::Turns(QUANTUM);
    system.noise = NOISE;
    system.movement = MOVEMENT;
    system.interaction = INTERACTION;
    system
}

fn half_of(period: f64) -> Load {
    Load { rank: 0, off: 0.5 * period, on: 0.5 * period }
}

/// Returns the paper's rules alone; the filter, the threshold and the weighing of costs are optional.
fn rules(scale: f64, smoothing: Smoothing, threshold: f64, margin: Option<f64>) -> LoopOptions {
    let period = PeriodOptions { quantum: QUANTUM, quantum_scale: scale, ..PeriodOptions::default() };
    let reach = Reach::Neighbours;
    LoopOptions {
        reach,
        smoothing,
        threshold,
        margin,
        realised_gain: false,
        period,
        ..LoopOptions::default()
    }
}

fn period(report: &mut Report, extent: &Extent) -> Outcome {
    let eager = |scale| Balancing::Synchronous(rules(scale, Smoothing::Raw, 0.0, None));
    let mut ways: Vec<(String, Balancing)> =
        SCALES.map(|scale| (format!("{} s", scale * QUANTUM), eager(scale))).to_vec();
    let whole = rules(PAPERS, Smoothing::Trend, 0.1, Some(2.0));
    ways.push((format!("{} s, filter, threshold, costs", PAPERS * QUANTUM), Balancing::Pipelined(whole)));
    let mut table =
        Table::new(&["period of balancing", "hosts", "efficiency [%]", "low", "high", "movements"]);
    let mut plot = Lines::new("SOR beside a load with a period of 60 s", "hosts", "efficiency [%]");
    for (name, balancing) in ways {
        let (mut points, mut band) = (Vec::new(), Vec::new());
        for ranks in HOSTS {
            let runs = extent.runs(&sor(ranks, half_of(PERIODS[0])), &balancing)?;
            let found = of(&runs, percent);
            let moved = of(&runs, |run| run.movements as f64);
            let values = [found.value, found.low, found.high, moved.value].map(|value| digits(value, 1));
            table.row([name.clone().into(), ranks.into()].into_iter().chain(values));
            points.push((ranks as f64, found.value));
            band.push((found.low, found.high));
        }
        plot.add(Series::new(name, points).band(band));
    }
    report.table("period", &table)?;
    report.lines("period", &plot)
}

/// Mechanism to plot: name of the plot, its title, the load, and two ways to balance.
type Look = (&'static str, &'static str, Load, [(&'static str, Balancing); 2]);

fn courses(report: &mut Report, extent: &Extent) -> Outcome {
    let always = Load { rank: 0, off: 0.0, on: ALWAYS };
    let at_once = |smoothing| Balancing::Synchronous(rules(PAPERS, smoothing, 0.0, None));
    let by = |threshold| Balancing::Pipelined(rules(PAPERS, Smoothing::Trend, threshold, Some(2.0)));
    let filters = || [("no filter", at_once(Smoothing::Raw)), ("filter", at_once(Smoothing::Trend))];
    let thresholds = || [("no threshold", by(0.0)), ("threshold of 10 %", by(0.1))];
    let looks: [Look; 3] = [
        ("filter", "Filter, beside a load with a period of 60 s", half_of(PERIODS[0]), filters()),
        ("threshold-constant", "Threshold, beside a constant load", always, thresholds()),
        ("threshold", "Threshold, beside a load with a period of 60 s", half_of(PERIODS[0]), thresholds()),
    ];
    let mut table = Table::new(&["look", "with", "efficiency [%]", "low", "high", "movements", "moving [s]"]);
    for (name, title, load, ways) in looks {
        let mut plot = Lines::new(title, "time [s]", "of that without load and with equal shares");
        let mut moved = Vec::new();
        for (number, (way, balancing)) in ways.into_iter().enumerate() {
            let system = sor(RANKS, load);
            let runs = extent.runs(&system, &balancing)?;
            let found = of(&runs, percent);
            let movements = of(&runs, |run| run.movements as f64);
            let seconds = of(&runs, |run| run.moving);
            let values = [found.value, found.low, found.high, movements.value, seconds.value];
            table.row([name.into(), way.into()].into_iter().chain(values.map(|value| digits(value, 1))));
            moved.push(runs.iter().map(|run| run.movements as f64).collect::<Vec<f64>>());
            let decisions = runs.iter().take(1).flat_map(|run| &run.decisions);
            let known = decisions.filter(|decision| !decision.rates.is_empty());
            let (rates, held): (Vec<_>, Vec<_>) = known
                .map(|decision| {
                    let rate = (decision.now, decision.rates[0] * system.unit);
                    (rate, (decision.now, decision.held[0] as f64 * RANKS as f64 / UNITS as f64))
                })
                .unzip();
            if number == 0 || name == "filter" {
                plot.add(Series::new(format!("rate, {way}"), rates));
            }
            plot.add(Series::new(format!("units, {way}"), held));
        }
        report.lines(name, &plot)?;
        let saved: Vec<f64> = moved[0].iter().zip(&moved[1]).map(|(without, with)| with - without).collect();
        let what = format!("{name}, with it against without");
        report.mark(Mark::new(&what, mean_interval(&saved), "movements", Target::AtMost(0.0)));
    }
    report.table("course", &table)
}

fn hosts(report: &mut Report, extent: &Extent) -> Outcome {
    let columns = [
        "moves",
        "hosts",
        "load's period [s]",
        "who",
        "time [s]",
        "low",
        "high",
        "efficiency [%]",
        "movements",
    ];
    let mut table = Table::new(&columns);
    for (name, kind, units, per_unit) in COSTS {
        let title = |what: &str| format!("{what} of a loop of {SEQUENTIAL} s, {name} moves");
        let mut times = Lines::new(&title("Time"), "hosts", "time [s]");
        let mut parts = Lines::new(&title("Efficiency"), "hosts", "efficiency [%]");
        let mut worst = Interval::exact(0.0);
        for period in [None, Some(PERIODS[0]), Some(PERIODS[1])] {
            let ways = match period {
                None => vec![("no load", Balancing::Off)],
                Some(_) => vec![("without balancing", Balancing::Off), ("balanced", balancing(kind))],
            };
            let mut points = vec![(Vec::new(), Vec::new()); ways.len()];
            for ranks in HOSTS {
                let pass = SEQUENTIAL / ALL_PASSES as f64 / ranks as f64;
                let mut system = LoopSystem::equal(ranks, units as u64, ALL_PASSES, pass);
                system.loads = period.map(half_of).into_iter().collect();
                system.noise = NOISE;
                system.movement = MovementCosts { fixed: 0.0, per_unit };
                system.hook = HOOK;
                let mut elapsed = Vec::new();
                for ((who, balancing), (seconds, percents)) in ways.iter().zip(&mut points) {
                    let runs = extent.runs(&system, balancing)?;
                    let (time, part) = (of(&runs, |run| run.elapsed), of(&runs, percent));
                    table.row([
                        name.into(),
                        ranks.into(),
                        period.into(),
                        (*who).into(),
                        digits(time.value, 1),
                        digits(time.low, 1),
                        digits(time.high, 1),
                        digits(part.value, 1),
                        digits(of(&runs, |run| run.movements as f64).value, 1),
                    ]);
                    seconds.push((ranks as f64, time.value));
                    percents.push((ranks as f64, part.value));
                    elapsed.push(runs.iter().map(|run| run.elapsed).collect::<Vec<f64>>());
                }
                if let [without, balanced] = &elapsed[..] {
                    let ratio = mean_interval(&paired_ratios(balanced, without));
                    worst = if ratio.value > worst.value { ratio } else { worst };
                }
            }
            for ((who, _), (seconds, percents)) in ways.iter().zip(points) {
                let label = period.map_or_else(|| who.to_string(), |period| format!("{who}, {period} s"));
                times.add(Series::new(&label, seconds));
                parts.add(Series::new(&label, percents));
            }
        }
        let what = format!("{name} moves, where balancing gains least");
        report.mark(Mark::new(&what, worst, "times the time without", Target::AtMost(1.05)));
        let file = name.replace(' ', "-");
        report.lines(&format!("time-{file}"), &times)?;
        report.lines(&format!("efficiency-{file}"), &parts)?;
    }
    report.table("hosts", &table)
}
