//! Rank program that runs farms of tiny tasks with the framework, as a user would write it.

use std::str::FromStr;
use std::time::Duration;

use armature::farm::Farm;
use armature::{BoxError, Config, Plain, Progress, Session};

use crate::{
    RunResult,
    baseline::{
        chain::{Tasks, Work},
        stages::fold,
        task::work,
    },
    ranks::Launch,
};

/// Parameters of a farm on two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiny {
    /// Bytes of a task and of its result: 8 or 1024.
    pub size: usize,
    /// Number of tasks.
    pub tasks: usize,
    /// True if rank 0 runs no tasks.
    pub dedicated: bool,
}

/// Maximum number of tasks in the unmeasured first run, which establishes the connections.
const WARM_UP: usize = 10_000;

/// Runs the farm and returns tasks per second.
///
/// # Errors
/// If the ranks cannot be started; also errors of [`main`].
pub fn measure(tiny: Tiny) -> RunResult<f64> {
    let arguments = [tiny.size.to_string(), tiny.tasks.to_string(), tiny.dedicated.to_string()];
    let values = Launch::ranks(2).run("tiny", &arguments)?;
    values.get("tasks_per_s").copied().ok_or_else(|| "the farm printed no tasks_per_s".into())
}

/// Runs the rank program; prints `result tasks_per_s R tasks N` on rank 0.
///
/// # Errors
/// If the arguments are wrong or the checksum is wrong.
pub fn main(arguments: &[String]) -> RunResult {
    let tiny = Tiny::parse(arguments)?;
    let config = Config::from_env()?.progress(Progress::Off);
    Ok(armature::run(&config, |session| {
        run_once(session, Tiny { tasks: tiny.tasks.min(WARM_UP), ..tiny })?;
        if let Some(took) = run_once(session, tiny)? {
            println!("result tasks_per_s {} tasks {}", tiny.tasks as f64 / took.as_secs_f64(), tiny.tasks);
        }
        Ok(())
    })?)
}

impl Tiny {
    fn parse(arguments: &[String]) -> RunResult<Self> {
        let expected = || format!("expected SIZE TASKS DEDICATED, got {arguments:?}");
        let [size, tasks, dedicated] = arguments else { return Err(expected().into()) };
        let size = usize::from_str(size)?;
        if size != 8 && size != 1024 {
            return Err(expected().into());
        }
        Ok(Tiny { size, tasks: tasks.parse()?, dedicated: dedicated.parse()? })
    }
}

fn run_once(session: &mut Session, tiny: Tiny) -> Result<Option<Duration>, BoxError> {
    let numbers = 0..tiny.tasks as u64;
    let mut sum = 0;
    let run = if tiny.size == 8 {
        let mut farm = Farm::new("numbers", work);
        if tiny.dedicated {
            farm = farm.dedicated_master();
        }
        farm.for_each(session, numbers, |_, word| sum = fold(sum, word))?
    } else {
        let mut farm = Farm::new("arrays", |mut array: Array| {
            array[0] = work(array[0]);
            array
        })
        .plain();
        if tiny.dedicated {
            farm = farm.dedicated_master();
        }
        farm.for_each(session, numbers.map(array), |_, array| sum = fold(sum, array[0]))?
    };
    if session.is_root() && sum != Tasks::expected(tiny.tasks) {
        return Err(format!("the results are wrong: checksum {sum:#x}").into());
    }
    Ok(run.into_summary().map(|summary| summary.elapsed))
}

type Array = Plain<[u64; 128]>;

fn array(number: u64) -> Array {
    let mut array = [0; 128];
    array[0] = number;
    Plain(array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_correct_for_both_task_sizes() {
        for (size, dedicated) in [(8, false), (8, true), (1024, false), (1024, true)] {
            let config = Config::new().ranks(2).progress(Progress::Off);
            let tiny = Tiny { size, tasks: 5000, dedicated };
            armature::run(&config, |session| run_once(session, tiny)).unwrap();
        }
    }

    #[test]
    fn unsupported_task_sizes_are_refused() {
        assert!(Tiny::parse(&["16", "10", "true"].map(String::from)).is_err());
    }
}
