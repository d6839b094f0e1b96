//! Times and sizes that are measured in one call of user code: of the source, of consecutive stages, or of the sink.

use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub(crate) struct JobCost {
    /// Duration of the call of user code; an estimate if this call was not timed.
    pub(crate) took: Duration,
    /// Time of each stage, if the stages were timed separately in this call of user code; otherwise empty. Only a sample of all calls is timed in
    /// this way.
    pub(crate) stage_times: Vec<StageTime>,
    /// For the event log, if the stages of this call of user code were not timed separately: index of the stage, number of items, and time. Empty
    /// without an event log.
    pub(crate) unsampled: Vec<(usize, usize, Duration)>,
    /// Encoded sizes of the batches between stages that were measured in this call of user code.
    pub(crate) edge_sizes: Vec<EdgeSize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StageTime {
    pub(crate) stage: usize,
    /// Number of input items of the stage; for a stage that makes several items from one, number of input items that it started.
    pub(crate) items: usize,
    pub(crate) produced: usize,
    pub(crate) took: Duration,
    /// Part of `took` in which the stage computed (processor time).
    pub(crate) cpu: Duration,
    /// Part of `took` in which the stage was ready to compute, but other threads had the core.
    pub(crate) lost: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EdgeSize {
    pub(crate) edge: usize,
    pub(crate) items: usize,
    pub(crate) bytes: usize,
}
