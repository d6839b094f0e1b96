//! Experiment on the accuracy and cost of the framework's estimator of service times and of the published estimator of rates (Beard and Chamberlain
//! 2015), on simulated servers of known rate.
//!
//! The servers are simulated: a queue with Poisson arrivals before a server with fixed (M/D/1) or exponential (M/M/1) service times, which processes
//! all waiting items as a batch. For some batches the estimators see only a part of the items, and for a few batches too many, like a monitor that
//! reads the counters of a queue in the middle of a batch. The cost of the estimators is measured separately and compared with the time of a short
//! batch.

use std::hint::black_box;
use std::time::Instant;

use armature_papers::{RateEstimator, RateOptions, Sample};
use armature_planner::estimate::ServiceTime;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Exp1};

use crate::plot::Series;
use crate::stats::{median, median_interval, quantile};
use crate::verdict::Interval;
use crate::{Experiment, Lines, Report, RunResult, Table, Target, TargetedValue};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rate-estimator",
    about: "service-rate estimators against servers of known rate, and their cost",
    needs: "nothing",
    run,
};

const UTILISATIONS: [f64; 7] = [0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99];
const SERVICE: f64 = 5e-6;
const BATCH: usize = 64;
/// Busy seconds in a sampling period of the published estimator ("heuristic"): the time of 1000 items.
const PERIOD: f64 = 5e-3;
/// Busy seconds that each simulated server runs before a change of its rate, and after it.
const RUN: f64 = 4.0;
/// Fraction of the batches of which the estimators see only a part of the items: a random fraction between 0.3 and 1.
const PARTIAL: f64 = 0.15;
/// Fraction of the batches for which the estimators see too many items, up to twice their number.
const OUTLIERS: f64 = 0.01;
const BOUND: f64 = 0.20;
/// Time of a short batch in nanoseconds; the framework does not time shorter batches individually.
const SHORT_BATCH: f64 = 20_000.0;

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let seeds = if smoke { 2 } else { 30 };
    report.note(format!(
        "{} % of the batches seen in part, {} % with too many items; {seeds} seeds",
        100.0 * PARTIAL,
        100.0 * OUTLIERS
    ));
    errors(report, seeds)?;
    changes(report, seeds)?;
    costs(report, smoke)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Service {
    Fixed,
    Exponential,
}

impl Service {
    const ALL: [Service; 2] = [Service::Fixed, Service::Exponential];

    fn name(self) -> &'static str {
        match self {
            Service::Fixed => "M/D/1",
            Service::Exponential => "M/M/1",
        }
    }
}

struct Server {
    rng: StdRng,
    service: Service,
    utilisation: f64,
    mean: f64,
    now: f64,
    arrival: f64,
}

impl Server {
    fn new(service: Service, utilisation: f64, seed: u64) -> Self {
        let rng = StdRng::seed_from_u64(seed);
        Server { rng, service, utilisation, mean: SERVICE, now: 0.0, arrival: 0.0 }
    }

    fn exponential(&mut self) -> f64 {
        Exp1.sample(&mut self.rng)
    }

    /// Processes the next batch, all items that arrived during the previous batch. Returns the number of items and the busy seconds that the
    /// estimators see.
    fn batch(&mut self) -> (u64, f64) {
        self.now = self.now.max(self.arrival);
        let (mut items, mut busy) = (0, 0.0);
        while self.arrival <= self.now && items < BATCH {
            items += 1;
            busy += match self.service {
                Service::Fixed => self.mean,
                Service::Exponential => self.mean * self.exponential(),
            };
            self.arrival += SERVICE / self.utilisation * self.exponential();
        }
        self.now += busy;
        let seen = match self.rng.random::<f64>() {
            u if u < PARTIAL => self.rng.random_range(0.3..1.0),
            u if u > 1.0 - OUTLIERS => self.rng.random_range(1.0..2.0),
            _ => 1.0,
        };
        // The estimators get all items with a longer time, instead of a part of the items with the real time. Both give the same rate.
        (items as u64, busy / seen)
    }
}

/// Returns the options of the published estimator ("heuristic"). Its sampling periods last milliseconds of busy time instead of microseconds, so that
/// fewer periods suffice, and the tolerance can be larger than the default.
fn rate_options() -> RateOptions {
    RateOptions { tolerance: 1e-5, ..RateOptions::default() }
}

