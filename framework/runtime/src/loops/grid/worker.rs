//! Interface between the protocol of a rank and its worker, for all loops over grids.

use std::any::Any;
use std::ops::Range;

use bytes::Bytes;

use super::directive::{Directive, NEVER};
use super::messages::{Outgoing, ToNeighbour};
use super::row_migration::RowMigration;
use crate::error::{Error, ErrorKind, Result};
use crate::persist::snapshot::Piece;

/// Next step of a rank in a loop over a grid, as its worker determines it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// User code computes this piece of a sweep in the rows that [`Worker::lend`] returns. The rows are then returned by [`Worker::take_back`], and
    /// [`Worker::computed`] is called.
    Compute(Range<usize>),
    /// The sweep with this number is about to begin. The rank reports its measurements if that is due, and rank 0 may issue a directive.
    Boundary(u64),
    /// The rank begins to send and receive the rows that move between ranks.
    Moving,
    /// The rank has sent and received all its rows in a movement; the fields are the numbers of these rows.
    MovementDone { sent: u64, received: u64 },
    /// The rank can do nothing before a message arrives.
    Wait,
    /// The rank has done all sweeps.
    Done,
}

/// Phase of the worker of a rank with rows. `S` is the worker's state within a sweep.
#[derive(Debug)]
pub(super) enum Phase<S> {
    /// The rank is between two sweeps, and may receive a directive of rank 0 that moves rows before the next one.
    Between,
    /// The rank sends and receives the rows that move before the next sweep.
    Moving(RowMigration),
    /// The rank has sent and received its rows in a movement of rows, and begins a sweep next.
    MovementDone,
    /// The rank computes a sweep.
    Sweeping(S),
    /// The rank has done all sweeps, and may still wait for a halo row of the last one.
    Closing,
}

/// Rows in which user code computes, as a trait object without the type of their values. Only user code, the worker and the gathering of the grid
/// know the type.
pub(super) trait Storage: Any + Send {
    /// Describes rows and columns of piece `piece` of sweep `sweep`, for error messages.
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

/// Reused heap memory (a `Box`) in which rows are passed to user code and back, so that a call of user code costs no allocation.
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

    /// Returns the rows that come back from user code. The caller moves them out of their `Box`, which stays here.
    #[inline]
    pub(super) fn take_back(&mut self, storage: Box<dyn Storage>) -> Result<&mut S> {
        let storage: Box<dyn Any> = storage;
        let carrier = storage.downcast().map_err(|_| of_another_type())?;
        Ok(self.0.insert(carrier))
    }
}

/// Worker: a rank's part in a loop over a grid, without clock and transport. It receives messages, and returns steps and sends messages. A *piece* is
/// the part of a sweep that user code computes in one call: a range of rows or of columns.
pub(super) trait Worker {
    /// Returns the next step of the rank, after the worker has done all work that needs no user code, such as receiving halo rows.
    fn next(&mut self, out: &mut dyn Outgoing) -> Result<Step>;

    /// Lends the rows to user code, which computes a piece of a sweep in them. The worker keeps the numbers of the rows, but not their values.
    fn lend(&mut self) -> Box<dyn Storage>;

    /// Takes back the rows that were lent to user code, and keeps their `Box` for the next piece of a sweep.
    fn take_back(&mut self, storage: Box<dyn Storage>) -> Result<()>;

    /// Continues after user code has computed a piece of a sweep: sends halo rows and advances to the next piece or sweep.
    fn computed(&mut self, out: &mut dyn Outgoing) -> Result<()>;

    /// Processes a message of a neighbour: a halo row, rows that move, or a directive.
    fn receive(&mut self, from: usize, message: ToNeighbour<Bytes>) -> Result<()>;

    /// Carries out a directive before a sweep begins: on rank 0 one that it issues, on other ranks one that has arrived. Either way it is sent to the
    /// rank below.
    fn carry_out(&mut self, directive: Directive, out: &mut dyn Outgoing) -> Result<()>;

    /// Returns true if the rank waits for rows that are to move to it and that the neighbour has not begun to send. This wait is no cost of the
    /// movement.
    fn awaits_sender(&self) -> bool;

    /// Returns the number of the sweep after which the rank reports its measurements to rank 0.
    fn report_after(&self) -> u64;

    /// Returns the size of the longest message to a neighbour in bytes, if the costs of messages are to be measured.
    fn probed_neighbour(&self) -> Option<usize> {
        None
    }

    /// Sets the measured costs in seconds of an empty message, and of a message of the size that `probed_neighbour` has returned.
    fn know_costs(&mut self, _empty: f64, _full: f64) {}

    /// On rank 0 before a sweep, adapts the block size (columns of a strip). `seconds` is the duration of the previous sweep, if there was one, and
    /// `most` the largest number of rows of a rank. Returns the new block size and the reason when a size is finally chosen.
    fn tune(&mut self, _seconds: Option<f64>, _most: u64) -> Option<(u64, String)> {
        None
    }

    /// Ends the loop before the present sweep.
    fn stop(&mut self);

    /// On rank 0, returns the block size (columns of a strip) of the sweep that begins; 0 if the loop has no blocks.
    fn grain(&self) -> u64 {
        0
    }

    /// Returns the size of a block for the summary: columns of a strip, or rows.
    fn block_size(&self) -> u64;

    /// Returns the number of sweeps between a directive and the movement of rows that it orders. In that time the directive reaches every rank.
    fn delay(&self) -> u64;

    /// Returns the sweep before which the rows must be written to a checkpoint, if a checkpoint is due.
    fn save_before(&self) -> Option<u64>;

    /// Returns true if a directive of rank 0 ends the loop before sweep `sweep`.
    fn is_stopped_before(&self, sweep: u64) -> bool {
        self.report_after() == NEVER && self.save_before() == Some(sweep)
    }

    /// Returns the rows of this rank as pieces of a checkpoint.
    fn pieces(&self) -> Vec<Piece>;

    /// Returns the number of rows that this rank holds.
    fn held(&self) -> u64;

    /// Returns the number of units that a piece of a sweep is equivalent to: the fraction of a row's computed values that the piece contains, times
    /// the number of its rows.
    fn units(&self, piece: &Range<usize>) -> f64;

    /// Returns the number of the present sweep.
    fn sweep(&self) -> u64;

    /// Returns the fraction of the present sweep that this rank has done, less than 1; 0 if the worker does not measure this fraction.
    fn part_done(&self) -> f64 {
        0.0
    }

    /// Describes which message the rank waits for, and from which rank; the text follows the word "waits".
    fn waiting_for(&self) -> String;
}
