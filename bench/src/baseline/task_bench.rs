//! Grids of tasks as in Task Bench, by hand with MPI: with static columns, or as the [farm by hand](super::hand_written_farm), which sends one task per
//! message.

use std::time::Instant;

use armature_bench_simulated::task_bench::{
    Trial, add, by_hand,
    job::{Job, System},
    search,
};
use mpi::traits::*;

use super::hand_written_farm;
use crate::{
    RunResult,
    burner::pin_rank,
    farm::task_set::steps_in,
    synthetic_work::{advance, advance_directly},
};

/// Number of tasks in flight to rank 1 of the farm.
const AHEAD: usize = 8;

/// Runs a rank of the program by hand; prints `result metg S` on rank 0.
///
/// # Errors
/// If the arguments are wrong, or a checksum is wrong.
pub fn main(arguments: &[String]) -> RunResult {
    let job = Job::parse(arguments)?;
    pin_rank(&job.cores)?;
    let universe = mpi::initialize().ok_or("MPI could not be started")?;
    let world = universe.world();
    let (root, is_root) = (world.process_at_rank(0), world.rank() == 0);
    if job.system == System::FarmByHand && world.size() != 2 {
        return Err(format!("expected two ranks, got {}", world.size()).into());
    }
    let mut per_second = if is_root { steps_in(1.0) } else { 0.0 };
    root.broadcast_into(&mut per_second);
    let metg = search::metg(job.start, job.tries, |mean| {
        let grid = job.grid(mean, per_second);
        let lengths = vec![grid.mean; grid.tasks() as usize];
        world.barrier();
        let start = Instant::now();
        let checksum = match job.system {
            System::FarmByHand => {
                let results = hand_written_farm::results_of(&world, &lengths, AHEAD);
                let sum = |sum, (number, value)| add(sum, number, value);
                is_root.then(|| (0..).zip(results).fold(0, sum))
            }
            System::ByHand => by_hand::run(&world, &grid, advance),
            other => return Err(format!("{other} is a system of another program").into()),
        };
        let seconds = start.elapsed().as_secs_f64();
        let mut efficiency = 0.0;
        if is_root {
            let trial = Trial { seconds, checksum };
            efficiency = grid.efficiency(trial, world.size() as usize, per_second, advance_directly)?;
        }
        root.broadcast_into(&mut efficiency);
        Ok(efficiency)
    })?;
    if is_root {
        println!("result metg {metg}");
    }
    Ok(())
}
