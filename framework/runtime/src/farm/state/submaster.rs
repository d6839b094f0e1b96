//! State of a sub-master, which is a worker of the master, and the master of a group of workers, the *members*.
//!
//! Chunks and results are forwarded unchanged and not inspected. `K` is the content of a chunk, `R` a result.

use std::collections::{BTreeMap, VecDeque};

use super::super::messages::ChunkHeader;
use super::worker_table::{WorkerState, WorkerTable};

/// A sub-master sends collected results to the master as soon as it has one result for each `PER_BUNDLE` active members, or at once if a member is
/// idle.
const PER_BUNDLE: usize = 8;

#[derive(Debug)]
pub(crate) struct SubmasterState<K, R> {
    workers: WorkerTable,
    members: Vec<usize>,
    stock: VecDeque<(ChunkHeader, K)>,
    outstanding: BTreeMap<u64, (usize, ChunkHeader, K)>,
    results: Vec<R>,
    ahead: u32,
}

impl<K: Clone, R> SubmasterState<K, R> {
    pub(crate) fn new(size: usize, members: Vec<usize>) -> Self {
        let mut workers = WorkerTable::new(size);
        (0..size)
            .filter(|rank| !members.contains(rank))
            .for_each(|rank| workers.set(rank, WorkerState::Left));
        let (stock, outstanding, results) = (VecDeque::new(), BTreeMap::new(), Vec::new());
        SubmasterState { workers, members, stock, outstanding, results, ahead: 0 }
    }

    pub(crate) fn workers(&self) -> &WorkerTable {
        &self.workers
    }

    pub(crate) fn members(&self) -> &[usize] {
        &self.members
    }

    pub(crate) fn joined(&mut self, member: usize) {
        if self.workers.state_of(member) == WorkerState::Expected {
            self.workers.set(member, WorkerState::Active);
        }
    }

    pub(crate) fn set_limits(&mut self, ahead: u32, most_tasks: u32) {
        self.ahead = ahead;
        self.workers.set_most_tasks(most_tasks);
    }

    pub(crate) fn take(&mut self, header: ChunkHeader, kept: K) {
        self.stock.push_back((header, kept));
    }

    pub(crate) fn dispatch(&mut self) -> Option<(usize, ChunkHeader, K)> {
        // A chunk whose rank must hold no other chunk is sent to a member without chunks. All later chunks wait until there is such a member.
        let alone = self.stock.front()?.0.alone;
        let member = self.workers.next_requesting(if alone { 0.0 } else { self.ahead.into() })?;
        let (header, kept) = self.stock.pop_front()?;
        self.outstanding.insert(header.id, (member, header, kept.clone()));
        self.workers.dispatched(member, header.count);
        if alone {
            self.workers.make_exclusive(member);
        }
        Some((member, header, kept))
    }

    pub(crate) fn somebody_is_idle(&self) -> bool {
        self.workers.next_requesting(0.0).is_some()
    }

    /// Records results of the next `count` tasks of the chunk `id`. Returns false and drops the results if `member` no longer holds
    /// the chunk.
    pub(crate) fn done(&mut self, member: usize, (id, count): (u64, u32), result: R) -> bool {
        let Some((_, header, _)) =
            self.outstanding.get_mut(&id).filter(|outstanding| outstanding.0 == member)
        else {
            return false;
        };
        if count < header.count {
            header.first += u64::from(count);
            header.count -= count;
            header.skip += count;
            self.workers.received(member, count, 0);
        } else {
            let count = header.count;
            self.outstanding.remove(&id);
            self.workers.received(member, count, 1);
        }
        self.results.push(result);
        true
    }

    /// Returns true if the collected results have to be sent to the master: there are enough of them, or a member is idle and there
    /// is no chunk for it.
    pub(crate) fn is_due(&self) -> bool {
        let enough = (self.workers.working() / PER_BUNDLE).max(1);
        self.results.len() >= enough
            || (!self.results.is_empty() && self.stock.is_empty() && self.somebody_is_idle())
    }

    pub(crate) fn deliver(&mut self) -> Vec<R> {
        std::mem::take(&mut self.results)
    }

    /// Handles a member that has fallen silent, although it may be alive. The member gets no chunks until it sends a message. Its chunks are the next
    /// to be sent to other members, with the mark that their tasks may take long.
    pub(crate) fn doubt(&mut self, member: usize) {
        self.workers.set(member, WorkerState::Suspected);
        for (header, kept) in self.chunks_of(member).into_iter().rev() {
            self.stock.push_front((ChunkHeader { suspect: true, ..header }, kept));
        }
    }

    /// Records the death of a member. Returns its chunks, in the order in which they were sent to it. The master needs them to find the task of which
    /// the member died.
    pub(crate) fn lose(&mut self, member: usize) -> Vec<ChunkHeader> {
        self.workers.set(member, WorkerState::Dead);
        self.chunks_of(member).into_iter().map(|(header, _)| header).collect()
    }

    fn chunks_of(&mut self, member: usize) -> Vec<(ChunkHeader, K)> {
        let ids: Vec<u64> =
            self.outstanding.iter().filter(|(_, g)| g.0 == member).map(|(id, _)| *id).collect();
        ids.iter()
            .filter_map(|id| self.outstanding.remove(id))
            .map(|(_, header, kept)| (header, kept))
            .collect()
    }

    /// Records a message from a member. A member that had stopped sending messages gets chunks again.
    pub(crate) fn readmit(&mut self, rank: usize) {
        if self.workers.state_of(rank) == WorkerState::Suspected {
            self.workers.set(rank, WorkerState::Active);
        }
    }

    /// Returns the number of chunks that the sub-master or its members hold, plus the number of results not yet sent to the master.
    pub(crate) fn holds(&self) -> usize {
        self.stock.len() + self.outstanding.len() + self.results.len()
    }

    pub(crate) fn is_deserted(&self) -> bool {
        self.members.iter().all(|&rank| self.workers.state_of(rank) == WorkerState::Dead)
    }
}

#[cfg(test)]
#[path = "submaster_tests.rs"]
mod tests;