struct Estimators {
    heuristic: RateEstimator,
    items: f64,
    busy: f64,
    mean: ServiceTime,
}

const NAMES: [&str; 2] = ["heuristic", "robust mean"];

impl Estimators {
    fn new() -> RunResult<Self> {
        Ok(Estimators {
            heuristic: RateEstimator::new(PERIOD, rate_options())?,
            items: 0.0,
            busy: 0.0,
            mean: ServiceTime::default(),
        })
    }

    fn add(&mut self, (items, busy): (u64, f64)) {
        self.mean.add(items, busy);
        self.items += items as f64;
        self.busy += busy;
        if self.busy >= PERIOD {
            let items = self.items * PERIOD / self.busy;
            self.heuristic.add(Sample { items, period: PERIOD, blocked: false });
            (self.items, self.busy) = (0.0, 0.0);
        }
    }

    /// Returns the estimated items per second of both estimators. The published estimator ("heuristic") has an estimate only after it has converged.
    fn rates(&self) -> [Option<f64>; 2] {
        [
            self.heuristic.estimate().filter(|estimate| estimate.converged).map(|estimate| estimate.rate),
            self.mean.estimate().map(|estimate| 1.0 / estimate.value),
        ]
    }
}

/// Returns the relative errors of each estimator for `seeds` simulated servers.
fn measured(service: Service, utilisation: f64, seeds: u64) -> RunResult<[Vec<f64>; 2]> {
    let mut errors = [const { Vec::new() }; 2];
    for seed in 0..seeds {
        let mut server = Server::new(service, utilisation, seed);
        let mut estimators = Estimators::new()?;
        let mut busy = 0.0;
        while busy < RUN {
            let batch = server.batch();
            busy += batch.1;
            estimators.add(batch);
        }
        for ((errors, rate), name) in errors.iter_mut().zip(estimators.rates()).zip(NAMES) {
            let rate =
                rate.ok_or_else(|| format!("{name} printed no rate of {} at {utilisation}", service.name()))?;
            errors.push(rate * SERVICE - 1.0);
        }
    }
    Ok(errors)
}

fn errors(report: &mut Report, seeds: u64) -> RunResult {
    let mut table = Table::new(&[
        "server",
        "utilisation",
        "estimator",
        "median error [%]",
        "5 %",
        "95 %",
        "largest of all [%]",
    ]);
    let mut plot = Lines::new("Error of the service rate", "utilisation", "median |error| [%]");
    let mut largest = [0.0_f64; 2];
    for service in Service::ALL {
        let mut lines = [const { Vec::new() }; 2];
        for utilisation in UTILISATIONS {
            let errors = measured(service, utilisation, seeds)?;
            for (i, errors) in errors.iter().enumerate() {
                let percent: Vec<f64> = errors.iter().map(|error| 100.0 * error).collect();
                let sizes: Vec<f64> = percent.iter().map(|error| error.abs()).collect();
                let most = quantile(&sizes, 1.0);
                largest[i] = largest[i].max(most);
                lines[i].push((utilisation, median(&sizes)));
                table.row([
                    service.name().into(),
                    utilisation.into(),
                    NAMES[i].into(),
                    median(&percent).into(),
                    quantile(&percent, 0.05).into(),
                    quantile(&percent, 0.95).into(),
                    most.into(),
                ]);
            }
        }
        for (name, points) in NAMES.iter().zip(lines) {
            plot.add(Series::new(format!("{}, {name}", service.name()), points));
        }
    }
    report.table("error", &table)?;
    report.lines("error", &plot)?;
    for (name, largest) in NAMES.iter().zip(largest) {
        let what = format!("{name}, largest |error| of all servers, utilisations and seeds");
        report.mark(TargetedValue::new(&what, Interval::exact(largest), "%", Target::AtMost(100.0 * BOUND)));
    }
    Ok(())
}

