//! Experiment on the cost of collective operations of a session: a broadcast of 8 B on two ranks against MPI_Bcast, and a loop that runs until
//! convergence against a loop with a fixed number of steps.
//!
//! Both variants of a comparison are measured in turn within one job. After each broadcast rank 1 answers with an MPI message, with the framework and
//! with MPI. Otherwise rank 0, which does not wait in a broadcast, would run ahead. The loop computes its residual in both variants.

use std::time::Instant;

use armature::loops::{OldGrid, Shape, Stencil, StencilLoop, Until};
use armature::{Balance, BoxError, Config, Progress, Session};
use mpi::traits::*;

use crate::{
    Experiment, Report, RunResult, Table, Target, TargetedValue,
    burner::{pin_rank, two_cores},
    ranks::Launch,
    stats::{median_interval, paired_ratios},
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "session-values",
    about: "a broadcast of 8 B on two ranks against MPI_Bcast, and a stencil until convergence against one with fixed steps",
    needs: "mpirun of Open MPI, two cores that nobody else uses",
    run,
};

/// Number of jobs; each provides one sample of every comparison.
const ROUNDS: usize = 30;
/// Targets: maximum ratio of the time of a loop with convergence checks to the time without them, and maximum additional time in µs of a broadcast
/// compared with MPI_Bcast.
const MARKS: (f64, f64) = (1.02, 5.0);
/// Numbers of steps of the loop between two convergence checks.
const CHECK_INTERVALS: [u64; 2] = [1, 10];

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let cores = two_cores()?;
    let (broadcasts, size, steps) = if smoke { (200, 64, 10) } else { (20_000, 1_000, 200) };
    let arguments = [broadcasts, size, steps, cores[0], cores[1]].map(|word| word.to_string());
    let names = ["by_hand", "broadcast", "fixed", "every_1", "every_10"];
    let mut samples = names.map(|_| Vec::new());
    for round in 0..=report.rounds(ROUNDS) {
        let values = Launch::ranks(2).run("values", &arguments)?;
        for (name, samples) in names.iter().zip(&mut samples) {
            let value = values.get(*name).copied().ok_or_else(|| format!("the ranks printed no {name}"))?;
            if round > 0 {
                samples.push(value);
            }
        }
    }
    let mut table = Table::new(&["what", "time [µs]", "low", "high"]);
    for (name, samples) in names.iter().zip(&samples) {
        let time = median_interval(samples);
        table.row([(*name).into(), time.value.into(), time.low.into(), time.high.into()]);
    }
    report.table("", &table)?;
    let [by_hand, ours, fixed, checked @ ..] = samples;
    let longer: Vec<f64> = ours.iter().zip(&by_hand).map(|(ours, by_hand)| ours - by_hand).collect();
    let at_most = Target::AtMost(MARKS.1);
    report.mark(TargetedValue::new(
        "broadcast of 8 B",
        median_interval(&longer),
        "µs longer than MPI_Bcast",
        at_most,
    ));
    for (every, checked) in CHECK_INTERVALS.iter().zip(checked) {
        let ratio = median_interval(&paired_ratios(&checked, &fixed));
        let what = format!("until convergence, a check every {every} steps");
        report.mark(TargetedValue::new(
            &what,
            ratio,
            "times the time of fixed steps",
            Target::AtMost(MARKS.0),
        ));
    }
    Ok(())
}

/// Runs a rank of the measured job; prints `result by_hand T broadcast T fixed T every_1 T every_10 T` on rank 0, in µs per round or step.
///
/// # Errors
/// If the arguments are wrong, the number of ranks is not two, or a value is wrong.
pub(crate) fn main(arguments: &[String]) -> RunResult {
    let numbers: Vec<usize> = arguments.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
    let [broadcasts, size, steps, cores @ ..] = &numbers[..] else {
        return Err(format!("expected broadcasts, size, steps and cores, not {arguments:?}").into());
    };
    pin_rank(cores)?;
    let config = Config::from_env()?.progress(Progress::Off);
    Ok(armature::run(&config, |session| {
        if session.size() != 2 {
            return Err(format!("expected two ranks, got {}", session.size()).into());
        }
        let [by_hand, ours] = broadcasts_of(session, *broadcasts)?;
        let [fixed, each, tenth] = loops(session, *size, *steps as u64)?;
        if session.is_root() {
            println!(
                "result by_hand {by_hand} broadcast {ours} fixed {fixed} every_1 {each} every_10 {tenth}"
            );
        }
        Ok(())
    })?)
}

