//! Kills jobs that write checkpoints or snapshots, and starts them again.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{Job, JobResult, Running};

/// Starts a job on each number of ranks in `ranks`, one after the other. In each job but the last
/// one, a rank is killed after the job has completed another checkpoint or snapshot in `dir`. The
/// delay before the kill grows, so that the kills hit different steps of writing the next one.
/// Returns the outcome of the last job, which must succeed.
///
/// # Panics
/// If a job writes no checkpoint or snapshot, ends before its rank is killed, or leaves processes behind.
#[track_caller]
pub fn kill_and_restart(job: impl Fn(usize) -> Job, dir: &Path, ranks: &[usize]) -> JobResult {
    let (last, killed) = ranks.split_last().expect("a job");
    for (round, &ranks) in killed.iter().enumerate() {
        let running = job(ranks).start();
        running.wait_for_checkpoint(dir, completed_passes(dir));
        std::thread::sleep(Duration::from_millis(7 * round as u64));
        running.kill_rank(round % ranks);
        let outcome = running.wait();
        assert!(!outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    }
    job(*last).succeeds()
}

/// Returns the number of passes over a loop's rows or indices in the valid checkpoint in `dir`, or the number of the newest snapshot.
pub fn completed_passes(dir: &Path) -> Option<u64> {
    // If a job dies while it replaces the file `manifest`, which describes the checkpoint, only the previous one exists as `manifest.old`.
    let manifests = ["manifest", "manifest.old"].map(|name| std::fs::read_to_string(dir.join(name)));
    let manifest = manifests.into_iter().find_map(Result::ok)?;
    let (_, rest) = manifest.split_once("\"pass\":")?;
    rest.split(',').next()?.parse().ok()
}

impl Running {
    /// Waits until `dir` has a checkpoint of more than `passes` passes over a loop's rows or indices, or a newer snapshot.
    ///
    /// # Panics
    /// If there is none after 60 s.
    #[track_caller]
    pub fn wait_for_checkpoint(&self, dir: &Path, passes: Option<u64>) {
        let start = Instant::now();
        while completed_passes(dir) <= passes {
            let (waited, errors) = (start.elapsed(), self.stderr_text());
            assert!(waited < Duration::from_secs(60), "no checkpoint after {passes:?}: {errors}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
