//! What a sub-master knows and decides: a worker to its master, a master to its own workers, the *members*.
//!
//! It hands chunks on as they came and results back as they came; it looks into neither. `K` is what travels of a chunk,
//! `R` of a result.

use std::collections::{BTreeMap, VecDeque};

use super::super::messages::ChunkHeader;
use super::worker_table::{WorkerState, WorkerTable};

/// Results wait until they are this part of the members, unless somebody has nothing to do.
const PER_BUNDLE: usize = 8;

/// See the module's page.
#[derive(Debug)]
pub(crate) struct SubmasterState<K, R> {
    workers: WorkerTable,
    members: Vec<usize>,
    /// Chunks that no member has, in the order in which they are to be given.
    stock: VecDeque<(ChunkHeader, K)>,
    given: BTreeMap<u64, (usize, ChunkHeader, K)>,
    /// Results for the master.
    results: Vec<R>,
    /// Chunks that a member may hold beyond the one that it computes.
    ahead: u32,
}

impl<K: Clone, R> SubmasterState<K, R> {
    /// A sub-master among `size` ranks; its members have not come yet.
    pub(crate) fn new(size: usize, members: Vec<usize>) -> Self {
        let mut workers = WorkerTable::new(size);
        (0..size)
            .filter(|rank| !members.contains(rank))
            .for_each(|rank| workers.set(rank, WorkerState::Left));
        let (stock, given, results) = (VecDeque::new(), BTreeMap::new(), Vec::new());
        SubmasterState { workers, members, stock, given, results, ahead: 0 }
    }

    pub(crate) fn workers(&self) -> &WorkerTable {
        &self.workers
    }

    /// The members, also those that are lost.
    pub(crate) fn members(&self) -> &[usize] {
        &self.members
    }

    /// A member has come.
    pub(crate) fn joined(&mut self, member: usize) {
        if self.workers.state_of(member) == WorkerState::Expected {
            self.workers.set(member, WorkerState::Active);
        }
    }

    /// The master says how many chunks members may hold ahead.
    pub(crate) fn set_ahead(&mut self, ahead: u32) {
        self.ahead = ahead;
    }

    /// A chunk has come from the master.
    pub(crate) fn take(&mut self, header: ChunkHeader, kept: K) {
        self.stock.push_back((header, kept));
    }

    /// The next chunk that is to be sent, and to whom.
    pub(crate) fn give(&mut self) -> Option<(usize, ChunkHeader, K)> {
        // One that is to be done alone waits for a member that has nothing, and the others behind it.
        let alone = self.stock.front()?.0.alone;
        let member = self.workers.next_requesting(if alone { 0 } else { self.ahead })?;
        let (header, kept) = self.stock.pop_front()?;
        self.given.insert(header.id, (member, header, kept.clone()));
        self.workers.gave(member);
        if alone {
            self.workers.make_exclusive(member);
        }
        Some((member, header, kept))
    }

    /// Whether a member has nothing to do.
    pub(crate) fn somebody_is_idle(&self) -> bool {
        self.workers.next_requesting(0).is_some()
    }

    /// A result of the next `count` tasks of chunk `id` has come. False: the chunk is not `member`'s any more, and the result is
    /// dropped.
    pub(crate) fn done(&mut self, member: usize, (id, count): (u64, u32), result: R) -> bool {
        let Some((_, header, _)) = self.given.get_mut(&id).filter(|given| given.0 == member) else {
            return false;
        };
        if count < header.count {
            header.first += u64::from(count);
            header.count -= count;
            header.skip += count;
        } else {
            self.given.remove(&id);
            self.workers.got(member);
        }
        self.results.push(result);
        true
    }

    /// Whether results are to be sent: enough have come, or a member has nothing to do and there is nothing for it.
    pub(crate) fn is_due(&self) -> bool {
        let enough = (self.workers.working() / PER_BUNDLE).max(1);
        self.results.len() >= enough
            || (!self.results.is_empty() && self.stock.is_empty() && self.somebody_is_idle())
    }

    /// The results, which are to be sent now.
    pub(crate) fn deliver(&mut self) -> Vec<R> {
        std::mem::take(&mut self.results)
    }

    /// A member is not used until it is heard again, although it is not certain that it is dead: its chunks go to
    /// others, before all new ones. It has fallen silent over them, so they are to be done with care.
    pub(crate) fn doubt(&mut self, member: usize) {
        self.workers.set(member, WorkerState::Suspected);
        for (header, kept) in self.chunks_of(member).into_iter().rev() {
            self.stock.push_front((ChunkHeader { suspect: true, ..header }, kept));
        }
    }

    /// A member is dead. Returns the chunks that it had, in the order in which they were given to it: the master says what
    /// becomes of them, since it may have died of one.
    pub(crate) fn lose(&mut self, member: usize) -> Vec<ChunkHeader> {
        self.workers.set(member, WorkerState::Dead);
        self.chunks_of(member).into_iter().map(|(header, _)| header).collect()
    }

    fn chunks_of(&mut self, member: usize) -> Vec<(ChunkHeader, K)> {
        let ids: Vec<u64> = self.given.iter().filter(|(_, g)| g.0 == member).map(|(id, _)| *id).collect();
        ids.iter().filter_map(|id| self.given.remove(id)).map(|(_, header, kept)| (header, kept)).collect()
    }

    /// Something has come from a rank. A member that was silent takes part again.
    pub(crate) fn heard(&mut self, rank: usize) {
        if self.workers.state_of(rank) == WorkerState::Suspected {
            self.workers.set(rank, WorkerState::Active);
        }
    }

    /// Chunks that are here or at members, and results that were not sent.
    pub(crate) fn holds(&self) -> usize {
        self.stock.len() + self.given.len() + self.results.len()
    }

    /// Whether nobody is left, nor will come.
    pub(crate) fn is_deserted(&self) -> bool {
        self.members.iter().all(|&rank| self.workers.state_of(rank) == WorkerState::Dead)
    }
}

#[cfg(test)]
#[path = "submaster_tests.rs"]
mod tests;
