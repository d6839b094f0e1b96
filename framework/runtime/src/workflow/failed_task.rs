//! Failed tasks.

use std::fmt;

use armature_text::{line, quoted};
use serde::{Deserialize, Serialize};

/// Task that failed at every try, needs more memory than a rank has, or ended the process that ran it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTask {
    pub(super) task: usize,
    pub(super) name: String,
    pub(super) rank: usize,
    pub(super) attempts: u32,
    pub(super) panicked: bool,
    pub(super) message: String,
}

impl FailedTask {
    /// Returns the number of the task in the description, from 0.
    pub fn task(&self) -> usize {
        self.task
    }

    /// Returns the name of the task.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the rank of the last try.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of tries.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns the error message of the last try.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns true if the last try panicked.
    pub fn panicked(&self) -> bool {
        self.panicked
    }

    /// Returns the message with the task and the number of tries, without the rank and the panic.
    pub(super) fn told(&self) -> String {
        let times = match self.attempts {
            1 => "1 try".to_string(),
            tries => format!("{tries} tries"),
        };
        format!("{} (task {}, after {times})", line(&self.message), quoted(&self.name))
    }
}

impl fmt::Display for FailedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.panicked { "panicked: " } else { "" };
        write!(f, "rank {}: {how}{}", self.rank, self.told())
    }
}

impl fmt::Debug for FailedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for FailedTask {}
