//! What a job of the compute side has cost.

use std::time::Duration;

/// What a job has cost.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobCost {
    /// Its time, an estimate where it was not taken.
    pub(crate) took: Duration,
    /// Times by stage of a sampled job.
    pub(crate) stage_times: Vec<StageTime>,
    /// Stages of a job that was not sampled, with their items and time; empty without a log of events.
    pub(crate) unsampled: Vec<(usize, usize, Duration)>,
    /// Sizes, where they were taken.
    pub(crate) edge_sizes: Vec<EdgeSize>,
}

/// The time of one stage for one batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StageTime {
    pub(crate) stage: usize,
    /// Items that went in, or were begun.
    pub(crate) items: usize,
    /// Items that came out.
    pub(crate) made: usize,
    pub(crate) took: Duration,
    /// The part of it in which it computed.
    pub(crate) cpu: Duration,
    /// The part of it in which others had the core.
    pub(crate) lost: Duration,
}

/// The size of a batch on the edge before a stage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EdgeSize {
    pub(crate) edge: usize,
    pub(crate) items: usize,
    pub(crate) bytes: usize,
}