/// Returns the microseconds of a broadcast followed by a message back to rank 0: with MPI_Bcast, and with the broadcast of the framework's `Session`.
fn broadcasts_of(session: &mut Session, rounds: usize) -> Result<[f64; 2], BoxError> {
    let is_root = session.is_root();
    let answer = |world: &armature::Communicator, sent: u64, expected: u64| {
        let other = world.process_at_rank(1 - world.rank());
        if is_root {
            let (received, _) = other.receive::<u64>();
            return if received == expected {
                Ok(())
            } else {
                Err(format!("{received} came, not {expected}"))
            };
        }
        other.send(&sent);
        Ok(())
    };
    // The two broadcasts alternate in ten parts, so that both are measured under equal conditions.
    let (parts, mut times) = (10, [0.0; 2]);
    let each = rounds.div_ceil(parts);
    // The first call of `world` makes the ranks communicate, and is not timed.
    session.world()?;
    for _ in 0..parts {
        session.barrier()?;
        let world = session.world()?;
        let start = Instant::now();
        for round in 0..each as u64 {
            let mut value = if is_root { round } else { 0 };
            world.process_at_rank(0).broadcast_into(&mut value);
            answer(world, value, round)?;
        }
        times[0] += start.elapsed().as_secs_f64();
        session.barrier()?;
        let start = Instant::now();
        for round in 0..each as u64 {
            let value = session.broadcast(is_root.then_some(round))?;
            answer(session.world()?, value, round)?;
        }
        times[1] += start.elapsed().as_secs_f64();
    }
    Ok(times.map(|time| time * 1e6 / (each * parts) as f64))
}

/// Heat equation on a grid; `change` is the largest change of a grid value in the current step, which measures convergence.
struct Heat {
    change: f64,
}

impl Stencil for Heat {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        values.fill(if index == 0 { 1.0 } else { 0.0 });
        Ok(())
    }

    fn step(&mut self, old: OldGrid<'_, f64>, new: &mut [f64]) -> Result<(), BoxError> {
        let (b, width) = (old.values, old.width);
        let mut change = 0.0_f64;
        for (row, new) in (1..).zip(new.chunks_exact_mut(width)) {
            for (column, value) in new.iter_mut().enumerate().take(width - 1).skip(1) {
                let i = row * width + column;
                *value = 0.25 * (b[i - width] + b[i - 1] + b[i + 1] + b[i + width]);
                change = change.max((*value - b[i]).abs());
            }
        }
        self.change = self.change.max(change);
        Ok(())
    }
}

/// Returns the microseconds per step of the heat loop: with a fixed number of steps, with a convergence check after each step, and with a convergence
/// check after every tenth step.
fn loops(session: &mut Session, size: usize, steps: u64) -> Result<[f64; 3], BoxError> {
    let shape = Shape { rows: size as u64, columns: size };
    let mut heat = StencilLoop::new("heat", shape, Heat { change: 0.0 }).balance(Balance::Off);
    heat.run(session, steps.div_ceil(4))?;
    let mut times = [0.0; 3];
    // The times measured for loops of the framework include the start and the end of a loop.
    for _ in 0..2 {
        session.barrier()?;
        let start = Instant::now();
        heat.run(session, steps)?;
        times[0] += start.elapsed().as_secs_f64();
        for (every, time) in CHECK_INTERVALS.iter().zip(&mut times[1..]) {
            session.barrier()?;
            let start = Instant::now();
            let change = |heat: &mut Heat| std::mem::take(&mut heat.change);
            let end =
                heat.run_until(session, Until::at_most(steps).every(*every), change, |change| change < 0.0)?;
            *time += start.elapsed().as_secs_f64();
            if end.passes != steps {
                return Err(format!("the loop has ended after {} steps", end.passes).into());
            }
        }
    }
    Ok(times.map(|time| time * 1e6 / (2 * steps) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_loops_complete_and_report_positive_times() {
        let config = Config::new().ranks(2).progress(Progress::Off);
        let times = armature::run(&config, |session| loops(session, 20, 20)).unwrap();
        assert!(times.iter().all(|time| *time > 0.0), "{times:?}");
    }
}
