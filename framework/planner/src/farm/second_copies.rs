//! Second copies of late chunks (groups of tasks) of a farm on idle workers.

/// Chunk (group of tasks) whose results have not arrived, as the master knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldChunk {
    /// Number by which the master identifies the chunk.
    pub id: u64,
    /// Rank to which the chunk was sent.
    pub worker: usize,
    /// Number of tasks of the chunk whose results have not arrived.
    pub tasks: u64,
    /// Time since the rank could begin these tasks, in seconds; `None` if they wait for an earlier chunk of the rank.
    pub running_for: Option<f64>,
    /// True if the chunk may be copied: it has no second copy, and a second run of its tasks does no harm.
    pub copyable: bool,
}

/// Returns the chunks to be sent to idle workers as well, each with its second worker.
///
/// `held` contains all chunks without results, those of a worker in the order of dispatch; `idle` contains an entry for each chunk that a rank can
/// begin at once. `seconds_per_task` returns the time of a task on a rank, from its latest results. `message` is the time in seconds in which a copy
/// reaches its worker and its result returns.
///
/// A chunk is expected to need the remainder of its time at the pace of its worker. A chunk that has exceeded this time is expected to need as much
/// time again as it is late, because its lateness is all that the master knows about a worker that has just become slow. An idle worker gets the
/// chunk for which a copy saves most time, fast workers first. A copy that is not expected to end before the chunk itself is not sent.
///
/// ```
/// use armature_planner::farm::{HeldChunk, second_copies};
///
/// let chunk = HeldChunk { id: 7, worker: 1, tasks: 4, running_for: Some(0.1), copyable: true };
/// // Worker 1 takes ten times as long for a task as the idle worker 2.
/// let seconds = |rank: usize| [None, Some(1.0), Some(0.1)][rank];
/// assert_eq!(second_copies(&[chunk], &[2], seconds, 1e-3), [(7, 2)]);
/// // At the pace of worker 2, the chunk ends before its copy.
/// assert_eq!(second_copies(&[HeldChunk { worker: 2, ..chunk }], &[2], seconds, 1e-3), []);
/// ```
pub fn second_copies(
    held: &[HeldChunk],
    idle: &[usize],
    seconds_per_task: impl Fn(usize) -> Option<f64>,
    message: f64,
) -> Vec<(u64, usize)> {
    let ranks = || held.iter().map(|chunk| chunk.worker).chain(idle.iter().copied());
    let known: Vec<f64> = ranks().filter_map(&seconds_per_task).filter(|pace| pace.is_finite()).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let mean = known.iter().sum::<f64>() / known.len() as f64;
    let pace = |rank: usize| seconds_per_task(rank).filter(|pace| pace.is_finite()).unwrap_or(mean);
    let mut open = remaining(held, pace);
    let mut idle = idle.to_vec();
    idle.sort_by(|&a, &b| pace(a).total_cmp(&pace(b)).then(a.cmp(&b)));
    let mut copies = Vec::new();
    for worker in idle {
        let gain = |chunk: &HeldChunk, left: f64| left - message - chunk.tasks as f64 * pace(worker);
        let gains = open.iter().enumerate().map(|(place, (chunk, left))| (place, gain(chunk, *left)));
        // If several chunks have the largest gain, the first of them is copied, so that the choice does
        // not depend on the order of comparisons.
        let best =
            gains.filter(|(_, gain)| *gain > 0.0).max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        if let Some((place, _)) = best {
            copies.push((open.remove(place).0.id, worker));
        }
    }
    copies
}

fn remaining(held: &[HeldChunk], pace: impl Fn(usize) -> f64) -> Vec<(HeldChunk, f64)> {
    let mut ends: Vec<(usize, f64)> = Vec::new();
    let mut open = Vec::new();
    for &chunk in held {
        let expected = chunk.tasks as f64 * pace(chunk.worker);
        let before = ends.iter().rposition(|&(worker, _)| worker == chunk.worker);
        let left = match (chunk.running_for, before) {
            (Some(time), _) => (expected - time).abs(),
            (None, Some(before)) => ends[before].1 + expected,
            (None, None) => expected,
        };
        match before {
            Some(before) => ends[before].1 = left,
            None => ends.push((chunk.worker, left)),
        }
        if chunk.copyable {
            open.push((chunk, left));
        }
    }
    open
}

#[cfg(test)]
#[path = "second_copies_tests.rs"]
mod tests;
