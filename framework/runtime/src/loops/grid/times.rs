//! Time measurement on a rank that computes rows of a grid: times for computing, for waiting, and for moving rows between ranks.

use std::time::Duration;

use crate::comm::clock::Clock;
use crate::loops::POLL_INTERVAL;
use crate::loops::metrics::{BlockTime, Metrics, StartTimes};
use crate::observe::Tally;

/// Maximum number of pieces (calls of user code) that a rank computes between two polls for messages, even if they take almost no time.
const MOST: u32 = 1 << 14;

struct Moving {
    since: Duration,
    /// Time in which this rank waited for ranks that had not begun to send their rows. This time does not count as cost of moving rows.
    waited: Duration,
}

/// Consecutive calls of user code on the thread that communicates, without a poll for messages in between. They are timed together, because reading
/// the clock for each call would be slow.
struct Stretch {
    start: StartTimes,
    units: f64,
    pieces: u32,
}

struct Wait {
    since: Duration,
    /// True if the rank waits for moved rows that another rank is sending to it, which counts as cost of the movement. Any other wait counts as
    /// waiting for other ranks.
    is_transfer: bool,
}

pub(super) struct Times {
    clock: Clock,
    pub(super) metrics: Metrics,
    stretch: Option<Stretch>,
    /// Number of calls of user code that are timed together, between two polls for messages.
    pieces: u32,
    /// Last measured duration of a call of user code. `is_new_time` is true until the duration has been passed to the code that schedules these
    /// calls.
    piece_time: Option<Duration>,
    is_new_time: bool,
    wait: Option<Wait>,
    moving: Option<Moving>,
    /// Number of rows computed since the last call of [`tally`](Times::tally), and the time that they took, for the event log.
    untallied: (f64, Duration),
}

impl Times {
    pub(super) fn new(clock: Clock) -> Self {
        Times {
            clock,
            metrics: Metrics::new(clock),
            stretch: None,
            pieces: 1,
            piece_time: None,
            is_new_time: false,
            wait: None,
            moving: None,
            untallied: (0.0, Duration::ZERO),
        }
    }

    /// Adds the rows computed since the last call to `tally` (counters of the event log), and the time of the calls of user code that are being timed
    /// now.
    pub(super) fn tally(&mut self, tally: &mut Tally) {
        let (units, took) = std::mem::take(&mut self.untallied);
        if !took.is_zero() {
            tally.add_parts(units, took);
        }
        let running = self.stretch.as_ref().map(|stretch| self.metrics.since(&stretch.start));
        tally.set_running(running.unwrap_or_default());
    }

    fn measured(&mut self, units: f64, took: Duration) {
        self.untallied.0 += units;
        self.untallied.1 += took;
    }

    pub(super) fn piece_time(&self) -> Option<Duration> {
        self.piece_time
    }

    /// Begins a call of user code, on this thread (`is_inline`) or on a compute thread. Returns the duration of an earlier call, if one was measured
    /// since `begin_piece` was last called.
    #[inline]
    pub(super) fn begin_piece(&mut self, is_inline: bool) -> Option<Duration> {
        if !is_inline {
            self.end_stretch();
        } else if self.stretch.is_none() {
            self.stretch = Some(Stretch { start: self.metrics.begin(), units: 0.0, pieces: 0 });
        }
        self.piece_time.filter(|_| std::mem::take(&mut self.is_new_time))
    }

    #[inline]
    pub(super) fn end_piece(&mut self, units: f64, time: Option<BlockTime>) {
        if let Some(time) = time {
            self.stretch = None;
            self.metrics.done(time, units);
            self.measured(units, time.took);
            self.piece_time = Some(time.took);
        } else if let Some(stretch) = &mut self.stretch {
            stretch.units += units;
            stretch.pieces += 1;
        }
    }

    #[inline]
    pub(super) fn is_within_stretch(&self) -> bool {
        self.stretch.as_ref().is_some_and(|stretch| stretch.pieces + 1 < self.pieces)
    }

    #[inline]
    pub(super) fn end_full_stretch(&mut self) {
        if self.stretch.as_ref().is_some_and(|stretch| stretch.pieces >= self.pieces) {
            self.end_stretch();
        }
    }

    /// Ends the measurement of the calls of user code that are timed together. The number of calls timed together next is chosen so that they take
    /// about the time between two polls for messages.
    pub(super) fn end_stretch(&mut self) {
        let Some(Stretch { start, units, pieces }) = self.stretch.take().filter(|stretch| stretch.pieces > 0)
        else {
            return;
        };
        let took = self.metrics.end(&start, units);
        self.measured(units, took);
        let fit = POLL_INTERVAL.as_nanos() * u128::from(pieces) / took.as_nanos().max(1);
        self.pieces = u32::try_from(fit).unwrap_or(MOST).clamp(1, MOST);
        (self.piece_time, self.is_new_time) = (Some(took / pieces), true);
    }

    /// Begins a wait of the rank. While rows move between ranks, `rows_are_sent` is true if the wait is for rows that are being sent to this rank,
    /// and false if it is for a rank that has not begun to send.
    pub(super) fn wait(&mut self, rows_are_sent: bool) {
        let is_transfer = self.moving.is_some() && rows_are_sent;
        if self.wait.as_ref().is_some_and(|wait| wait.is_transfer != is_transfer) {
            self.end_wait();
        }
        self.end_stretch();
        if self.wait.is_none() {
            self.wait = Some(Wait { since: self.clock.now(), is_transfer });
        }
    }

    pub(super) fn waits(&self) -> bool {
        self.wait.is_some()
    }

    #[inline]
    pub(super) fn end_wait(&mut self) {
        let Some(wait) = self.wait.take().filter(|wait| !wait.is_transfer) else { return };
        let took = self.clock.now().saturating_sub(wait.since);
        self.metrics.waited(took);
        if let Some(moving) = &mut self.moving {
            moving.waited += took;
        }
    }

    /// Adds the time `took` in which this rank polled until the rows that it had sent were transferred. While rows move between ranks, that time
    /// already counts as cost of the movement.
    pub(super) fn waited_for_sends(&mut self, took: Duration) {
        if self.moving.is_none() {
            self.metrics.waited(took);
        }
    }

    pub(super) fn begin_movement(&mut self) {
        self.end_wait();
        self.end_stretch();
        self.moving = Some(Moving { since: self.clock.now(), waited: Duration::ZERO });
    }

    pub(super) fn end_movement(&mut self, sent: u64, received: u64) {
        self.end_wait();
        if let Some(Moving { since, waited }) = self.moving.take() {
            let took = self.clock.now().saturating_sub(since + waited);
            self.metrics.moved(took, sent, received);
        }
    }
}
