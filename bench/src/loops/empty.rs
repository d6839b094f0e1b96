//! Rank program that runs loops whose body is empty. It measures the fixed cost of a loop, including the check that
//! all ranks run the same loop.

use std::time::Instant;

use armature::Config;
use armature::loops::ParallelFor;

use crate::RunResult;

const WARM_UP: u64 = 200;

/// Runs the rank program; the argument is the number of runs of the loop. Prints `result seconds S` on rank 0, the
/// time per run.
///
/// # Errors
/// If the argument is not a number; also errors of the framework.
pub fn main(arguments: &[String]) -> RunResult {
    let [runs] = arguments else { return Err("expected a number of runs".into()) };
    let runs: u64 = runs.parse()?;
    let config = Config::from_env()?;
    armature::run(&config, |session| {
        let mut run = || ParallelFor::new("empty", 0..0).run(session, |_| Ok(())).map(drop);
        (0..WARM_UP).try_for_each(|_| run())?;
        let start = Instant::now();
        (0..runs).try_for_each(|_| run())?;
        if session.is_root() {
            println!("result seconds {}", start.elapsed().as_secs_f64() / runs as f64);
        }
        Ok(())
    })?;
    Ok(())
}
