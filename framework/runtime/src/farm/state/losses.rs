//! The master's state when ranks are lost, or come back.

use super::super::failure_detector::Loss;
use super::super::outcome::FailedTask;
use super::{LastActivity, MasterState, PendingTasks, Reassigned, Sent, WorkerState};

impl<I, O> MasterState<I, O> {
    /// `rank` has this `state` from now on, in which it does no tasks. Returns the chunks that it had.
    pub(crate) fn let_go(&mut self, rank: usize, state: WorkerState) -> Vec<Sent> {
        let chunks = self.tasks.lose(rank, state);
        self.are_back(&chunks);
        self.sizes.leave(rank);
        if state != WorkerState::Suspected {
            self.lost.push(rank);
        }
        chunks
    }

    /// A sub-master has lost `member`, which had the chunks with these numbers. Returns the chunks, and whether it was a
    /// member.
    pub(crate) fn lose_member(&mut self, leader: usize, member: usize, ids: &[u64]) -> (Vec<Sent>, bool) {
        let chunks = self.tasks.lose_member(leader, ids);
        self.are_back(&chunks);
        let was_led = self.groups.lose_member(self.tasks.workers_mut(), (leader, member), self.ending);
        (chunks, was_led)
    }

    /// A sub-master has no members left. Returns the chunks that it had; `None` if it was none.
    pub(crate) fn retire(&mut self, leader: usize) -> Option<Vec<Sent>> {
        if !self.groups.is_leader(leader) {
            return None;
        }
        let chunks = self.tasks.lose(leader, WorkerState::Expected);
        self.are_back(&chunks);
        self.groups.retire(self.tasks.workers_mut(), leader);
        Some(chunks)
    }

    /// Nobody has these chunks any more.
    fn are_back(&mut self, chunks: &[Sent]) {
        chunks.iter().for_each(|given| self.window.returned(given.kept.payload.len()));
    }

    /// What becomes of the tasks in the chunks of a lost rank. Tasks that it may have died of are remembered.
    pub(crate) fn assess_loss(
        &mut self,
        loss: &Loss,
        chunks: &[Sent],
        last_activity: LastActivity,
    ) -> (Vec<Reassigned>, Vec<u32>) {
        let (reassigned, explained) = self.tasks.assess_death(chunks, last_activity);
        for Reassigned { chunk, places, blamed, .. } in &reassigned {
            let first = chunks[*chunk].first;
            let tasks = first + u64::from(places.start)..first + u64::from(places.end);
            self.deaths.record(loss, tasks, *blamed);
        }
        (reassigned, explained)
    }

    /// The first of some tasks that ranks have died over and nobody may try any more, as a failed one; whether it has had all
    /// its attempts.
    pub(crate) fn death_of(&self, pending: &PendingTasks<I>) -> (FailedTask, bool) {
        let exhausted = pending.suspicion.certain > 0 && self.tasks.is_exhausted(pending.attempt);
        (self.deaths.failure(pending.first, pending.attempt, pending.suspicion, exhausted), exhausted)
    }

    /// A rank that was silent takes part again. Returns whether it was.
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

    /// Whether a rank is left that does tasks, or may do some.
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
