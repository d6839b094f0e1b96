//! A choice with its reason.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::super::chunking::Chunking;
use crate::words::Percent;

/// What [`Chunking::Auto`](super::super::Chunking::Auto) has chosen, and from what. Shown, it is a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// When (s, by the caller's clock).
    pub now: f64,
    /// The policy from now on.
    pub policy: Chunking,
    /// What was in force before.
    pub before: Chunking,
    /// Tasks not yet handed out.
    pub left: u64,
    /// Workers that take part.
    pub workers: usize,
    /// Mean time of a task (s).
    pub mean: f64,
    /// Standard deviation of a task's time (s).
    pub deviation: f64,
    /// Neighbouring tasks whose times are alike; 1 if they are independent.
    pub block: f64,
    /// Seconds to send one task.
    pub message: f64,
    /// Seconds until all is done, as simulated.
    pub predicted: f64,
    /// The same with what was in force before, if that could be simulated.
    pub predicted_before: Option<f64>,
    /// Policies that were compared.
    pub compared: usize,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Choice { policy, left, workers, mean, deviation, block, message, predicted, .. } = self;
        write!(
            f,
            "{policy} for {left} tasks on {workers} workers: a task takes {mean:.3e} s ± {:.0}, about {block:.0} \
             neighbours alike, a message {message:.2e} s; {predicted:.3e} s predicted, the best of {}",
            Percent(deviation / mean),
            self.compared
        )?;
        match self.predicted_before {
            Some(before) => write!(f, " ({before:.3e} s with {})", self.before),
            None => Ok(()),
        }
    }
}
