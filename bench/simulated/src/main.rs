//! A farm whose tasks only declare their cost, for simulated clusters.
//!
//! Every simulated rank loads a copy of this program, so it has next to nothing in it. Words are NAME=VALUE: `tasks`,
//! their `mean` length in operations, its `deviation` as a part of the mean, the `seed` that decides the lengths, and
//! `chunking`. Rank 0 only hands out. It prints `result seconds S operations N chunks N busy S`.

use std::process::ExitCode;

use armature::farm::{Context, Farm, Worker};
use armature::{BoxError, Config, Progress, Session};
use tasks::TaskShape;

#[path = "../../src/farm/tasks.rs"]
#[allow(unreachable_pub, reason = "it is a public module of the experiments")]
mod tasks;

type Outcome<T = ()> = Result<T, BoxError>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = Simulated::parse(&words).and_then(|simulated| {
        let config = Config::from_env()?.progress(Progress::Off);
        Ok(armature::run(&config, |session| simulated.rank(session))?)
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("armature-bench-simulated: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What is run.
struct Simulated {
    tasks: usize,
    mean: f64,
    deviation: f64,
    seed: u64,
    chunking: armature::farm::Chunking,
}

impl Simulated {
    fn parse(words: &[String]) -> Outcome<Self> {
        let mut simulated =
            Simulated { tasks: 0, mean: 1.0, deviation: 1.0, seed: 0, chunking: Default::default() };
        for word in words {
            let (name, value) =
                word.split_once('=').ok_or_else(|| format!("expected NAME=VALUE, got {word}"))?;
            match name {
                "tasks" => simulated.tasks = value.parse()?,
                "mean" => simulated.mean = value.parse()?,
                "deviation" => simulated.deviation = value.parse()?,
                "seed" => simulated.seed = value.parse()?,
                "chunking" => simulated.chunking = value.parse()?,
                _ => return Err(format!("there is no setting {word}").into()),
            }
        }
        Ok(simulated)
    }

    fn rank(&self, session: &Session) -> Outcome {
        let Simulated { tasks, mean, deviation, seed, chunking } = *self;
        let lengths = match session.is_root() {
            true => TaskShape { tasks, mean, spread: deviation, block: 1 }
                .iterations(seed)?
                .next()
                .unwrap_or_default(),
            false => Vec::new(),
        };
        let (mut next, mut wrong) = (0, None);
        let mut farm = Farm::worker("simulated", || Ok(Declares)).chunking(chunking).dedicated_master();
        let summary = farm.map(session, lengths.iter().copied(), |number, result| {
            let right = matches!(result, Ok(length) if lengths.get(next as usize) == Some(&length));
            if !right || number != next {
                wrong.get_or_insert(number);
            }
            next += 1;
        })?;
        let Some(summary) = summary else { return Ok(()) };
        if let Some(number) = wrong {
            return Err(format!("the result of task {number} is wrong").into());
        }
        if next != tasks as u64 {
            return Err(format!("expected {tasks} results, got {next}").into());
        }
        let (seconds, busy) = (summary.elapsed.as_secs_f64(), summary.busy().as_secs_f64());
        let operations: f64 = lengths.iter().sum();
        println!("result seconds {seconds} operations {operations} chunks {} busy {busy}", summary.chunks);
        Ok(())
    }
}

/// Does nothing, for as long as it is told.
struct Declares;

impl Worker for Declares {
    type In = f64;
    type Out = f64;

    fn work(&mut self, operations: f64, cx: &mut Context) -> Result<f64, BoxError> {
        Ok(cx.declare(operations, || operations))
    }
}
