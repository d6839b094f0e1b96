//! Tasks that may have caused the death of a rank, and their reassignment.
//!
//! A death counts as an attempt of the task in which the rank was. If that task is not known, all candidates are *suspects*. Suspects are
//! dispatched one at a time, to ranks that hold no other chunk, so that the next death identifies the task. Rank 0 runs no suspects,
//! because its death ends the job.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{OutstandingChunk, Suspicion, TaskTable};
use crate::rank::suspicion::Verdict;

/// Maximum number of suspects of one death that are dispatched one by one. More suspects are divided into this number of chunks, at the
/// price of another death. A chunk of one task costs a round trip of about 100 µs, so all chunks together cost about half a second.
const SINGLED_OUT: u32 = 4096;

/// Last known activity of a lost rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LastActivity {
    /// The rank lives, or its death is not related to the tasks that it held.
    Innocent,
    /// The rank was in this task, which its last heartbeat named, or in a later one. If no task is named, the rank may have been in any of
    /// its tasks.
    Behind(Option<u64>),
    /// The rank was in this chunk, and in this task of the chunk if the task is known.
    Chunk { id: u64, task: Option<u64> },
    /// Like `Behind`, for a rank whose trail names no chunk. The rank had begun no suspect, because the trail names a suspect before it begins.
    Unnoted(Option<u64>),
}

/// Tasks of one chunk of a dead rank that have the same verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Index of the chunk in the list of the rank's chunks.
    chunk: usize,
    /// Positions of the tasks in the chunk.
    places: Range<u32>,
    blame: Verdict,
}

/// Tasks of a lost rank that are requeued with the same attempts and suspicion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reassigned {
    /// Index of the chunk in the list of the rank's chunks.
    pub(crate) chunk: usize,
    /// Positions of the tasks in the chunk.
    pub(crate) places: Range<u32>,
    /// True if the rank may have died of the tasks.
    pub(crate) blamed: bool,
    /// Number of attempts so far.
    pub(crate) attempt: u32,
    pub(crate) suspicion: Suspicion,
}

/// Returns the verdicts of a rank's death on the tasks of its chunks, which are in the order of dispatch and of execution.
pub(super) fn blame<K>(chunks: &[OutstandingChunk<K>], last_activity: LastActivity) -> Vec<Share> {
    let whole = |chunk: usize, blame| Share { chunk, places: 0..chunks[chunk].count, blame };
    let place = |chunk: &OutstandingChunk<K>, task: u64| {
        let place = task.checked_sub(chunk.first).and_then(|place| u32::try_from(place).ok());
        place.filter(|&place| place < chunk.count)
    };
    // First chunk in which the rank may have been, first position in that chunk, and true if the rank may also have been in later chunks.
    let (at, from, later) = match last_activity {
        LastActivity::Innocent => (chunks.len(), 0, false),
        LastActivity::Chunk { id, task } => {
            let at = chunks.iter().position(|chunk| chunk.id == id).unwrap_or(chunks.len());
            let exact = chunks.get(at).and_then(|chunk| place(chunk, task?));
            if let Some(place) = exact {
                return exactly(chunks, at, place);
            }
            (at, 0, false)
        }
        LastActivity::Behind(task) | LastActivity::Unnoted(task) => {
            let named = |chunk: &OutstandingChunk<K>| task.and_then(|task| place(chunk, task));
            let at = chunks.iter().position(|chunk| named(chunk).is_some()).unwrap_or(0);
            (at, chunks.get(at).and_then(named).unwrap_or(0), true)
        }
    };
    let mut shares = Vec::with_capacity(chunks.len() + 1);
    for (n, chunk) in chunks.iter().enumerate() {
        if n < at || (n > at && !later) {
            shares.push(whole(n, Verdict::Innocent));
        } else if n > at {
            shares.push(whole(n, Verdict::Suspect(chunk.count.max(1))));
        } else {
            let suspects = chunk.count - from;
            let last = !later || n + 1 == chunks.len();
            let blame = match suspects {
                1 if last => Verdict::Guilty,
                _ => Verdict::Suspect(suspects.div_ceil(SINGLED_OUT).max(1)),
            };
            shares.push(Share { chunk: n, places: 0..from, blame: Verdict::Innocent });
            shares.push(Share { chunk: n, places: from..chunk.count, blame });
        }
    }
    if matches!(last_activity, LastActivity::Unnoted(_)) {
        let not_begun = shares.iter_mut().filter(|share| chunks[share.chunk].suspicion.is_there());
        not_begun.for_each(|share| share.blame = Verdict::Innocent);
    }
    shares.retain(|share| !share.places.is_empty());
    shares
}

/// Returns the verdicts if the rank was in the task at `place` of chunk `at`.
fn exactly<K>(chunks: &[OutstandingChunk<K>], at: usize, place: u32) -> Vec<Share> {
    let mut shares = Vec::with_capacity(chunks.len() + 2);
    for (chunk, given) in chunks.iter().enumerate() {
        let mut add = |places, blame| shares.push(Share { chunk, places, blame });
        if chunk == at {
            add(0..place, Verdict::Innocent);
            add(place..place + 1, Verdict::Guilty);
            add(place + 1..given.count, Verdict::Innocent);
        } else {
            add(0..given.count, Verdict::Innocent);
        }
    }
    shares.retain(|share| !share.places.is_empty());
    shares
}

impl<K> TaskTable<K> {
    /// Raises the number of deaths to at least `deaths`, so that later deaths get higher numbers.
    pub(crate) fn count_deaths_from(&mut self, deaths: u32) {
        self.deaths = self.deaths.max(deaths);
    }

    /// Assesses the loss of a rank that held `chunks`. Returns its tasks, which have to be [put back](TaskTable::put_back), and the numbers
    /// of the earlier deaths that this death explains, for [`clear_suspects`](TaskTable::clear_suspects).
    pub(crate) fn assess_death(
        &mut self,
        chunks: &[OutstandingChunk<K>],
        last_activity: LastActivity,
    ) -> (Vec<Reassigned>, Vec<u32>) {
        let (mut reassigned, mut explained) = (Vec::new(), Vec::new());
        self.deaths += u32::from(last_activity != LastActivity::Innocent);
        for Share { chunk, places, blame } in blame(chunks, last_activity) {
            let (attempt, was) = (chunks[chunk].attempt, chunks[chunk].suspicion);
            let blamed = blame != Verdict::Innocent;
            if blamed && was.shared > 0 {
                explained.push(was.death);
            }
            let (attempt, suspicion) = blame.after(attempt, was, self.deaths);
            reassigned.push(Reassigned { chunk, places, blamed, attempt, suspicion });
        }
        (reassigned, explained)
    }

    /// Clears the suspicion of tasks that were last suspected of a death in `deaths`, because another task has caused the death. Requeued tasks avoid
    /// rank 0 nevertheless, as long as other ranks can run them.
    pub(crate) fn clear_suspects(&mut self, deaths: &[u32]) {
        let was_it = |s: &Suspicion| s.shared > 0 && deaths.contains(&s.death);
        for pending in self.back.iter_mut().filter(|pending| was_it(&pending.suspicion)) {
            pending.suspicion = pending.suspicion.without_shared();
            pending.avoid = Some(0);
        }
        for given in self.given.values_mut().filter(|given| was_it(&given.suspicion)) {
            given.suspicion = given.suspicion.without_shared();
        }
    }
}

#[cfg(test)]
#[path = "suspects_tests.rs"]
mod tests;
