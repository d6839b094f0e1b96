//! Experiments on parallel loops whose units move.

pub(super) mod burner;
pub(super) mod hooks;
pub(super) mod oscillating;
pub(super) mod overhead;
pub(super) mod rows;
pub(super) mod simgrid;

use crate::{Outcome, loops::job::Job};

/// Returns the seconds per pass of the hand-written program on two undisturbed ranks.
fn seconds_per_pass(job: &Job) -> Outcome<f64> {
    let passes = job.passes.max(1);
    Ok(job.by_hand(2)?.seconds / passes as f64)
}

/// Returns the seconds per pass of the framework without balancing on two undisturbed ranks. The same number of
/// passes runs first as a warm-up, in which the framework chooses the strip width.
fn seconds_per_pass_of_ours(job: &Job) -> Outcome<f64> {
    let passes = job.passes.max(1);
    let job = Job { settle: passes, columns: 0, live: false, ..job.clone() };
    Ok(job.with_framework(2)?.seconds / passes as f64)
}

/// Returns the width, among `tried`, with which the hand-written sweep is fastest on two ranks, and the times of all
/// widths.
fn best_columns(job: &Job, tried: &[usize], rounds: usize) -> Outcome<(usize, Vec<(usize, f64)>)> {
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
