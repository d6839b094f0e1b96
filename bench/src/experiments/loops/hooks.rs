//! Experiment on the cost of hooks and of load balancing on ranks of equal speed. A hook is the call of the framework between two blocks of rows or
//! columns of a loop.
//!
//! The costs are too small to be visible in the time of a run, so each cost is measured separately, and multiplied by the number of times that it
//! occurs in a real run. *Hook*: one rank runs blocks with next to no computation; the time of a block is the overhead that the framework adds to
//! each block. *Balancer*: each rank of a real run sums up the time of its reports to rank 0, which include rank 0's decisions. *Log*: the blocks of
//! *Hook* with an event log; for a sweep, two ranks with one message per block; the cost is the additional time. *Run*: two ranks repeatedly run a
//! loop without computation; the time of a run is an upper bound of the cost of the agreement that both ranks run the same loop.

use std::{ops::Range, path::Path, time::Instant};

use armature::loops::{DoAcross, DoAcrossLoop, DoAll, DoAllLoop, Grid, Shape};
use armature::{Balance, BoxError, Config, Progress, Session};

use super::super::stream_runs::folder;
use crate::{
    Experiment, Report, RunResult, Table, Target, TargetedValue,
    burner::two_cores,
    loops::job::{Job, Kernel},
    ranks::Launch,
    stats::{median, median_interval},
    table::digits,
    verdict::Interval,
};

pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "hook-cost",
    about: "share of hooks, balancing and start-up in the time of a balanced loop, by cost and count",
    needs: "mpirun of Open MPI, two cores that nobody else uses",
    run,
};

const ROUNDS: usize = 10;
/// Number of runs of a loop without computation in one measurement.
const RUNS: u64 = 20_000;
/// Target: maximum seconds of a run of a loop without computation. It is 5 % of the time of a loop that takes one millisecond.
const RUN: f64 = 50e-6;
/// Number of blocks in one measurement of the hook (the framework's call between two blocks) alone.
const BLOCKS: u64 = 200_000;
/// Number of strips (blocks of columns of a sweep) in one measurement of the cost of an event log. In a run of this length, every strip and every
/// message is logged, in longer runs only some of them. The measured time includes the opening of the log.
const LOGGED_STRIPS: u64 = 2000;
/// Number of measurements with an event log, each paired with a measurement without it.
const LOGGED_PAIRS: usize = 40;
/// Cases: name, loop, rows, warm-up passes, and measured passes.
const CASES: [(&str, Kernel, usize, usize, usize); 2] =
    [("matmul 1000", Kernel::Matmul, 1000, 2, 6), ("SOR 2000", Kernel::Sor, 2000, 200, 400)];

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let cores = two_cores()?;
    let blocks = if smoke { BLOCKS / 100 } else { BLOCKS };
    let columns = [
        "loop",
        "a hook [ns]",
        "its log [ns]",
        "blocks",
        "computing [s]",
        "hooks [%]",
        "log [%]",
        "interactions",
        "balancing [%]",
    ];
    let mut table = Table::new(&columns);
    let folder = folder("hook-cost")?;
    for (name, kernel, size, settle, passes) in CASES {
        let job = Job { settle, live: true, cores: cores.to_vec(), ..Job::new(kernel, size, passes) };
        let job = if smoke { Job { size: size / 10, settle: 2, passes: 3, ..job } } else { job };
        let hook = |log: Option<&Path>| match (kernel, log) {
            (Kernel::Matmul, _) => hook_of_doall(blocks, log),
            _ => hook_of_sweep(1, blocks, log),
        };
        let hooks = (0..6).map(|_| hook(None)).skip(1).collect::<RunResult<Vec<f64>>>()?;
        let hook = median(&hooks);
        let logged = |log: Option<&Path>| match kernel {
            Kernel::Matmul => hook_of_doall(LOGGED_STRIPS, log),
            _ => hook_of_sweep(2, LOGGED_STRIPS, log),
        };
        let pairs = if smoke { 2 } else { LOGGED_PAIRS };
        let differences = (0..pairs).map(|_| Ok(logged(Some(&folder))? - logged(None)?));
        let log = median_interval(&differences.collect::<RunResult<Vec<f64>>>()?);
        let (mut of_hooks, mut of_balancer, mut last) = (Vec::new(), Vec::new(), None);
        for _ in 0..report.rounds(ROUNDS) {
            let run = job.with_framework(2)?;
            of_hooks.push(hook * run.blocks / run.computing);
            of_balancer.push(run.interacting / (2.0 * run.seconds));
            last = Some(run);
        }
        let (of_hooks, of_balancer) = (median_interval(&of_hooks), median_interval(&of_balancer));
        let run = last.unwrap_or_default();
        let share = |seconds: f64| seconds * run.blocks / run.computing;
        let of_log = Interval { value: share(log.value), low: share(log.low), high: share(log.high) };
        table.row([
            name.into(),
            (1e9 * hook).into(),
            (1e9 * log.value).into(),
            digits(run.blocks, 0),
            run.computing.into(),
            digits(100.0 * of_hooks.value, 3),
            digits(100.0 * of_log.value, 3),
            digits(run.interactions, 0),
            digits(100.0 * of_balancer.value, 3),
        ]);
        report.mark(TargetedValue::new(
            &format!("{name}, hooks"),
            of_hooks,
            "of the work",
            Target::AtMost(0.01),
        ));
        report.mark(TargetedValue::new(&format!("{name}, log"), of_log, "of the work", Target::AtMost(0.01)));
        report.mark(TargetedValue::new(
            &format!("{name}, balancing"),
            of_balancer,
            "of the time",
            Target::AtMost(0.01),
        ));
    }
    report.table("", &table)?;
    let runs = (if smoke { RUNS / 100 } else { RUNS }).to_string();
    let launch = Launch { bind: true, ..Launch::ranks(2) };
    let one = || Ok(launch.run("empty-loops", std::slice::from_ref(&runs))?["seconds"]);
    let seconds = (0..report.rounds(ROUNDS)).map(|_| one()).collect::<RunResult<Vec<f64>>>()?;
    let run = median_interval(&seconds);
    report.mark(TargetedValue::new("a run without work", run, "s on two ranks", Target::AtMost(RUN)));
    Ok(())
}

