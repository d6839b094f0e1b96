//! Cost of a job: one call of the source, of consecutive stages, or of the sink for a batch.

use std::time::Duration;

/// Processing times and sizes of batches in one job of user code.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobCost {
    /// Duration of the call of user code; an estimate if this call was not timed.
    pub(crate) took: Duration,
    /// Time of each stage, if the stages were timed separately in this job (call of user code); otherwise empty. Only a sample of all calls is
    /// timed in this way.
    pub(crate) stage_times: Vec<StageTime>,
    /// Entries for the event log (stages, number of items, time) if the stages of this call of user code were not timed separately; empty without
    /// an event log.
    pub(crate) unsampled: Vec<(usize, usize, Duration)>,
    /// Encoded sizes of batches that were measured in this call of user code, by edge between stages.
    pub(crate) edge_sizes: Vec<EdgeSize>,
}

/// Time of one stage for one batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StageTime {
    pub(crate) stage: usize,
    /// Number of input items of the stage; for an expanding stage, number of input items that were started.
    pub(crate) items: usize,
    /// Number of output items of the stage.
    pub(crate) produced: usize,
    pub(crate) took: Duration,
    /// Part of `took` in which the stage computed (processor time).
    pub(crate) cpu: Duration,
    /// Part of `took` in which the stage was ready to compute, but other threads had the core.
    pub(crate) lost: Duration,
}

/// Encoded size of a batch between two stages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EdgeSize {
    pub(crate) edge: usize,
    pub(crate) items: usize,
    pub(crate) bytes: usize,
}