/// Measures the busy seconds from a change of a server's rate until the estimates stay close to the new rate.
fn changes(report: &mut Report, seeds: u64) -> RunResult {
    const UTILISATION: f64 = 0.4;
    let mut table = Table::new(&[
        "server",
        "service time",
        "estimator",
        "followed in",
        "busy time until followed, median [ms]",
        "longest [ms]",
    ]);
    for service in Service::ALL {
        for factor in [0.5, 2.0] {
            let mut times = [const { Vec::new() }; 2];
            for seed in 0..seeds {
                let followed = follow(Server::new(service, UTILISATION, seed), factor)?;
                times.iter_mut().zip(followed).for_each(|(times, time)| times.extend(time));
            }
            for (name, times) in NAMES.iter().zip(times) {
                let ms: Vec<f64> = times.iter().map(|time| 1e3 * time).collect();
                table.row([
                    service.name().into(),
                    format!("× {factor}").into(),
                    (*name).into(),
                    format!("{} of {seeds}", ms.len()).into(),
                    median(&ms).into(),
                    ms.iter().copied().fold(f64::NAN, f64::max).into(),
                ]);
            }
        }
    }
    report.table("change", &table)
}

/// Multiplies the mean service time of a server by `factor`. Returns, for each estimator, the busy seconds from the change until its estimate stays
/// close to the new rate.
fn follow(mut server: Server, factor: f64) -> RunResult<[Option<f64>; 2]> {
    let mut estimators = Estimators::new()?;
    let mut feed = |server: &mut Server, until: f64, each: &mut dyn FnMut(f64, [Option<f64>; 2])| {
        let (mut busy, mut next) = (0.0, 0.0);
        while busy < until {
            let batch = server.batch();
            busy += batch.1;
            estimators.add(batch);
            if busy >= next {
                each(busy, estimators.rates());
                next += PERIOD;
            }
        }
    };
    feed(&mut server, RUN, &mut |_, _| ());
    server.mean = factor * SERVICE;
    let mut since = [None; 2];
    feed(&mut server, RUN, &mut |busy, rates| {
        for (since, rate) in since.iter_mut().zip(rates) {
            let near = rate.is_some_and(|rate| (rate * factor * SERVICE - 1.0).abs() <= BOUND);
            *since = if near { since.or(Some(busy)) } else { None };
        }
    });
    Ok(since)
}

fn costs(report: &mut Report, smoke: bool) -> RunResult {
    if cfg!(debug_assertions) {
        report.note("built without optimisation: times say nothing");
    }
    let (rounds, calls) = if smoke { (3, 10_000) } else { (41, 200_000) };
    let mut server = Server::new(Service::Exponential, 0.9, 1);
    let batches: Vec<(u64, f64)> = (0..4096).map(|_| server.batch()).collect();
    let counts: Vec<f64> = batches.iter().map(|(items, busy)| *items as f64 * PERIOD / busy).collect();

    let mut table = Table::new(&["what", "median [ns]", "low", "high"]);
    let mut row = |what: &str, cost: Interval| {
        table.row([what.into(), cost.value.into(), cost.low.into(), cost.high.into()]);
        cost
    };
    let mut mean = ServiceTime::default();
    let batch = row(
        "a batch, robust mean",
        timed(rounds, calls, |i| {
            let (items, busy) = batches[i % batches.len()];
            mean.add(black_box(items), black_box(busy));
        }),
    );
    let mut heuristic = RateEstimator::new(PERIOD, rate_options())?;
    row(
        "a period, heuristic",
        timed(rounds, calls, |i| {
            let items = counts[i % counts.len()];
            black_box(heuristic.add(Sample { items: black_box(items), period: PERIOD, blocked: false }));
        }),
    );
    row(
        "reading the robust mean",
        timed(rounds, calls / 100, |_| {
            black_box(mean.estimate());
        }),
    );
    report.table("cost", &table)?;
    let share = |ns: f64| 100.0 * ns / SHORT_BATCH;
    let share = Interval { value: share(batch.value), low: share(batch.low), high: share(batch.high) };
    report.mark(TargetedValue::new("cost of a batch", share, "% of a batch of 20 µs", Target::AtMost(1.0)));
    Ok(())
}

/// Returns the median, with its interval, of the nanoseconds per call of `call`.
fn timed(rounds: usize, calls: usize, mut call: impl FnMut(usize)) -> Interval {
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let start = Instant::now();
        (0..calls).for_each(&mut call);
        times.push(start.elapsed().as_secs_f64() * 1e9 / calls as f64);
    }
    median_interval(&times)
}
