//! Time left for the tasks of a workflow, and the measured times of tasks.

use std::time::Duration;

/// Run times of the completed tasks of a kind, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) measured: f64,
    /// Sum of the times in the description of the tasks that have one.
    pub(super) described: f64,
    pub(super) tasks: f64,
}

/// Time left for tasks.
#[derive(Debug)]
pub(super) struct TimeLeft {
    /// Time by which tasks have to end, on the clock of rank 0.
    pub(super) end_by: Duration,
    pub(super) now: Duration,
    /// By kind of task.
    pub(super) times: Vec<Times>,
    /// Tasks that cannot end in the time left.
    pub(super) held_back: Vec<usize>,
}
