//! Cost of a job: one call of the thread that runs source, stages and sink.

use std::time::Duration;

/// Cost of a job (one call of source, stages or sink on a batch): processing times and sizes of batches.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobCost {
    /// Duration of the job; an estimate if it was not measured.
    pub(crate) took: Duration,
    /// Times by stage, if the stages of this job were measured separately, as in a sample of all jobs; otherwise empty.
    pub(crate) stage_times: Vec<StageTime>,
    /// If the stages of this job were not measured separately: stages, numbers of items, and times, for the event log; empty without a log.
    pub(crate) unsampled: Vec<(usize, usize, Duration)>,
    /// Sizes of the batches that were encoded in this job to measure their size, by edge between stages.
    pub(crate) edge_sizes: Vec<EdgeSize>,
}

/// Time of one stage for one batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StageTime {
    pub(crate) stage: usize,
    /// Number of input items; for an expanding stage, number of input items that were started.
    pub(crate) items: usize,
    /// Number of output items.
    pub(crate) produced: usize,
    pub(crate) took: Duration,
    /// Part of the time in which the stage computed.
    pub(crate) cpu: Duration,
    /// Part of the time in which the stage was ready to compute and other threads had the core.
    pub(crate) lost: Duration,
}

/// Size of a batch on the edge in front of a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EdgeSize {
    pub(crate) edge: usize,
    pub(crate) items: usize,
    pub(crate) bytes: usize,
}
