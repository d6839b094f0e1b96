//! Time limit of the job: a task is dispatched only if it can end before the limit, according to its description and to the run times of completed
//! tasks.

use std::time::Duration;

use super::time_left::{TimeLeft, Times};
use super::{Master, State};
use crate::observe::number_format::seconds;

impl Master {
    pub(in crate::workflow) fn ends_by(&mut self, end_by: Duration, now: Duration) {
        let times = vec![Times::default(); self.graph.kinds.len()];
        self.time_left = Some(TimeLeft { end_by, now, times, held_back: Vec::new() });
    }

    /// Sets the present time. If no task runs and each waiting task needs more than the remaining time, so that the run cannot continue, returns a
    /// text about the shortest of these tasks; otherwise `None`.
    pub(in crate::workflow) fn check_time(&mut self, now: Duration) -> Option<String> {
        let time = self.time_left.as_mut()?;
        time.now = now;
        let is_idle = self.ranks.iter().all(|rank| rank.is_lost || rank.outstanding.is_empty());
        if self.is_stopping || !is_idle || self.left == 0 {
            return None;
        }
        let needs = |&task: &usize| self.run_time(task);
        let held_back = self.time_left.iter().flat_map(|time| &time.held_back);
        let waiting = held_back.filter(|&&task| self.tasks[task].state == State::Waiting);
        let least = waiting.filter_map(|task| Some((needs(task)?, *task))).min_by(|a, b| a.0.total_cmp(&b.0));
        let (needs, task) = least?;
        let (needs, left) = (seconds(needs), seconds(self.seconds_left()?));
        Some(format!("task {:?} needs about {needs}, and {left} are left", self.graph.dag.name(task)))
    }

    fn seconds_left(&self) -> Option<f64> {
        let time = self.time_left.as_ref()?;
        Some(time.end_by.saturating_sub(time.now).as_secs_f64())
    }

    pub(super) fn count_time(&mut self, task: usize, took: Duration) {
        let described = self.graph.run_time(task);
        if let Some(time) = &mut self.time_left {
            let times = &mut time.times[self.graph.kind_of[task]];
            times.measured += took.as_secs_f64();
            times.described += described.unwrap_or(0.0);
            times.tasks += 1.0;
        }
    }

    /// Returns the estimated run time of a task in seconds, if there is an estimate: the run time in its description, corrected by the completed
    /// tasks of its kind, or the mean run time of those.
    fn run_time(&self, task: usize) -> Option<f64> {
        let times = self.time_left.as_ref()?.times[self.graph.kind_of[task]];
        match self.graph.run_time(task) {
            Some(described) if times.described > 0.0 => Some(described * times.measured / times.described),
            Some(described) if times.tasks == 0.0 => Some(described),
            _ => (times.tasks > 0.0).then(|| times.measured / times.tasks),
        }
    }

    /// Returns true if a task needs more than the remaining time. Such a task is not dispatched now; it is checked again when measured run times have
    /// changed the estimate.
    pub(super) fn is_too_long(&mut self, task: usize) -> bool {
        let (needs, left) = (self.run_time(task), self.seconds_left());
        let is_too_long = needs.is_some_and(|needs| left.is_some_and(|left| needs > left));
        if let Some(time) = self.time_left.as_mut().filter(|_| is_too_long) {
            time.held_back.push(task);
        }
        is_too_long
    }

    /// Returns true if a task cannot end in the remaining time because other tasks dispatched to the rank run before it.
    pub(super) fn is_too_late_on(&self, rank: usize, task: usize) -> bool {
        let (Some(left), Some(needs)) = (self.seconds_left(), self.run_time(task)) else { return false };
        let ordered =
            self.ranks[rank].outstanding.iter().filter_map(|&task| self.run_time(task)).sum::<f64>();
        let before = if self.ranks[rank].outstanding.len() < self.at_once { 0.0 } else { ordered };
        before / self.at_once as f64 + needs > left
    }

    /// Reconsiders the tasks that were not dispatched because they needed more than the remaining time: the estimates of their run times may have
    /// changed.
    pub(super) fn consider_held_back(&mut self) {
        let held_back = self.time_left.as_mut().map(|time| std::mem::take(&mut time.held_back));
        held_back.into_iter().flatten().for_each(|task| self.consider(task));
    }
}

#[cfg(test)]
#[path = "time_limit_tests.rs"]
mod tests;
