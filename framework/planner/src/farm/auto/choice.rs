//! Chunk policy that was selected automatically, and the measurements and predictions on which the selection is
//! based.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::super::chunking::Chunking;
use crate::number_format::Percent;

/// Selection of a chunk policy by [`Chunking::Auto`](super::super::Chunking::Auto), with the measurements on which it is based. Its `Display` is one
/// sentence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Time at which the policy was selected (s, by the caller's clock).
    pub now: f64,
    /// Selected chunk policy.
    pub policy: Chunking,
    /// Chunk policy that the farm used before this selection.
    pub before: Chunking,
    /// Number of tasks that were not yet dispatched when the policy was selected.
    pub left: u64,
    /// Number of workers when the policy was selected.
    pub workers: usize,
    /// Mean time of a task (s).
    pub mean: f64,
    /// Standard deviation of a task's time (s).
    pub deviation: f64,
    /// Number of adjacent tasks with similar times; 1 if the tasks are independent.
    pub block: f64,
    /// Seconds to send one task.
    pub message: f64,
    /// Simulated seconds until all tasks are done with the selected policy.
    pub predicted: f64,
    /// Simulated seconds until all tasks are done with the previous policy.
    pub predicted_before: f64,
    /// Number of chunk policies that were compared: those whose simulation needed no more chunks than it may take.
    pub compared: usize,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Choice { policy, left, workers, mean, deviation, block, message, predicted, .. } = self;
        write!(
            f,
            "{policy} for {left} tasks on {workers} workers: a task takes {mean:.3e} s ± {:.0}, about {block:.0} \
             neighbours alike, a message {message:.2e} s; {predicted:.3e} s predicted, the best of {} ({:.3e} s with \
             {})",
            Percent(deviation / mean),
            self.compared,
            self.predicted_before,
            self.before
        )
    }
}
