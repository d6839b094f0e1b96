//! User code of a loop over a grid on one rank. In each call it computes a piece of a sweep (some rows or columns of the rank) in rows that are lent
//! to it.

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

pub(super) struct Job {
    pub(super) storage: Box<dyn Storage>,
    pub(super) piece: Range<usize>,
    pub(super) sweep: u64,
    /// New measurement of how long a piece of a sweep takes, if there is one since the last piece was given to user code. It decides on which thread
    /// user code runs.
    pub(super) usual: Option<Duration>,
}

pub(super) struct Done {
    pub(super) storage: Box<dyn Storage>,
    pub(super) piece: Range<usize>,
    /// Duration of this piece of a sweep; `None` if the communicating thread computed it, because that thread measures several pieces
    /// together.
    pub(super) time: Option<BlockTime>,
    usual: Option<Duration>,
}

/// Computes a piece of a sweep, which the range selects. The rows are a trait object, which hides the type of their values.
pub(super) type Work<'u> = dyn FnMut(&mut dyn Storage, &Range<usize>) -> Result<(), BoxError> + Send + 'u;

pub(super) struct Kernel<'u> {
    work: &'u mut Work<'u>,
    timer: BlockTimer,
    /// Id of the communicating thread. There the duration of several pieces of a sweep is measured together, elsewhere that of each
    /// piece.
    home: ThreadId,
    before: u64,
}

impl<'u> Kernel<'u> {
    /// Must be called on the communicating thread, whose id is stored.
    pub(super) fn new(work: &'u mut Work<'u>, clock: Clock, before: u64) -> Self {
        let home = std::thread::current().id();
        Kernel { work, timer: BlockTimer::new(clock), home, before }
    }
}

impl UserCode for Kernel<'_> {
    type Job = Job;
    type Done = Done;

    /// Maximum duration of a piece of a sweep on the thread that communicates; longer ones are computed on a compute thread. Since halo rows and
    /// directives are exchanged only between pieces, a piece delays nothing but the heartbeat.
    const THREADED_ABOVE: Duration = HEARTBEAT_PERIOD.checked_div(2).expect("two is not zero");

    #[inline]
    fn run(&mut self, job: Job) -> Result<Option<Done>> {
        let Job { mut storage, piece, sweep, usual } = job;
        let start = (std::thread::current().id() != self.home).then(|| self.timer.begin());
        user_code::call(|| (self.work)(&mut *storage, &piece)).map_err(|error| {
            let place = storage.whereabouts(self.before + sweep, &piece);
            let text = format!("{} (in {place})", error.message());
            Error::new(error.kind(), text)
        })?;
        let time = start.map(|start| self.timer.end(&start));
        Ok(Some(Done { storage, piece, time, usual }))
    }

    fn answers(_: &Job) -> bool {
        true
    }

    fn may_block(&self, _: &Job) -> bool {
        false
    }

    fn took(done: &Done) -> Option<Duration> {
        done.time.map(|time| time.took).or(done.usual)
    }

    const KIND: &'static str = "unit";

    /// Counts nothing, because [`Times`](super::times::Times) counts the pieces of a sweep for the event log.
    fn tally(_: &Done, _: &mut Tally) {}
}
