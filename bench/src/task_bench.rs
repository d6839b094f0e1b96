//! Rank program that runs grids of tasks as in Task Bench with the framework, and the starts of all programs that run such grids.

use std::time::Duration;

use armature::{Config, Progress};
use armature_bench_simulated::task_bench::{
    job::{Job, System},
    skeletons,
};

use crate::{
    RunResult,
    burner::pin_rank,
    farm::task_set::steps_in,
    ranks::{Launch, Values, finish, one, simulation},
    synthetic_work::{advance, advance_directly},
};

const SIMULATED: &str = "armature-bench-simulated-task-bench";
const LIMIT: Duration = Duration::from_secs(300);
const SIMULATION_LIMIT: Duration = Duration::from_secs(3_000);

/// Runs a rank of the framework's program; prints `result metg S` on rank 0.
///
/// # Errors
/// If the arguments are wrong, or a checksum is wrong; errors of the framework.
pub fn main(arguments: &[String]) -> RunResult {
    let job = Job::parse(arguments)?;
    pin_rank(&job.cores)?;
    let config = Config::from_env()?.progress(Progress::Off);
    Ok(armature::run(&config, |session| {
        let per_second = session.is_root().then(|| steps_in(1.0));
        let per_second = session.broadcast(per_second)?;
        let metg = job.search(session, per_second, advance_directly, |session, grid| match job.system {
            System::Workflow => skeletons::workflow(session, grid, None, advance),
            System::PlannedWorkflow => {
                let run_time = grid.mean as f64 / per_second;
                skeletons::workflow(session, grid, Some(run_time), advance)
            }
            _ => job.farm_or_stencil(session, grid, advance),
        })?;
        if session.is_root() {
            println!("result metg {metg}");
        }
        Ok(())
    })?)
}

/// Returns METG(50 %) in µs on two ranks.
///
/// # Errors
/// If the ranks cannot be started; also errors of the rank programs.
pub fn measure(job: &Job) -> RunResult<f64> {
    let program = match job.system {
        System::ByHand | System::FarmByHand => "task-bench-by-hand",
        _ => "task-bench",
    };
    microseconds(&Launch { limit: LIMIT, ..Launch::ranks(2) }.run(program, &job.arguments())?)
}

/// Returns METG(50 %) in µs on simulated ranks: equal hosts around a switch, with links of 1 Gbit/s and 25 µs each.
///
/// # Errors
/// If the simulator or the program built for it does not exist, or if the simulation fails or takes too long.
pub fn simulate(job: &Job, ranks: usize) -> RunResult<f64> {
    let mut command = simulation(ranks, SIMULATION_LIMIT);
    command.arg(SIMULATED).args(job.arguments());
    microseconds(&one(&finish(command, SIMULATION_LIMIT)?)?)
}

fn microseconds(values: &Values) -> RunResult<f64> {
    let metg = values.get("metg").ok_or("the ranks printed no metg")?;
    Ok(metg * 1e6)
}
