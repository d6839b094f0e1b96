//! Tasks that may have caused the death of a rank, and their reassignment.
//!
//! A death counts as an attempt of the task in which the rank was. If that task is not known, all candidates are *suspects*. Suspects are
//! dispatched one at a time, to ranks that hold no other chunk, so that the next death identifies the task. Rank 0 runs no suspects,
//! because its death ends the job.

use std::ops::Range;

use super::{OutstandingChunk, TaskTable};
use crate::tasks::{Attempts, Blame, LastActivity};

/// Maximum number of tasks that are suspected of one death and dispatched one by one. If there are more, they are divided into this number of
/// chunks, and another rank dies before the task is known. A chunk of one task costs a round trip of about 100 µs, so this number of chunks costs
/// about half a second.
const SINGLED_OUT: u32 = 4096;

/// Consecutive tasks of a dead rank's chunk that are suspected of the death to the same degree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) chunk: usize,
    /// Positions of the tasks in the chunk, from 0.
    pub(crate) places: Range<u32>,
    pub(crate) blame: Blame,
}

/// Returns the tasks of a dead rank, with the degree to which they are suspected of the death. `chunks` are the chunks that the rank held, in the
/// order in which it ran them.
pub(super) fn blame<K>(chunks: &[OutstandingChunk<K>], last_activity: LastActivity) -> Vec<Share> {
    let whole = |chunk: usize, blame| Share { chunk, places: 0..chunks[chunk].count, blame };
    let place = |chunk: &OutstandingChunk<K>, task: u64| {
        let place = task.checked_sub(chunk.first).and_then(|place| u32::try_from(place).ok());
        place.filter(|&place| place < chunk.count)
    };
    // The rank died in `chunks[at]`, in the task at position `from` of the chunk or in a later one. If the task is known exactly, `exact` is the
    // position after it. If `later` is true, the rank may also have been in a later chunk.
    let (at, from, exact, later) = match last_activity {
        LastActivity::Innocent => (chunks.len(), 0, None, false),
        LastActivity::Chunk { id, task } => {
            let at = chunks.iter().position(|chunk| chunk.id == id).unwrap_or(chunks.len());
            let exact = chunks.get(at).and_then(|chunk| place(chunk, task?));
            (at, exact.unwrap_or(0), exact.map(|place| place + 1), false)
        }
        LastActivity::Behind(task) | LastActivity::Unrecorded(task) => {
            let named = |chunk: &OutstandingChunk<K>| task.and_then(|task| place(chunk, task));
            let at = chunks.iter().position(|chunk| named(chunk).is_some()).unwrap_or(0);
            (at, chunks.get(at).and_then(named).unwrap_or(0), None, true)
        }
    };
    let mut shares = Vec::with_capacity(chunks.len() + 2);
    for (n, chunk) in chunks.iter().enumerate() {
        if n < at || (n > at && !later) {
            shares.push(whole(n, Blame::Innocent));
        } else if n > at {
            shares.push(whole(n, Blame::Suspect(chunk.count.max(1))));
        } else {
            let end = exact.unwrap_or(chunk.count);
            let last = !later || n + 1 == chunks.len();
            let blame = match end - from {
                1 if last => Blame::Guilty,
                suspect_tasks => Blame::Suspect(suspect_tasks.div_ceil(SINGLED_OUT).max(1)),
            };
            let parts = [(0..from, Blame::Innocent), (from..end, blame), (end..chunk.count, Blame::Innocent)];
            shares.extend(parts.map(|(places, blame)| Share { chunk: n, places, blame }));
        }
    }
    if matches!(last_activity, LastActivity::Unrecorded(_)) {
        let not_begun = shares.iter_mut().filter(|share| chunks[share.chunk].attempts.is_suspect());
        not_begun.for_each(|share| share.blame = Blame::Innocent);
    }
    shares.retain(|share| !share.places.is_empty());
    shares
}

impl<K> TaskTable<K> {
    /// Ensures that the numbers of later deaths exceed `deaths`, because the journal of an earlier run of the job uses the numbers up to `deaths`.
    pub(crate) fn count_deaths_from(&mut self, deaths: u32) {
        self.deaths.last = self.deaths.last.max(deaths);
    }

    /// Returns the tasks of a lost rank, which held `chunks`, with their updated failed attempts. The caller has to [requeue the
    /// tasks](TaskTable::requeue) before it calls [`clear_suspicions`](TaskTable::clear_suspicions).
    pub(crate) fn assess_death(
        &mut self,
        chunks: &[OutstandingChunk<K>],
        last_activity: LastActivity,
    ) -> Vec<(Attempts, Share)> {
        self.deaths.last += u32::from(last_activity != LastActivity::Innocent);
        let judged = blame(chunks, last_activity)
            .into_iter()
            .map(|share| (self.deaths.judge(chunks[share.chunk].attempts, share.blame), share));
        judged.collect()
    }

    /// Clears the tasks that were suspected of a death whose cause has become known by the last death. Rank 0 still runs these tasks only if no
    /// other rank can.
    pub(crate) fn clear_suspicions(&mut self) {
        let explained = std::mem::take(&mut self.deaths.explained);
        for pending in &mut self.back {
            if pending.attempts.clear(&explained) {
                pending.avoid = Some(0);
            }
        }
        for outstanding in self.outstanding.values_mut() {
            outstanding.attempts.clear(&explained);
        }
    }
}

#[cfg(test)]
#[path = "suspect_tasks_tests.rs"]
mod tests;
