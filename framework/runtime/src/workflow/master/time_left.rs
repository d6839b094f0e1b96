//! Remaining time for the tasks of a workflow, if the job has a time limit, and measured run times of tasks.

use std::time::Duration;

/// Sums of the run times in seconds of completed tasks, for one kind of task.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) measured: f64,
    /// Sum of the run times that the description states for the same tasks.
    pub(super) described: f64,
    pub(super) tasks: f64,
}

#[derive(Debug)]
pub(super) struct TimeLeft {
    /// Time by which tasks have to end, on the clock of rank 0.
    pub(super) end_by: Duration,
    pub(super) now: Duration,
    pub(super) times: Vec<Times>,
    /// Tasks that were not dispatched because they cannot end in the remaining time.
    pub(super) held_back: Vec<usize>,
}
