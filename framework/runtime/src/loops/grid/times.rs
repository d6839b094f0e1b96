//! Where a rank's time goes: into pieces, waiting and movements.

use std::time::Duration;

use crate::comm::clock::Clock;
use crate::loops::LOOK;
use crate::loops::metrics::{Begun, BlockTime, Metrics};
use crate::observe::Tally;

/// Pieces between two looks, at most, however short the clock says that they are.
const MOST: u32 = 1 << 14;

/// A rank's part of a movement, while it is made.
struct Moving {
    since: Duration,
    /// How long it has waited for ranks that had not come to it.
    waited: Duration,
}

/// Pieces that were done one after the other, without waiting.
struct Stretch {
    begun: Begun,
    units: f64,
    pieces: u32,
}

/// The rank cannot go on.
struct Wait {
    since: Duration,
    /// It waits for rows that are on their way, which is part of a movement. All else is waiting for others.
    is_transfer: bool,
}

/// See the module's page.
pub(super) struct Times {
    clock: Clock,
    pub(super) metrics: Metrics,
    stretch: Option<Stretch>,
    /// Pieces between two looks at the messages.
    pieces: u32,
    /// What a piece takes, as last measured, and whether user code's executor has not been told.
    piece_time: Option<Duration>,
    is_new_time: bool,
    wait: Option<Wait>,
    moving: Option<Moving>,
    /// Units that were measured since they were last [tallied](Times::tally), and their time.
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

    /// Adds to `tally` the units that were measured since the last call, and the time of the stretch that goes on.
    pub(super) fn tally(&mut self, tally: &mut Tally) {
        let (units, took) = std::mem::take(&mut self.untallied);
        if !took.is_zero() {
            tally.add_parts(units, took);
        }
        let running = self.stretch.as_ref().map(|stretch| self.metrics.since(&stretch.begun));
        tally.set_running(running.unwrap_or_default());
    }

    fn measured(&mut self, units: f64, took: Duration) {
        self.untallied.0 += units;
        self.untallied.1 += took;
    }

    /// What a piece takes, as last measured.
    pub(super) fn piece_time(&self) -> Option<Duration> {
        self.piece_time
    }

    /// A piece begins, here (`is_inline`) or on another thread. Returns what pieces take, if that has been measured since the last one
    /// began.
    #[inline]
    pub(super) fn begin_piece(&mut self, is_inline: bool) -> Option<Duration> {
        if !is_inline {
            self.end_stretch();
        } else if self.stretch.is_none() {
            self.stretch = Some(Stretch { begun: self.metrics.begin(), units: 0.0, pieces: 0 });
        }
        self.piece_time.filter(|_| std::mem::take(&mut self.is_new_time))
    }

    /// It has been computed; where another thread did it, this has measured how long it took.
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

    /// Whether another piece belongs to the stretch after the one that has just been computed.
    #[inline]
    pub(super) fn goes_on(&self) -> bool {
        self.stretch.as_ref().is_some_and(|stretch| stretch.pieces + 1 < self.pieces)
    }

    /// The stretch ends if it has lasted as long as it should.
    #[inline]
    pub(super) fn end_full_stretch(&mut self) {
        if self.stretch.as_ref().is_some_and(|stretch| stretch.pieces >= self.pieces) {
            self.end_stretch();
        }
    }

    /// Pieces were done up to here. The next stretch has about as many as take the time between two looks.
    pub(super) fn end_stretch(&mut self) {
        let Some(Stretch { begun, units, pieces }) = self.stretch.take().filter(|stretch| stretch.pieces > 0)
        else {
            return;
        };
        let took = self.metrics.end(&begun, units);
        self.measured(units, took);
        let fit = LOOK.as_nanos() * u128::from(pieces) / took.as_nanos().max(1);
        self.pieces = u32::try_from(fit).unwrap_or(MOST).clamp(1, MOST);
        (self.piece_time, self.is_new_time) = (Some(took / pieces), true);
    }

    /// The rank cannot go on. In a movement it waits for rows that are on their way (`comes`), or for a rank that has not come to it.
    pub(super) fn wait(&mut self, comes: bool) {
        let is_transfer = self.moving.is_some() && comes;
        if self.wait.as_ref().is_some_and(|wait| wait.is_transfer != is_transfer) {
            self.end_wait();
        }
        self.end_stretch();
        if self.wait.is_none() {
            self.wait = Some(Wait { since: self.clock.now(), is_transfer });
        }
    }

    /// Whether the rank waits.
    pub(super) fn waits(&self) -> bool {
        self.wait.is_some()
    }

    /// What the rank waited for has come.
    #[inline]
    pub(super) fn end_wait(&mut self) {
        let Some(wait) = self.wait.take().filter(|wait| !wait.is_transfer) else { return };
        let took = self.clock.now().saturating_sub(wait.since);
        self.metrics.waited(took);
        if let Some(moving) = &mut self.moving {
            moving.waited += took;
        }
    }

    /// The rank has looked for so long until what it sent had left. While it makes its own part of a movement, that is where the
    /// time belongs.
    pub(super) fn waited_for_sends(&mut self, took: Duration) {
        if self.moving.is_none() {
            self.metrics.waited(took);
        }
    }

    /// The rank begins its part of a movement.
    pub(super) fn begin_movement(&mut self) {
        self.end_wait();
        self.end_stretch();
        self.moving = Some(Moving { since: self.clock.now(), waited: Duration::ZERO });
    }

    /// It has made it; `sent` and `received` are rows.
    pub(super) fn end_movement(&mut self, sent: u64, received: u64) {
        self.end_wait();
        if let Some(Moving { since, waited }) = self.moving.take() {
            let took = self.clock.now().saturating_sub(since + waited);
            self.metrics.moved(took, sent, received);
        }
    }
}
