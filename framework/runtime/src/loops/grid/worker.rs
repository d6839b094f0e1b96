//! Interface between the communication of a rank and the state machine of a loop over a grid (in-place, table or stencil loop).

use std::any::Any;
use std::ops::Range;

use bytes::Bytes;

use super::directive::{Directive, NEVER};
use super::messages::{NeighbourSender, ToNeighbour};
use super::row_migration::RowMigration;
use crate::error::{Error, ErrorKind, Result};
use crate::persist::snapshot::CheckpointPiece;

/// Next action of a rank in a loop over a grid, as the state machine of the loop determines it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GridAction {
    /// User code computes this range of rows or columns, in the rows that [`GridWorker::lend`] returns. The rows are then returned by
    /// [`GridWorker::take_back`], and [`GridWorker::computed`] is called.
    Compute(Range<usize>),
    /// The sweep with this number is about to begin. If a report is due, the rank sends its measurements to rank 0; rank 0 may order a movement of
    /// rows.
    Boundary(u64),
    /// The rank begins to send and receive the rows that move between ranks.
    Moving,
    /// The rank has sent and received the given numbers of rows in a movement of rows between ranks.
    MovementDone { sent: u64, received: u64 },
    /// The rank can do nothing before a message arrives.
    Wait,
    /// The rank has computed all sweeps.
    Done,
}

/// Phase of a rank in a loop over a grid. `S` is the rank's state within a sweep.
#[derive(Debug)]
pub(super) enum Phase<S> {
    /// The rank is between two sweeps, and may receive a directive of rank 0 that moves rows between ranks before the next one.
    Between,
    Moving(RowMigration),
    MovementDone,
    Sweeping(S),
    /// The rank has computed all sweeps, and may still wait for a halo row of the last one.
    Closing,
}

/// Rows of a grid that are lent to user code, as a trait object without the type of their values, so that the code that communicates needs no type
/// parameter.
pub(super) trait Storage: Any + Send {
    fn whereabouts(&self, sweep: u64, piece: &Range<usize>) -> String;
}

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

    /// Returns the rows that come back from user code. The caller moves them out of their `Box`, which this carrier keeps for the next call.
    #[inline]
    pub(super) fn take_back(&mut self, storage: Box<dyn Storage>) -> Result<&mut S> {
        let storage: Box<dyn Any> = storage;
        let carrier = storage.downcast().map_err(|_| of_another_type())?;
        Ok(self.0.insert(carrier))
    }
}

/// One rank's part in a loop over a grid, as a state machine without clock and transport: it gets received messages, sends messages, and returns the
/// next action. A *piece* is the part of a sweep that user code computes in one call: a range of rows or of columns.
pub(super) trait GridWorker {
    /// Returns the next action of the rank, after the worker has done all work that needs no user code, such as receiving halo rows.
    fn next(&mut self, out: &mut dyn NeighbourSender) -> Result<GridAction>;

    /// Lends the rows to user code, which computes a part of a sweep in them. The state machine keeps the rows' numbers in the grid, but not their
    /// values.
    fn lend(&mut self) -> Box<dyn Storage>;

    fn take_back(&mut self, storage: Box<dyn Storage>) -> Result<()>;

    /// Continues after a call of user code has returned: sends halo rows and advances to the next part of the sweep or to the next sweep.
    fn computed(&mut self, out: &mut dyn NeighbourSender) -> Result<()>;

    /// Processes a message of a neighbour: a halo row, rows that move, or a directive.
    fn receive(&mut self, from: usize, message: ToNeighbour<Bytes>) -> Result<()>;

    /// Carries out a directive of rank 0 before a sweep begins, and forwards it to the rank below.
    fn carry_out(&mut self, directive: Directive, out: &mut dyn NeighbourSender) -> Result<()>;

    /// Returns true if the rank waits for moved rows that the neighbour has not begun to send. This wait does not count as cost of moving rows.
    fn awaits_sender(&self) -> bool;

    fn report_after(&self) -> u64;

    /// Returns the size of the longest message to a neighbour in bytes, if the costs of messages are to be measured.
    fn probed_neighbour(&self) -> Option<usize> {
        None
    }

    /// Sets the measured costs in seconds of an empty message, and of a message of the size that `probed_neighbour` has returned.
    fn know_costs(&mut self, _empty: f64, _full: f64) {}

    /// Adapts the strip width (columns between two messages), on rank 0 before a sweep. `seconds` is the duration of the previous sweep, if there was
    /// one, and `most` the largest number of rows of a rank. Returns the new width and the reason when a width is finally chosen.
    fn tune(&mut self, _seconds: Option<f64>, _most: u64) -> Option<(u64, String)> {
        None
    }

    fn stop(&mut self);

    /// On rank 0, returns the strip width (columns between two messages) of the sweep that begins; 0 if the loop has no strips.
    fn grain(&self) -> u64 {
        0
    }

    /// Returns the size of a block (work of one call of user code) for the summary of the loop: a number of columns or of rows.
    fn block_size(&self) -> u64;

    /// Returns the number of sweeps between a directive of rank 0 and the movement of rows that it orders. In that time the directive reaches every
    /// rank.
    fn delay(&self) -> u64;

    fn save_before(&self) -> Option<u64>;

    fn is_stopped_before(&self, sweep: u64) -> bool {
        self.report_after() == NEVER && self.save_before() == Some(sweep)
    }

    /// Returns the rows of this rank in the form in which a checkpoint stores them.
    fn pieces(&self) -> Vec<CheckpointPiece>;

    fn held(&self) -> u64;

    /// Returns the work of a piece (part of a sweep that user code computes in one call) in whole rows: the number of its rows, times the fraction of
    /// each row's computed values that the piece contains.
    fn units(&self, piece: &Range<usize>) -> f64;

    fn sweep(&self) -> u64;

    /// Returns the fraction of the present sweep that this rank has computed, less than 1; 0 if the loop does not measure it.
    fn part_done(&self) -> f64 {
        0.0
    }

    /// Describes the message for which the rank waits and its sender; the text follows the word "waits" in an error message.
    fn waiting_for(&self) -> String;
}
