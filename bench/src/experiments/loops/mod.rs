//! Experiments on parallel loops whose units move.

pub(super) mod burner;
pub(super) mod grain;
pub(super) mod hooks;
pub(super) mod mechanisms;
pub(super) mod oscillating;
pub(super) mod overhead;
pub(super) mod rows;
pub(super) mod simgrid;

use crate::{Outcome, loops::job::Job};

/// Seconds of a pass by hand on two ranks that nothing disturbs.
fn seconds_per_pass(job: &Job) -> Outcome<f64> {
    let passes = job.passes.max(1);
    Ok(job.by_hand(2)?.seconds / passes as f64)
}

/// Seconds of a pass with the framework, without balancing, on two ranks that nothing disturbs: after as many passes, in which
/// it chooses the width of strips.
fn seconds_per_pass_of_ours(job: &Job) -> Outcome<f64> {
    let passes = job.passes.max(1);
    let job = Job { settle: passes, columns: 0, live: false, ..job.clone() };
    Ok(job.with_framework(2)?.seconds / passes as f64)
}

/// The strip width among some with which the sweep by hand is fastest on two ranks, and all times.
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
