//! User code of a loop over a grid on one rank. It computes pieces of the rows that are passed with them.

use std::marker::PhantomData;
use std::thread::ThreadId;
use std::time::Duration;

use super::worker::Worker;
use crate::comm::HEARTBEAT_PERIOD;
use crate::comm::clock::Clock;
use crate::error::{BoxError, Error, Result};
use crate::loops::metrics::{BlockTime, BlockTimer};
use crate::observe::Tally;
use crate::rank::user_code::UserCode;
use crate::user_code;

/// Piece to be computed, with its rows.
pub(super) struct Task<M: Worker> {
    pub(super) storage: M::Storage,
    pub(super) piece: M::Piece,
    pub(super) sweep: u64,
    /// Duration of a piece, if it has been measured since the last task.
    pub(super) usual: Option<Duration>,
}

/// Piece that is computed, with its rows.
pub(super) struct Done<M: Worker> {
    pub(super) storage: M::Storage,
    pub(super) piece: M::Piece,
    /// Duration of the piece, if it was not computed on the rank's own thread.
    pub(super) time: Option<BlockTime>,
    usual: Option<Duration>,
}

/// User code of a loop over a grid.
pub(super) struct Kernel<M, F> {
    work: F,
    timer: BlockTimer,
    /// Thread that communicates. It measures pieces in stretches.
    home: ThreadId,
    /// Number of sweeps that an earlier job has done.
    before: u64,
    worker: PhantomData<fn(M)>,
}

impl<M: Worker, F> Kernel<M, F> {
    /// Creates the user code. Must be called on the thread that communicates.
    pub(super) fn new(work: F, clock: Clock, before: u64) -> Self {
        let home = std::thread::current().id();
        Kernel { work, timer: BlockTimer::new(clock), home, before, worker: PhantomData }
    }
}

impl<M, F> UserCode for Kernel<M, F>
where
    M: Worker,
    F: FnMut(&mut M::Storage, &M::Piece) -> Result<(), BoxError> + Send,
{
    type Task = Task<M>;
    type Outcome = Done<M>;

    /// Halo rows and directives are sent and received between pieces, so during a piece other ranks wait only for a heartbeat. A piece may therefore
    /// take half of the heartbeat period on the rank's own thread.
    const THREADED_ABOVE: Duration = HEARTBEAT_PERIOD.checked_div(2).expect("two is not zero");

    #[inline]
    fn run(&mut self, task: Task<M>) -> Result<Option<Done<M>>> {
        let Task { mut storage, piece, sweep, usual } = task;
        let begun = (std::thread::current().id() != self.home).then(|| self.timer.begin());
        user_code::call(|| (self.work)(&mut storage, &piece)).map_err(|error| {
            let place = M::whereabouts(self.before + sweep, &storage, &piece);
            let text = format!("{} (in {place})", error.message());
            Error::new(error.kind(), text)
        })?;
        let time = begun.map(|begun| self.timer.end(&begun));
        Ok(Some(Done { storage, piece, time, usual }))
    }

    fn answers(_: &Task<M>) -> bool {
        true
    }

    fn may_block(&self, _: &Task<M>) -> bool {
        false
    }

    fn took(done: &Done<M>) -> Option<Duration> {
        done.time.map(|time| time.took).or(done.usual)
    }

    const KIND: &'static str = "unit";

    /// Does nothing: the participant measures pieces in stretches, for the summary and for the log.
    fn tally(_: &Done<M>, _: &mut Tally) {}
}
