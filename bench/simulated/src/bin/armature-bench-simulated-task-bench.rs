//! Grids of tasks as in Task Bench whose tasks only declare their length to the simulator: a farm, a stencil loop, or a program by hand with MPI.
//!
//! Arguments have the form NAME=VALUE, see [`Job`]. Prints `result metg S`, the smallest mean task length of half efficiency in simulated seconds.

use std::process::ExitCode;

use armature::Session;
use armature_bench_simulated::task_bench::job::{Job, System};
use armature_bench_simulated::task_bench::{Trial, by_hand};
use armature_bench_simulated::{RunResult, run};

/// Operations per second of a simulated host.
const SPEED: f64 = 1e9;

fn main() -> ExitCode {
    run("armature-bench-simulated-task-bench", Job::parse, rank)
}

fn rank(job: &Job, session: &mut Session) -> RunResult {
    let declares = |input: u64, length: u64| armature::declare(length as f64, || input);
    let metg = job.search(
        session,
        SPEED,
        |input, _| input,
        |session, grid| {
            if job.system != System::ByHand {
                return job.farm_or_stencil(session, grid, declares);
            }
            // The first call of `world` makes the ranks communicate, and is not timed.
            session.world()?;
            session.barrier()?;
            let start = session.elapsed();
            let checksum = by_hand::run(session.world()?, &grid, declares);
            Ok(Trial { seconds: (session.elapsed() - start).as_secs_f64(), checksum })
        },
    )?;
    if session.is_root() {
        println!("result metg {metg}");
    }
    Ok(())
}
