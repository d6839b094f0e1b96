//! Farm whose tasks only declare their cost to the simulator, for experiments on simulated clusters.
//!
//! The simulator loads a copy of this program for every rank, so the program links as little code as possible. Arguments have the form NAME=VALUE:
//! the number of `tasks`, their `mean` length in operations, their relative `deviation`, the `seed` that determines the lengths, `chunking`, the
//! number of `iterations` that run one after the other, the initial number of `workers` (0: all), and the number of `sub-masters`. Rank 0 only
//! distributes tasks. It prints `result seconds S operations N chunks N busy S last S workers N`; `last` is the time of the last iteration in
//! seconds, and `workers` is the number of workers at its end.

use std::process::ExitCode;
use std::time::Duration;

use armature::farm::{Context, Farm, Worker};
use armature::{BoxError, RunSummary, Session};
use armature_bench_simulated::tasks::TaskShape;
use armature_bench_simulated::{RunResult, run, settings};

fn main() -> ExitCode {
    run("armature-bench-simulated", Simulated::parse, Simulated::rank)
}

struct Simulated {
    tasks: usize,
    mean: f64,
    deviation: f64,
    seed: u64,
    chunking: armature::farm::Chunking,
    iterations: usize,
    workers: usize,
    sub_masters: usize,
}

impl Simulated {
    fn parse(arguments: &[String]) -> RunResult<Self> {
        let mut simulated = Simulated {
            tasks: 0,
            mean: 1.0,
            deviation: 1.0,
            seed: 0,
            chunking: Default::default(),
            iterations: 1,
            workers: 0,
            sub_masters: 0,
        };
        settings(arguments, |name, value| {
            match name {
                "tasks" => simulated.tasks = value.parse()?,
                "mean" => simulated.mean = value.parse()?,
                "deviation" => simulated.deviation = value.parse()?,
                "seed" => simulated.seed = value.parse()?,
                "chunking" => simulated.chunking = value.parse()?,
                "iterations" => simulated.iterations = value.parse()?,
                "workers" => simulated.workers = value.parse()?,
                "sub-masters" => simulated.sub_masters = value.parse()?,
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(simulated)
    }

    fn rank(&self, session: &mut Session) -> RunResult {
        let Simulated { tasks, mean, deviation, seed, chunking, iterations, workers, sub_masters } = *self;
        let mut sets = Vec::new();
        if session.is_root() {
            let shape = TaskShape { tasks, mean, spread: deviation, block: 1 };
            sets = shape.iterations(seed)?.take(iterations).collect();
        }
        let mut farm = Farm::worker("simulated", || Ok(Declares)).chunking(chunking).dedicated_master();
        farm = farm.sub_masters(sub_masters);
        if workers > 0 {
            farm = farm.workers(workers);
        }
        let first = sets.first().cloned().unwrap_or_default();
        let clock = session.stopwatch();
        let mut ended = vec![clock.elapsed()];
        let run = farm.iterate(session, first, |results, iteration| {
            ended.push(clock.elapsed());
            if sets[iteration] != results {
                return Err(format!("the results of iteration {iteration} are wrong").into());
            }
            Ok(sets.get(iteration + 1).cloned())
        })?;
        let Some(summary) = run.into_summary() else { return Ok(()) };
        let (seconds, busy) = (summary.elapsed.as_secs_f64(), summary.busy().as_secs_f64());
        let operations: f64 = sets.iter().flatten().sum();
        let (chunks, workers) = (summary.chunks, summary.ended_with);
        let last = ended.iter().rev().take(2).map(Duration::as_secs_f64).reduce(|end, start| end - start);
        let last = last.unwrap_or_default();
        println!(
            "result seconds {seconds} operations {operations} chunks {chunks} busy {busy} last {last} workers {workers}"
        );
        Ok(())
    }
}

struct Declares;

impl Worker for Declares {
    type In = f64;
    type Out = f64;

    fn work(&mut self, operations: f64, cx: &mut Context) -> Result<f64, BoxError> {
        Ok(cx.declare(operations, || operations))
    }
}
