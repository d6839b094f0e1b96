//! Interface through which the [executor](super::executor) runs the user code of a rank (the functions that the program passes to a skeleton).

use std::time::Duration;

use crate::error::Result;
use crate::observe::Tally;

/// Mean duration of a call of user code above which it needs a separate compute thread, so that the rank answers messages soon enough.
pub(crate) const THREADED_ABOVE: Duration = Duration::from_millis(5);

/// User code of a rank. Implementations catch panics of the user code.
pub(crate) trait UserCode: Send {
    /// A job for user code, such as a batch of items or a chunk of tasks.
    type Task: Send;
    type Outcome: Send;

    /// Runs one task of user code. An error ends the job.
    fn run(&mut self, task: Self::Task) -> Result<Option<Self::Outcome>>;

    /// Returns true if the task has an outcome, which the protocol receives.
    fn answers(task: &Self::Task) -> bool;

    /// Returns true if the task is work of the skeleton: items of a pipeline, tasks of a farm or workflow, rows or indices of a loop. False
    /// for other tasks, such as setting up a stage.
    fn is_work(_: &Self::Task) -> bool {
        true
    }

    /// Returns true if the task may take long although earlier tasks were short.
    fn may_block(&self, task: &Self::Task) -> bool;

    /// Returns the time that the task took; `None` if this time does not predict the times of later tasks.
    fn took(outcome: &Self::Outcome) -> Option<Duration>;

    fn tally(outcome: &Self::Outcome, tally: &mut Tally) {
        if let Some(took) = Self::took(outcome) {
            tally.add(0, None, 1, took);
        }
    }

    const THREADED_ABOVE: Duration = THREADED_ABOVE;

    const KIND: &'static str = "task";
}
