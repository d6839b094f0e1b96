//! Interface through which the [executor](super::executor) runs the user code of a rank (the functions that the program passes to a skeleton).

use std::time::Duration;

use crate::error::Result;
use crate::observe::Tally;

/// Mean duration of a call of user code above which it needs a separate compute thread, so that the rank answers messages soon enough.
pub(crate) const THREADED_ABOVE: Duration = Duration::from_millis(5);

/// User code of a rank. Implementations catch panics of the user code.
pub(crate) trait UserCode: Send {
    /// Job for user code, such as a batch of items or a chunk of tasks.
    type Job: Send;
    /// Finished job with its result.
    type Done: Send;

    /// Runs one job of user code. An error ends the MPI job.
    fn run(&mut self, job: Self::Job) -> Result<Option<Self::Done>>;

    /// Returns true if the protocol receives the finished job.
    fn answers(job: &Self::Job) -> bool;

    /// Returns true if the job is work of the skeleton: items of a pipeline, tasks of a farm or workflow, rows or indices of a loop. False
    /// for other jobs, such as setting up a stage.
    fn is_work(_: &Self::Job) -> bool {
        true
    }

    /// Returns true if the job may take long although earlier jobs were short.
    fn may_block(&self, job: &Self::Job) -> bool;

    /// Returns the time that the job took; `None` if this time does not predict the times of later jobs.
    fn took(done: &Self::Done) -> Option<Duration>;

    fn tally(done: &Self::Done, tally: &mut Tally) {
        if let Some(took) = Self::took(done) {
            tally.add(0, None, 1, took);
        }
    }

    const THREADED_ABOVE: Duration = THREADED_ABOVE;

    const KIND: &'static str = "task";
}
