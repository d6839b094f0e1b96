//! A task of which nothing has come.

use std::fmt;

use armature_text::{line, quoted};
use serde::{Deserialize, Serialize};

/// A task that failed at every try, needs more memory than a rank has, or ended the process that did it.
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
    /// The task's number in the description, from 0.
    pub fn task(&self) -> usize {
        self.task
    }

    /// The task's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The rank that tried it last.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How often it was tried.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// What the last try said.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the last try panicked.
    pub fn panicked(&self) -> bool {
        self.panicked
    }

    /// Without the rank and the word that it panicked.
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
