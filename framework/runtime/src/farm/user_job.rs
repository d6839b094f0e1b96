//! Calls of the user's source and sink as jobs of an executor: how long one may keep rank 0 from its messages, and what
//! its time says about the next ones.
//!
//! On the thread that communicates a job stops when it is as long as those that executors move to a thread, and what is left of it
//! is another job. Jobs that follow each other at intervals at which an executor does not mind to hand them over stay on their
//! thread.

use std::time::Duration;

use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::rank::executor::SHORT;
use crate::rank::user_code::THREADED_ABOVE;
use crate::session::{Config, Driver};

/// Where source and sink run. Nobody waits for a rank that is alone.
pub(super) fn driver(config: &Config, endpoint: &Endpoint) -> Driver {
    if endpoint.size() == 1 || !endpoint.capabilities().threads { Driver::Inline } else { config.driver }
}

/// The time of one job, from which the executor learns where the next ones run.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobTime {
    took: Duration,
    /// From the start of the job before.
    since_last: Option<Duration>,
}

impl JobTime {
    /// What it says about the jobs to come: nothing if it was short, but they are rare.
    pub(super) fn took(self) -> Option<Duration> {
        let often = self.since_last.is_some_and(|interval| interval < SHORT);
        (often || self.took > SHORT).then_some(self.took)
    }
}

/// Measures jobs, and says when one has lasted long enough.
#[derive(Debug)]
pub(super) struct JobTimer {
    clock: Clock,
    start: Option<Duration>,
    since_last: Option<Duration>,
    /// Whether the present job has a limit, and calls before the next look at the clock.
    limited: bool,
    next_look: usize,
}

impl JobTimer {
    pub(super) fn new(clock: Clock) -> Self {
        JobTimer { clock, start: None, since_last: None, limited: false, next_look: 1 }
    }

    /// A job begins, `limited` if it keeps rank 0 from its messages.
    pub(super) fn begin(&mut self, limited: bool) {
        let now = self.now();
        self.since_last = self.start.map(|start| now.saturating_sub(start));
        (self.start, self.limited, self.next_look) = (Some(now), limited && !self.clock.is_simulated(), 1);
    }

    /// Whether the job is to stop after this number of `calls`. The clock is read after 1, 2, 4, … of them: that costs nothing, and
    /// the job takes at most twice as long as it should if they are alike.
    #[inline]
    pub(super) fn is_over(&mut self, calls: usize) -> bool {
        if !self.limited || calls < self.next_look {
            return false;
        }
        self.next_look = calls * 2;
        self.took() > THREADED_ABOVE
    }

    /// Calls until the next look at the clock.
    pub(super) fn until_look(&self, calls: usize) -> usize {
        if self.limited { self.next_look.saturating_sub(calls).max(1) } else { usize::MAX }
    }

    fn took(&self) -> Duration {
        self.now().saturating_sub(self.start.unwrap_or_default())
    }

    /// In the simulator each look at the clock takes simulated time.
    fn now(&self) -> Duration {
        if self.clock.is_simulated() { Duration::ZERO } else { self.clock.now() }
    }

    /// The job has ended.
    pub(super) fn end(&self) -> JobTime {
        JobTime { took: self.took(), since_last: self.since_last }
    }
}
