//! Loops without anything to do, as a rank program: what a run of a skeleton costs, agreement included.

use std::time::Instant;

use armature::Config;
use armature::loops::ParallelFor;

use crate::Outcome;

/// Runs that come first and do not count.
const WARM_UP: u64 = 200;

/// The rank program: the argument is a number of runs. Prints `result seconds S` on rank 0, the time of one of them.
///
/// # Errors
/// Those of its argument and of the framework.
pub fn main(arguments: &[String]) -> Outcome {
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
