//! Measurement of *jobs*: series of consecutive calls of the user's source or sink on rank 0. Their duration determines on which thread later jobs
//! run.
//!
//! A job on rank 0's communicating thread stops after `THREADED_ABOVE`, so that rank 0 answers messages, and another job makes the remaining calls.
//! Short jobs at long intervals do not count. They would move later jobs back to the communicating thread, although the transfer of a job to a thread
//! costs little compared with such intervals.

use std::time::Duration;

use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::rank::executor::SHORT;
use crate::rank::user_code::THREADED_ABOVE;
use crate::session::{Config, Driver};

/// Returns the choice of the thread on which source and sink run. If there is only one rank, they run on its communicating thread, because no other
/// rank waits for messages.
pub(super) fn driver(config: &Config, endpoint: &Endpoint) -> Driver {
    if endpoint.size() == 1 || !endpoint.capabilities().threads { Driver::Inline } else { config.driver }
}

/// Duration of one job (series of calls of the source or the sink), by which the executor chooses the thread of later jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobTime {
    took: Duration,
    /// Time since the start of the previous job (series of calls of the source or the sink).
    since_last: Option<Duration>,
}

impl JobTime {
    /// Returns the duration of the job (series of calls), or `None` if the job was short and jobs are rare: its duration then does not decide on
    /// which thread later jobs run.
    pub(super) fn took(self) -> Option<Duration> {
        let often = self.since_last.is_some_and(|interval| interval < SHORT);
        (often || self.took > SHORT).then_some(self.took)
    }
}

/// Measures the jobs of the source or the sink, which are series of their calls, and limits their duration.
#[derive(Debug)]
pub(super) struct JobTimer {
    clock: Clock,
    start: Option<Duration>,
    since_last: Option<Duration>,
    limited: bool,
    /// Number of calls within the current job (series of calls of the source or the sink) after which the clock is read next.
    next_reading: usize,
}

impl JobTimer {
    pub(super) fn new(clock: Clock) -> Self {
        JobTimer { clock, start: None, since_last: None, limited: false, next_reading: 1 }
    }

    /// A job (series of calls of the source or the sink) is limited in time if it keeps rank 0 from its messages.
    pub(super) fn begin(&mut self, limited: bool) {
        let now = self.now();
        self.since_last = self.start.map(|start| now.saturating_sub(start));
        (self.start, self.limited, self.next_reading) = (Some(now), limited && !self.clock.is_simulated(), 1);
    }

    /// Returns true if the current job (series of calls of the source or the sink) has to stop after this number of `calls`. The clock is read after
    /// 1, 2, 4, … calls, so that readings cost little. If all calls take the same time, the job takes at most twice its limit.
    #[inline]
    pub(super) fn has_finished(&mut self, calls: usize) -> bool {
        if !self.limited || calls < self.next_reading {
            return false;
        }
        self.next_reading = calls * 2;
        self.took() > THREADED_ABOVE
    }

    pub(super) fn until_reading(&self, calls: usize) -> usize {
        if self.limited { self.next_reading.saturating_sub(calls).max(1) } else { usize::MAX }
    }

    fn took(&self) -> Duration {
        self.now().saturating_sub(self.start.unwrap_or_default())
    }

    /// In a simulation the time is always 0, because each reading of the clock would take simulated time.
    fn now(&self) -> Duration {
        if self.clock.is_simulated() { Duration::ZERO } else { self.clock.now() }
    }

    pub(super) fn end(&self) -> JobTime {
        JobTime { took: self.took(), since_last: self.since_last }
    }
}
