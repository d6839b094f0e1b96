//! User code of a loop over a grid on one rank. It computes pieces of the rows that are passed with them.

use std::ops::Range;
use std::thread::ThreadId;
use std::time::Duration;

use super::worker::Storage;
use crate::comm::HEARTBEAT_PERIOD;
use crate::comm::clock::Clock;
use crate::error::{BoxError, Error, Result};
use crate::loops::metrics::{BlockTime, BlockTimer};
use crate::observe::Tally;
use crate::rank::user_code::UserCode;
use crate::user_code;

/// Piece to be computed, with its rows.
pub(super) struct Task {
    pub(super) storage: Box<dyn Storage>,
    pub(super) piece: Range<usize>,
    pub(super) sweep: u64,
    /// Duration of a piece, if it has been measured since the last task.
    pub(super) usual: Option<Duration>,
}

/// Piece that is computed, with its rows.
pub(super) struct Done {
    pub(super) storage: Box<dyn Storage>,
    pub(super) piece: Range<usize>,
    /// Duration of the piece, if it was not computed on the rank's own thread.
    pub(super) time: Option<BlockTime>,
    usual: Option<Duration>,
}

/// Function that computes a piece in rows whose type it knows.
pub(super) type Work<'u> = dyn FnMut(&mut dyn Storage, &Range<usize>) -> Result<(), BoxError> + Send + 'u;

/// User code of a loop over a grid.
pub(super) struct Kernel<'u> {
    work: &'u mut Work<'u>,
    timer: BlockTimer,
    /// Thread that communicates. It measures pieces in stretches.
    home: ThreadId,
    /// Number of sweeps that an earlier job has done.
    before: u64,
}

impl<'u> Kernel<'u> {
    /// Creates the user code. Must be called on the thread that communicates.
    pub(super) fn new(work: &'u mut Work<'u>, clock: Clock, before: u64) -> Self {
        let home = std::thread::current().id();
        Kernel { work, timer: BlockTimer::new(clock), home, before }
    }
}

impl UserCode for Kernel<'_> {
    type Task = Task;
    type Outcome = Done;

    /// Halo rows and directives are sent and received between pieces, so during a piece other ranks wait only for a heartbeat. A piece may therefore
    /// take half of the heartbeat period on the rank's own thread.
    const THREADED_ABOVE: Duration = HEARTBEAT_PERIOD.checked_div(2).expect("two is not zero");

    #[inline]
    fn run(&mut self, task: Task) -> Result<Option<Done>> {
        let Task { mut storage, piece, sweep, usual } = task;
        let start = (std::thread::current().id() != self.home).then(|| self.timer.begin());
        user_code::call(|| (self.work)(&mut *storage, &piece)).map_err(|error| {
            let place = storage.whereabouts(self.before + sweep, &piece);
            let text = format!("{} (in {place})", error.message());
            Error::new(error.kind(), text)
        })?;
        let time = start.map(|start| self.timer.end(&start));
        Ok(Some(Done { storage, piece, time, usual }))
    }

    fn answers(_: &Task) -> bool {
        true
    }

    fn may_block(&self, _: &Task) -> bool {
        false
    }

    fn took(done: &Done) -> Option<Duration> {
        done.time.map(|time| time.took).or(done.usual)
    }

    const KIND: &'static str = "unit";

    /// Does nothing: the participant measures pieces in stretches, for the summary and for the log.
    fn tally(_: &Done, _: &mut Tally) {}
}