fn seconds(
    ranks: usize,
    log: Option<&Path>,
    body: impl Fn(&mut Session) -> Result<f64, BoxError> + Sync,
) -> RunResult<f64> {
    let config = Config::new().transport(armature::TransportChoice::Local).ranks(ranks);
    Ok(armature::run(&config.progress(Progress::Off).events(log.map(Path::to_path_buf)), body)?)
}

/// Returns the seconds per block of a DOALL loop (independent iterations) with blocks of one iteration of a few operations.
fn hook_of_doall(blocks: u64, log: Option<&Path>) -> RunResult<f64> {
    seconds(1, log, |session| {
        let mut tiny = DoAllLoop::new("tiny", blocks, Tiny).block_size(1).balance(Balance::Live);
        tiny.run(session, 0)?;
        let start = Instant::now();
        tiny.run(session, 1)?;
        Ok(start.elapsed().as_secs_f64() / blocks as f64)
    })
}

/// Returns the seconds per strip (block of columns) of a sweep with strips of one column and one row per rank.
fn hook_of_sweep(ranks: usize, strips: u64, log: Option<&Path>) -> RunResult<f64> {
    seconds(ranks, log, |session| {
        let shape = Shape { rows: ranks as u64 + 2, columns: 1002 };
        let mut tiny = DoAcrossLoop::new("tiny", shape, Tiny).strip_width(1).balance(Balance::Live);
        tiny.run(session, 1)?;
        let sweeps = strips.div_ceil(1000);
        let start = Instant::now();
        tiny.run(session, sweeps)?;
        Ok(start.elapsed().as_secs_f64() / (1000 * sweeps) as f64)
    })
}

struct Tiny;

impl DoAll for Tiny {
    type Units = Vec<u64>;

    fn create(&mut self, range: Range<u64>) -> Result<Vec<u64>, BoxError> {
        Ok(range.collect())
    }

    fn compute(&mut self, _: Range<u64>, units: &mut [u64]) -> Result<(), BoxError> {
        units.iter_mut().for_each(|unit| *unit = std::hint::black_box(unit.wrapping_mul(3)));
        Ok(())
    }
}

impl DoAcross for Tiny {
    type Value = u64;

    fn row(&mut self, index: u64, values: &mut [u64]) -> Result<(), BoxError> {
        values.fill(index);
        Ok(())
    }

    fn sweep(&mut self, grid: Grid<'_, u64>, columns: Range<usize>) -> Result<(), BoxError> {
        let value = &mut grid.values[grid.width + columns.start];
        *value = std::hint::black_box(value.wrapping_mul(3));
        Ok(())
    }
}
