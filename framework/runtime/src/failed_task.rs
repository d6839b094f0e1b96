//! Failed tasks of farms and workflows.

use std::fmt;

use armature_text::{line, quoted};
use serde::{Deserialize, Serialize};

use crate::error::ErrorKind;

/// A task of a farm or a workflow that has failed for good: at every try, or because the task ended the processes that ran it, or because no
/// rank has the memory that it needs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTask {
    pub(crate) task: u64,
    pub(crate) name: Option<String>,
    pub(crate) rank: usize,
    pub(crate) tries: u32,
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
}

impl FailedTask {
    /// Returns the number of the task, from 0: in the order of a farm's source, or of a workflow's description.
    pub fn task(&self) -> u64 {
        self.task
    }

    /// Returns the name of a workflow's task; `None` in a farm.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the rank of the last try.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of tries. The number is smaller than the option `retries` allows if the task ended processes and no further rank could
    /// be risked.
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// Returns the kind of the last failure: [`ErrorKind::User`] for an error, for a task in which at least two ranks died, and for a task of a
    /// farm or a command of a workflow that exceeded its time limit; [`ErrorKind::Panic`] for a panic; [`ErrorKind::Timeout`] for other deaths
    /// of ranks in the task, which may have had another cause, and for another task of a workflow that exceeded its time limit;
    /// [`ErrorKind::Config`] for a task that needs more memory than any rank has.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the message of the last failure.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the message of the last failure with the task and the number of tries, for an error that names the rank and the kind
    /// of failure separately.
    pub(crate) fn in_error(&self) -> String {
        format!("{} ({}, after {})", line(&self.message), self.label(), self.count())
    }

    /// Returns the message of the last failure with the number of tries, for an error that names the task, the rank and the kind of
    /// failure separately.
    pub(crate) fn with_tries(&self) -> String {
        match self.tries {
            1 => self.message.clone(),
            _ => format!("{} (after {})", self.message, self.count()),
        }
    }

    fn label(&self) -> String {
        match &self.name {
            Some(name) => format!("task {}", quoted(name)),
            None => format!("task {}", self.task),
        }
    }

    fn count(&self) -> String {
        match self.tries {
            1 => "1 try".to_string(),
            tries => format!("{tries} tries"),
        }
    }
}

impl fmt::Display for FailedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.kind == ErrorKind::Panic { "panicked: " } else { "" };
        let (label, count) = (self.label(), self.count());
        write!(f, "{label} failed on rank {} after {count}: {prefix}{}", self.rank, line(&self.message))
    }
}

impl fmt::Debug for FailedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for FailedTask {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_task_shows_rank_and_tries() {
        let mut failed = FailedTask {
            task: 17,
            name: None,
            rank: 2,
            tries: 2,
            kind: ErrorKind::User,
            message: "torn".into(),
        };
        assert_eq!(failed.to_string(), "task 17 failed on rank 2 after 2 tries: torn");
        assert_eq!(failed.with_tries(), "torn (after 2 tries)");
        (failed.name, failed.tries, failed.kind) = (Some("cut".into()), 1, ErrorKind::Panic);
        assert_eq!(format!("{failed:?}"), "task \"cut\" failed on rank 2 after 1 try: panicked: torn");
        assert_eq!(failed.with_tries(), "torn");
        assert_eq!(failed.in_error(), "torn (task \"cut\", after 1 try)");
    }
}
