//! User code as the [executor](super::executor) sees it.

use std::time::Duration;

use crate::error::Result;
use crate::observe::Tally;

/// Jobs that take longer than this, in the mean, need a thread of their own: otherwise the rank would not answer soon enough.
pub(crate) const THREADED_ABOVE: Duration = Duration::from_millis(5);

/// What does the work: user code behind a boundary that catches its panics.
pub(crate) trait UserCode: Send {
    /// What it is asked.
    type Task: Send;
    /// What it answers.
    type Outcome: Send;

    /// Does one task. An error ends the rank.
    fn run(&mut self, task: Self::Task) -> Result<Option<Self::Outcome>>;

    /// Whether such a task is answered.
    fn answers(task: &Self::Task) -> bool;

    /// Returns true if the task is an item, a task or a unit of the skeleton, and false if it is set-up.
    fn is_work(_: &Self::Task) -> bool {
        true
    }

    /// Whether the task may take long although the last ones did not.
    fn may_block(&self, task: &Self::Task) -> bool;

    /// The time that a task took whose outcome this is; `None` if it says nothing about the ones to come.
    fn took(outcome: &Self::Outcome) -> Option<Duration>;

    /// Adds to the tally what was done, for the log of events.
    fn tally(outcome: &Self::Outcome, tally: &mut Tally) {
        if let Some(took) = Self::took(outcome) {
            tally.add(0, None, 1, took);
        }
    }

    /// Jobs that take longer than this, in the mean, need a thread of their own.
    const THREADED_ABOVE: Duration = THREADED_ABOVE;

    /// What user code does is called one of these, in the log of events.
    const KIND: &'static str = "task";
}
