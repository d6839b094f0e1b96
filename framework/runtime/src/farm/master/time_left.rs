//! Time limit of the job: rank 0 does not dispatch a task if, judged by the times of earlier tasks, it cannot end before the limit.

use std::time::Duration;

use super::super::state::WorkerState;
use super::super::task_source::Source;
use super::MasterRank;
use crate::observe::number_format::seconds;
use crate::rank::protocol::Outgoing;

impl MasterRank {
    /// Returns the time left for tasks; `None` if the job has no time limit, or if the farm has no journal, because then no later job
    /// could continue the run.
    fn time_left(&self) -> Option<Duration> {
        let end = self.tasks_end_by.filter(|_| self.options.journal.is_some())?;
        Some(end.saturating_sub(self.clock.now()))
    }

    /// Returns the number of tasks that `worker` can complete before the time limit of the job, after those that it holds. The time
    /// of a task is that on the worker `sized_for`, a member of `worker` if that is a sub-master.
    pub(super) fn most_in_time(&self, worker: usize, sized_for: usize) -> u64 {
        let Some(left) = self.time_left() else { return u64::MAX };
        let Some(each) = self.state.task_times.estimate(sized_for) else { return u64::MAX };
        let (fits, out) = ((left.as_secs_f64() / each) as u64, self.state.tasks.out());
        // If the time left suffices for many more tasks than all workers hold, the tasks of all workers are subtracted, because
        // counting those of `worker` takes longer.
        let held = match fits / 2 >= out {
            true => out,
            false => self.state.tasks.tasks_of(worker) / self.state.workers().span(worker) as u64,
        };
        fits.saturating_sub(held)
    }

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
        let shortest = active.filter_map(|rank| self.state.task_times.estimate(rank)).min_by(f64::total_cmp);
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
