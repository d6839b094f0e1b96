//! Changes of the master's state when ranks are lost or return.

use super::super::failure_detector::Loss;
use super::{LastActivity, MasterState, Sent, Share, WorkerState};
use crate::tasks::{Attempts, Blame};

impl MasterState {
    pub(crate) fn take_chunks_of(&mut self, rank: usize, state: WorkerState) -> Vec<Sent> {
        let chunks = self.tasks.lose(rank, state);
        self.release_window(&chunks);
        self.sizes.leave(rank);
        if state != WorkerState::Suspected {
            self.lost.push(rank);
        }
        chunks
    }

    /// Records that the sub-master `leader` has lost `member`, which held the chunks with the numbers `ids`. Returns the chunks, and true
    /// if `member` was a member of `leader`.
    pub(crate) fn lose_member(&mut self, leader: usize, member: usize, ids: &[u64]) -> (Vec<Sent>, bool) {
        let chunks = self.tasks.lose_member(leader, ids);
        self.release_window(&chunks);
        let was_led = self.groups.lose_member(self.tasks.workers_mut(), (leader, member), self.ending);
        (chunks, was_led)
    }

    /// Ends the role of a sub-master that has no members left. Returns its chunks, or `None` if the rank was no sub-master.
    pub(crate) fn retire(&mut self, leader: usize) -> Option<Vec<Sent>> {
        if !self.groups.is_leader(leader) {
            return None;
        }
        let chunks = self.tasks.lose(leader, WorkerState::Expected);
        self.release_window(&chunks);
        self.groups.retire(self.tasks.workers_mut(), leader);
        Some(chunks)
    }

    fn release_window(&mut self, chunks: &[Sent]) {
        chunks.iter().for_each(|outstanding| self.window_returns(outstanding));
    }

    pub(crate) fn assess_loss(
        &mut self,
        loss: &Loss,
        chunks: &[Sent],
        last_activity: LastActivity,
    ) -> Vec<(Attempts, Share)> {
        let reassigned = self.tasks.assess_death(chunks, last_activity);
        for (_, Share { chunk, places, blame }) in &reassigned {
            let first = chunks[*chunk].first;
            let tasks = first + u64::from(places.start)..first + u64::from(places.end);
            self.deaths.record(loss, tasks, *blame != Blame::Innocent);
        }
        reassigned
    }

    /// Makes a rank that had stopped sending messages active again. Returns true if the rank counted as possibly dead.
    pub(crate) fn readmit(&mut self, rank: usize) -> bool {
        if self.workers().state_of(rank) != WorkerState::Suspected {
            return false;
        }
        self.tasks.workers_mut().set(rank, WorkerState::Active);
        if !self.groups.is_leader(rank) {
            self.sizes.join(rank);
        }
        true
    }

    /// Returns true if a rank is left that runs tasks or may run some, or if the run ends and therefore needs no rank.
    pub(crate) fn somebody_is_left(&self) -> bool {
        let can = |r: usize| {
            let state = self.workers().state_of(r);
            matches!(
                state,
                WorkerState::Active | WorkerState::Parked | WorkerState::Expected | WorkerState::Suspected
            )
        };
        self.ending || (usize::from(!self.computes)..self.reports.len()).any(can)
    }
}
