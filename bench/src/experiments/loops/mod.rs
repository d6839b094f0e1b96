//! Experiments on parallel loops whose rows or indices the framework moves between ranks.

pub(super) mod burner;
pub(super) mod hooks;
pub(super) mod oscillating;
pub(super) mod overhead;
pub(super) mod rows;
pub(super) mod simgrid;

use crate::{RunResult, loops::job::Job};

/// Runs the hand-written MPI program of the loop on two ranks without competing load, and returns the seconds per pass over the rows.
fn seconds_per_pass(job: &Job) -> RunResult<f64> {
    let passes = job.passes.max(1);
    Ok(job.by_hand(2)?.seconds / passes as f64)
}

/// Runs the loop with the framework, without load balancing, on two ranks without competing load, and returns the seconds per pass over the rows. A
/// warm-up with the same number of passes runs first, in which the framework chooses the number of columns of a strip.
fn seconds_per_pass_of_ours(job: &Job) -> RunResult<f64> {
    let passes = job.passes.max(1);
    let job = Job { settle: passes, columns: 0, live: false, ..job.clone() };
    Ok(job.with_framework(2)?.seconds / passes as f64)
}

/// Returns the strip width (in columns), among `tried`, with which the hand-written sweep is fastest on two ranks,
/// and the times of all widths.
fn best_columns(job: &Job, tried: &[usize], rounds: usize) -> RunResult<(usize, Vec<(usize, f64)>)> {
    let mut times = Vec::new();
    for &columns in tried {
        let mut least = f64::INFINITY;
        for _ in 0..rounds {
            least = least.min(Job { columns, ..job.clone() }.by_hand(2)?.seconds);
        }
        times.push((columns, least));
    }
    let best = times.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(columns, _)| *columns);
    Ok((best, times))
}
