//! Interface between a rank and its worker, for both kinds of loop over grids.

use std::any::Any;
use std::ops::Range;

use bytes::Bytes;

use super::directive::{Directive, NEVER};
use super::messages::{Outgoing, ToNeighbour};
use super::row_migration::RowMigration;
use crate::error::{Error, ErrorKind, Result};
use crate::persist::snapshot::Piece;

/// Next step of a rank.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// User code computes this piece in the rows that [`Worker::lend`] returns. Then the rows are put back with [`Worker::take_back`], and
    /// [`Worker::computed`] is called.
    Compute(Range<usize>),
    /// This sweep is about to begin. Reports are sent and directives are issued here.
    Boundary(u64),
    /// The rank begins its part of a movement.
    Moving,
    /// The rank has done its part of a movement, with these numbers of rows sent and received.
    MovementDone { sent: u64, received: u64 },
    /// Nothing can be done before a message arrives.
    Wait,
    /// All sweeps are done.
    Done,
}

/// Phase of a worker.
#[derive(Debug)]
pub(super) enum Phase<S> {
    /// Between two sweeps; it is not yet determined if rows move before the next one.
    Between,
    /// The rank sends and receives rows that move before the next sweep.
    Moving(RowMigration),
    /// The rank has done its part of a movement; its next step is the boundary of the sweep.
    MovementDone,
    /// A sweep is in progress.
    Sweeping(S),
    /// All sweeps are done; the rank may still wait for a halo row of the last one.
    Closing,
}

/// Rows of one type of values, in which user code computes. Only user code, the worker and the collection of the grid know the type.
pub(super) trait Storage: Any + Send {
    /// Describes the place of a piece of this sweep in the loop, for errors.
    fn whereabouts(&self, sweep: u64, piece: &Range<usize>) -> String;
}

/// Returns `storage` as rows of the type `S`, for user code.
#[inline]
pub(super) fn typed<S: Storage>(storage: &mut dyn Storage) -> Result<&mut S> {
    let storage: &mut dyn Any = storage;
    storage.downcast_mut().ok_or_else(of_another_type)
}

fn of_another_type() -> Error {
    Error::new(ErrorKind::Panic, "in the framework itself: rows of another type")
}

/// Box in which rows travel to user code and back. It is reused, so that a piece costs no allocation.
#[derive(Debug)]
pub(super) struct Carrier<S>(Option<Box<S>>);

impl<S: Storage> Carrier<S> {
    pub(super) fn new() -> Self {
        Carrier(None)
    }

    #[inline]
    pub(super) fn lend(&mut self, rows: S) -> Box<dyn Storage> {
        let Some(mut carrier) = self.0.take() else { return Box::new(rows) };
        *carrier = rows;
        carrier
    }

    /// Returns the rows that were lent, to be moved out.
    #[inline]
    pub(super) fn take_back(&mut self, storage: Box<dyn Storage>) -> Result<&mut S> {
        let storage: Box<dyn Any> = storage;
        let carrier = storage.downcast().map_err(|_| of_another_type())?;
        Ok(self.0.insert(carrier))
    }
}

/// A rank's part in a loop, without clock and transport. It receives messages, and returns steps and sends messages. A *piece* is the part of a sweep
/// that user code computes in one call: a range of rows or of columns.
pub(super) trait Worker {
    /// Advances as far as possible without user code.
    fn next(&mut self, out: &mut dyn Outgoing) -> Result<Step>;

    /// Moves the rows out to compute a piece. The worker keeps the numbers of the rows, but not their values.
    fn lend(&mut self) -> Box<dyn Storage>;

    /// Puts the rows back. The worker keeps the box for the next piece.
    fn take_back(&mut self, storage: Box<dyn Storage>) -> Result<()>;

    /// Records that the piece is computed.
    fn computed(&mut self, out: &mut dyn Outgoing) -> Result<()>;

    /// Processes a halo row, rows or a directive of a neighbour.
    fn receive(&mut self, from: usize, message: ToNeighbour<Bytes>) -> Result<()>;

    /// Issues a directive to all ranks, on rank 0 before it begins a sweep; other ranks call this to process and forward it.
    fn carry_out(&mut self, directive: Directive, out: &mut dyn Outgoing) -> Result<()>;

    /// Returns true if the rank is in its part of a movement and waits for a sender that has not begun to send. Neither this wait nor a wait for a
    /// halo row counts as a cost of the movement.
    fn awaits_sender(&self) -> bool;

    /// Returns the sweep after which the rank reports.
    fn report_after(&self) -> u64;

    /// Returns the size of the longest message to a neighbour in bytes, if the costs of messages are to be measured.
    fn probed_neighbour(&self) -> Option<usize> {
        None
    }

    /// Sets the measured costs of an empty message and of a message of the requested size, in seconds.
    fn know_costs(&mut self, _empty: f64, _full: f64) {}

    /// Tunes the block size, on rank 0 before a sweep. `seconds` is the duration of the previous sweep, if there was one, and `most` the number of
    /// rows on the rank with the most rows. Returns the new block size and the reason when a size is chosen for good.
    fn tune(&mut self, _seconds: Option<f64>, _most: u64) -> Option<(u64, String)> {
        None
    }

    /// Ends the loop before the present sweep.
    fn stop(&mut self);

    /// Returns the block size of the sweep that begins, on rank 0; 0 if the loop has no blocks.
    fn grain(&self) -> u64 {
        0
    }

    /// Returns the size of a block for the summary: columns of a strip, or rows.
    fn block_size(&self) -> u64;

    /// Returns the number of sweeps between a directive and the movement that it orders. Every rank receives the directive before it reaches that
    /// sweep.
    fn delay(&self) -> u64;

    /// Returns the sweep before which the rows are to be written to a checkpoint, if there is one.
    fn save_before(&self) -> Option<u64>;

    /// Returns true if the loop ends before this sweep, by a directive of rank 0.
    fn is_stopped_before(&self, sweep: u64) -> bool {
        self.report_after() == NEVER && self.save_before() == Some(sweep)
    }

    /// Returns the present rows as pieces of a checkpoint.
    fn pieces(&self) -> Vec<Piece>;

    /// Returns the number of rows.
    fn held(&self) -> u64;

    /// Returns the units in a piece: its fraction of the computed values of a row, times the number of its rows.
    fn units(&self, piece: &Range<usize>) -> f64;

    /// Returns the present sweep.
    fn sweep(&self) -> u64;

    /// Returns the fraction of the sweep that is done, less than 1; 0 if the worker does not count it.
    fn part_done(&self) -> f64 {
        0.0
    }

    /// Describes what the rank waits for, and from which rank, to follow "waits".
    fn waiting_for(&self) -> String;
}
