//! Time limit of the job: no task is dispatched that cannot end before the limit, by the times of earlier tasks.

use std::time::Duration;

use super::super::state::WorkerState;
use super::super::task_source::Source;
use super::MasterRank;
use crate::observe::number_format::seconds;
use crate::rank::protocol::Outgoing;

impl MasterRank {
    /// Returns the time left for tasks, if the job has a time limit and the farm has a journal, with which another job continues.
    fn time_left(&self) -> Option<Duration> {
        let end = self.tasks_end_by.filter(|_| self.options.journal.is_some())?;
        Some(end.saturating_sub(self.clock.now()))
    }

    /// Returns the maximum number of tasks that `worker` may receive now, in a chunk that is sized for the worker `sized_for`: as many as it can
    /// complete in the time left, after the tasks that it holds.
    pub(super) fn most_in_time(&self, worker: usize, sized_for: usize) -> u64 {
        let Some(left) = self.time_left() else { return u64::MAX };
        let Some(each) = self.state.pace.estimate(sized_for) else { return u64::MAX };
        // The quotient is infinite if tasks take no time; the conversion saturates.
        let (fits, out) = ((left.as_secs_f64() / each) as u64, self.state.tasks.out());
        // Far from the time limit, all outstanding tasks are subtracted: counting those of the worker would take more time.
        let held = match fits / 2 >= out {
            true => out,
            false => self.state.tasks.tasks_of(worker) / self.state.workers().span(worker) as u64,
        };
        fits.saturating_sub(held)
    }

    /// Returns true if the job has a time limit, so that a worker may get no tasks although there are some.
    pub(super) fn has_time_limit(&self) -> bool {
        self.tasks_end_by.is_some()
    }

    /// Asks the job to stop if tasks remain and no worker can complete one of them in the time left.
    pub(super) fn stop_if_out_of_time(&mut self, source: &dyn Source, out: &mut Outgoing<'_>) {
        let Some(left) = self.time_left() else { return };
        let is_empty = source.has_ended() || source.left() == (0, true);
        if self.stop_requested || (is_empty && self.state.tasks.waiting() == 0) {
            return;
        }
        let workers = self.state.workers();
        let active = (0..workers.size()).filter(|&rank| workers.state_of(rank) == WorkerState::Active);
        let shortest = active.filter_map(|rank| self.state.pace.estimate(rank)).min_by(f64::total_cmp);
        let Some(shortest) = shortest.filter(|&each| each > left.as_secs_f64()) else { return };
        let (needs, left) = (seconds(shortest), seconds(left.as_secs_f64()));
        let why = format!(
            "a task of the farm {:?}, such as task {}, needs about {needs}, and {left} are left",
            self.name,
            source.taken()
        );
        out.endpoint().stop_for_time_limit(&why);
        self.stop_requested = true;
    }
}
