//! Results of tasks, and answers of a sink.

use std::fmt;
use std::ops::ControlFlow;

use armature_text::line;
use serde::{Deserialize, Serialize};

use crate::error::BoxError;

/// A task that failed at every attempt, exceeded the time limit, or ended the processes that ran it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedTask {
    pub(crate) task: u64,
    pub(crate) rank: usize,
    pub(crate) attempts: u32,
    pub(crate) panicked: bool,
    pub(crate) message: String,
}

impl FailedTask {
    /// Returns the number of the task in the order of the source, from 0.
    pub fn task(&self) -> u64 {
        self.task
    }

    /// Returns the rank of the last attempt.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of attempts: fewer than [`retries`](super::Farm::retries) allows if the task ended processes and no further rank
    /// could be risked.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns the message of the last error.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns true if the last attempt panicked.
    pub fn panicked(&self) -> bool {
        self.panicked
    }
}

impl fmt::Display for FailedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailedTask { task, rank, attempts, panicked, message } = self;
        let times = if *attempts == 1 { "attempt" } else { "attempts" };
        let how = if *panicked { "panicked: " } else { "" };
        write!(f, "task {task} failed on rank {rank} after {attempts} {times}: {how}{}", line(message))
    }
}

impl fmt::Debug for FailedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl std::error::Error for FailedTask {}

/// Return types of a sink: `()`, [`ControlFlow`], or a `Result` of these, whose error ends the job.
///
/// ```
/// use std::ops::ControlFlow;
/// use armature::farm::Farm;
///
/// let first = armature::run(&armature::Config::new(), |session| {
///     let mut first = None;
///     Farm::new("square", |x: u64| x * x).for_each(session, 0.., |_, square| match square {
///         Ok(square) if square > 1_000 => {
///             first = Some(square);
///             ControlFlow::Break(())
///         }
///         _ => ControlFlow::Continue(()),
///     })?;
///     Ok(first)
/// })?;
/// assert_eq!(first, Some(1_024));
/// # Ok::<(), armature::Error>(())
/// ```
pub trait Flow {
    /// Returns whether the sink takes more results.
    ///
    /// # Errors
    /// The error of the sink.
    fn flow(self) -> Result<ControlFlow<()>, BoxError>;
}

impl Flow for () {
    #[inline]
    fn flow(self) -> Result<ControlFlow<()>, BoxError> {
        Ok(ControlFlow::Continue(()))
    }
}

impl Flow for ControlFlow<()> {
    #[inline]
    fn flow(self) -> Result<ControlFlow<()>, BoxError> {
        Ok(self)
    }
}

impl<F: Flow> Flow for Result<F, BoxError> {
    #[inline]
    fn flow(self) -> Result<ControlFlow<()>, BoxError> {
        self.and_then(Flow::flow)
    }
}

/// Decision of a sink: continue, or stop, possibly with an error.
pub(crate) type Answer = ControlFlow<Option<BoxError>>;

/// Conversion of the return value of a sink.
#[inline]
pub(crate) fn answer(flow: impl Flow) -> Answer {
    match flow.flow() {
        Ok(ControlFlow::Continue(())) => Answer::Continue(()),
        Ok(ControlFlow::Break(())) => Answer::Break(None),
        Err(error) => Answer::Break(Some(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_task_says_where_and_how_often() {
        let mut failed =
            FailedTask { task: 17, rank: 2, attempts: 2, panicked: false, message: "torn".into() };
        assert_eq!(failed.to_string(), "task 17 failed on rank 2 after 2 attempts: torn");
        (failed.attempts, failed.panicked) = (1, true);
        assert_eq!(format!("{failed:?}"), "task 17 failed on rank 2 after 1 attempt: panicked: torn");
    }
}
