//! Tasks that may have caused the death of a rank, and their reassignment.
//!
//! A death counts as an attempt of the task in which the rank was. If that task is not known, all candidates are *suspects*. Suspects are
//! dispatched one at a time, to ranks that hold no other chunk, so that the next death identifies the task. Rank 0 runs no suspects,
//! because its death ends the job.

use std::ops::Range;

use super::{OutstandingChunk, TaskTable};
use crate::tasks::{Attempts, LastActivity, Verdict};

/// Maximum number of suspects of one death that are dispatched one by one. More suspects are divided into this number of chunks, at the
/// price of another death. A chunk of one task costs a round trip of about 100 µs, so all chunks together cost about half a second.
const SINGLED_OUT: u32 = 4096;

/// Tasks of one chunk of a dead rank that have the same verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Index of the chunk in the list of the rank's chunks.
    pub(crate) chunk: usize,
    /// Positions of the tasks in the chunk.
    pub(crate) places: Range<u32>,
    pub(crate) blame: Verdict,
}

/// Returns the verdicts of a rank's death on the tasks of its chunks, which are in the order of dispatch and of execution.
pub(super) fn blame<K>(chunks: &[OutstandingChunk<K>], last_activity: LastActivity) -> Vec<Share> {
    let whole = |chunk: usize, blame| Share { chunk, places: 0..chunks[chunk].count, blame };
    let place = |chunk: &OutstandingChunk<K>, task: u64| {
        let place = task.checked_sub(chunk.first).and_then(|place| u32::try_from(place).ok());
        place.filter(|&place| place < chunk.count)
    };
    // First chunk in which the rank may have been, first position in that chunk, end of the positions if the task is known, and true if the
    // rank may also have been in later chunks.
    let (at, from, exact, later) = match last_activity {
        LastActivity::Innocent => (chunks.len(), 0, None, false),
        LastActivity::Chunk { id, task } => {
            let at = chunks.iter().position(|chunk| chunk.id == id).unwrap_or(chunks.len());
            let exact = chunks.get(at).and_then(|chunk| place(chunk, task?));
            (at, exact.unwrap_or(0), exact.map(|place| place + 1), false)
        }
        LastActivity::Behind(task) | LastActivity::Unnoted(task) => {
            let named = |chunk: &OutstandingChunk<K>| task.and_then(|task| place(chunk, task));
            let at = chunks.iter().position(|chunk| named(chunk).is_some()).unwrap_or(0);
            (at, chunks.get(at).and_then(named).unwrap_or(0), None, true)
        }
    };
    let mut shares = Vec::with_capacity(chunks.len() + 2);
    for (n, chunk) in chunks.iter().enumerate() {
        if n < at || (n > at && !later) {
            shares.push(whole(n, Verdict::Innocent));
        } else if n > at {
            shares.push(whole(n, Verdict::Suspect(chunk.count.max(1))));
        } else {
            let end = exact.unwrap_or(chunk.count);
            let last = !later || n + 1 == chunks.len();
            let blame = match end - from {
                1 if last => Verdict::Guilty,
                suspects => Verdict::Suspect(suspects.div_ceil(SINGLED_OUT).max(1)),
            };
            let parts =
                [(0..from, Verdict::Innocent), (from..end, blame), (end..chunk.count, Verdict::Innocent)];
            shares.extend(parts.map(|(places, blame)| Share { chunk: n, places, blame }));
        }
    }
    if matches!(last_activity, LastActivity::Unnoted(_)) {
        let not_begun = shares.iter_mut().filter(|share| chunks[share.chunk].attempts.is_suspect());
        not_begun.for_each(|share| share.blame = Verdict::Innocent);
    }
    shares.retain(|share| !share.places.is_empty());
    shares
}

impl<K> TaskTable<K> {
    /// Raises the number of deaths to at least `deaths`, so that later deaths get higher numbers.
    pub(crate) fn count_deaths_from(&mut self, deaths: u32) {
        self.deaths.last = self.deaths.last.max(deaths);
    }

    /// Assesses the loss of a rank that held `chunks`. Returns its tasks with their new attempts. The tasks have to be [put
    /// back](TaskTable::put_back) before [`clear_suspects`](TaskTable::clear_suspects) is called.
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

    /// Clears the suspicion of tasks that were last suspected of a death that the last death explains. Requeued tasks avoid rank 0
    /// nevertheless, as long as other ranks can run them.
    pub(crate) fn clear_suspects(&mut self) {
        let explained = std::mem::take(&mut self.deaths.explained);
        for pending in &mut self.back {
            if pending.attempts.clear(&explained) {
                pending.avoid = Some(0);
            }
        }
        for given in self.given.values_mut() {
            given.attempts.clear(&explained);
        }
    }
}

#[cfg(test)]
#[path = "suspects_tests.rs"]
mod tests;
