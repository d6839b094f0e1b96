//! End of a failed job whose ranks are processes: every rank that can answer returns the error.
//!
//! The rank on which the error arose has printed it and sent it to all ranks ([`Endpoint::report`]). Each rank reports to rank 0 when its
//! user code has ended and its messages have been received. When all ranks have reported, rank 0 dismisses them, and all ranks finalise MPI
//! together. A rank that does not report, because its user code is still running or because it hangs, cannot be ended by the others:
//! `MPI_Abort` ends the job then. Ranks that have died are not waited for; MPI is not finalised without them.
//!
//! If the program has initialised MPI itself and only some of its processes are ranks, the other processes do not learn of the failure and
//! may wait for the ranks in a call of MPI. The job is then aborted at once.

use std::time::Duration;

use crate::comm::endpoint::Endpoint;
use crate::comm::message::Control;
use crate::error::Result;

/// Time after a failure within which all ranks have to report to rank 0. With a larger value the job ends later if a rank does not report. A smaller
/// value would abort jobs whose ranks only have to finish a short task.
const ANSWER: Duration = Duration::from_secs(2);

/// Leaves the job after a failure. Does not return if a rank does not answer, because the job is then aborted.
pub(super) fn leave(endpoint: &mut Endpoint) {
    if !endpoint.is_process() {
        return;
    }
    let has_left = endpoint.transport().has_all_processes()
        && all_answer(endpoint).unwrap_or(false)
        && endpoint.close().is_ok();
    if has_left {
        endpoint.transport().stay();
    } else {
        endpoint.transport().abort();
    }
}

/// Waits until all ranks that are alive have left their user code. Returns false if a rank does not answer in time.
///
/// # Errors
/// The errors of the transport.
fn all_answer(endpoint: &mut Endpoint) -> Result<bool> {
    let (rank, clock) = (endpoint.rank(), endpoint.clock());
    let (start, mut backoff) = (clock.now(), endpoint.backoff());
    let mut has_reported = false;
    loop {
        if let Some(dead) = endpoint.dismissal()? {
            endpoint.learn_lost(dead);
            return Ok(true);
        }
        if !has_reported && endpoint.all_received()? {
            has_reported = true;
            if rank > 0 {
                endpoint.send(0, Control::Answer, &())?;
            }
        }
        if rank == 0 && has_reported {
            let (dead, missing) = endpoint.unanswered();
            if missing.is_empty() {
                for to in (1..endpoint.size()).filter(|to| !dead.contains(to)) {
                    endpoint.send(to, Control::Dismiss, &dead)?;
                }
                endpoint.learn_lost(dead);
                return endpoint.drain(ANSWER).map(|()| true);
            }
        }
        if clock.now().saturating_sub(start) > ANSWER {
            return Ok(false);
        }
        backoff.wait(endpoint.transport(), clock)?;
    }
}
