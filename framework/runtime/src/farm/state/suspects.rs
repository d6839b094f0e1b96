//! Which tasks a dead rank may have died of, and what becomes of them.
//!
//! A death counts as an attempt of the task that the rank was in. Where nobody knows which one that was, all tasks that it
//! may have been are *suspects*: they are handed out one at a time, to ranks that have nothing else, so that the next death
//! tells. Rank 0 does no suspects, since its death would be the job's.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{OutstandingChunk, Suspicion, TaskTable};
use crate::rank::suspicion::Verdict;

/// Suspects of one death that are handed out one by one; more of them go in this number of chunks, at the price of another
/// death. A chunk of one costs a round trip, some 100 µs, so this is about half a second.
const SINGLED_OUT: u32 = 4096;

/// What is known of a dead rank's last moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LastActivity {
    /// It lives, or its death has nothing to do with what it had.
    Innocent,
    /// It was in this task, which its last sign of life named, or behind it.
    Behind(Option<u64>),
    /// It was in this chunk, and in this task of it where that is known.
    Chunk { id: u64, task: Option<u64> },
}

/// Tasks of one chunk of a dead rank about which its death says the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Which of the chunks.
    chunk: usize,
    /// Which of its tasks.
    places: Range<u32>,
    blame: Verdict,
}

/// What becomes of some tasks of a lost rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reassigned {
    /// Which of the chunks that it had.
    pub(crate) chunk: usize,
    /// Which tasks of it.
    pub(crate) places: Range<u32>,
    /// Whether the rank may have died of them.
    pub(crate) blamed: bool,
    /// How often they have been tried by now.
    pub(crate) attempt: u32,
    pub(crate) suspicion: Suspicion,
}

/// What the death of a rank says about the tasks of the chunks that it had, which are in the order in which they were
/// given to it, and done by it.
pub(super) fn blame<K>(chunks: &[OutstandingChunk<K>], last_activity: LastActivity) -> Vec<Share> {
    let whole = |chunk: usize, blame| Share { chunk, places: 0..chunks[chunk].count, blame };
    let place = |chunk: &OutstandingChunk<K>, task: u64| {
        let place = task.checked_sub(chunk.first).and_then(|place| u32::try_from(place).ok());
        place.filter(|&place| place < chunk.count)
    };
    // The first chunk that it may have been in, where in it, and whether later ones may have been it.
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
        LastActivity::Behind(task) => {
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
    shares.retain(|share| !share.places.is_empty());
    shares
}

/// The rank was in the task at `place` of chunk `at`.
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

impl<T, K> TaskTable<T, K> {
    /// The numbers of deaths so far are these at most.
    pub(crate) fn count_deaths_from(&mut self, deaths: u32) {
        self.deaths = self.deaths.max(deaths);
    }

    /// A rank is lost that had these chunks: says what becomes of their tasks, which are to be
    /// [put back](TaskTable::put_back), and which earlier deaths are explained by this one; see
    /// [`clear_suspects`](TaskTable::clear_suspects).
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

    /// Whoever was suspected of these deaths, and of no other since, is not any more: it was another task. Rank 0 leaves
    /// them to others all the same, as long as there are some.
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
