//! Time until the batch system ends the job.

use std::time::{Duration, SystemTime};

use super::Endpoint;
use crate::job_status::TIME_LIMIT;

/// Time reserved before the end of the job, in which the journal is synced and the ranks leave: no task should run in this time.
const RESERVE: Duration = Duration::from_secs(5);

impl Endpoint {
    /// Sets the time at which the batch system ends the job. Returns the time left, or `None` if that time has passed and is therefore not the end of
    /// this job.
    pub(crate) fn ends_at(&mut self, end: SystemTime) -> Option<Duration> {
        let left = end.duration_since(SystemTime::now()).ok()?;
        self.end = Some(self.clock.now() + left);
        Some(left)
    }

    /// Returns the time, on this rank's clock, by which the last task has to end, so that its result is kept before the batch system ends the job.
    pub(crate) fn tasks_end_by(&self) -> Option<Duration> {
        Some(self.end?.saturating_sub(RESERVE))
    }

    /// Asks the job to stop, because no task can end in the time left before the batch system ends the job. Called on rank 0. `why` names the task,
    /// the time that it needs, and the time left.
    pub(crate) fn stop_for_time_limit(&mut self, why: &str) {
        self.stops.cause.get_or_insert_with(|| format!("{TIME_LIMIT} ({why})"));
    }
}
