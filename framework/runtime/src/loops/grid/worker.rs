//! What the workers of both kinds of loop have in common: what they ask of their rank, and what they get.

use bytes::Bytes;

use super::directive::Directive;
use super::messages::{Outgoing, ToNeighbour};
use super::row_migration::RowMigration;
use crate::error::Result;
use crate::persist::snapshot::Piece;

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<P> {
    /// User code computes this in the rows that [`Worker::lend`] gives it; then they come back, and [`Worker::computed`] is called.
    Compute(P),
    /// This sweep is about to begin: reports and directives have their place here.
    Boundary(u64),
    /// The rank begins its part of a movement.
    Moving,
    /// The rank has made its part of a movement, and how many rows it has sent and received.
    Moved { sent: u64, received: u64 },
    /// Nothing can be done before a message comes.
    Wait,
    /// All sweeps are done.
    Done,
}

/// Where a worker is.
#[derive(Debug)]
pub(super) enum Phase<S> {
    /// Before a sweep: nothing is known of it.
    Between,
    /// Rows move before it.
    Moving(RowMigration),
    /// Rows have moved; the next step is the boundary.
    Moved,
    /// In the sweep.
    Sweeping(S),
    /// After the last.
    Closing,
}

/// A rank's side of a loop, without clock and transport: messages in, messages and steps out.
pub(super) trait Worker {
    /// What user code computes at a time.
    type Piece: Send;
    /// The rows that it computes them in.
    type Storage: Send;

    /// Goes on as far as it can without user code.
    fn next(&mut self, out: &mut dyn Outgoing) -> Result<Step<Self::Piece>>;

    /// Gives the rows away, for a piece. How many they are is known meanwhile, but not their values.
    fn lend(&mut self) -> Self::Storage;

    /// The rows come back.
    fn take_back(&mut self, storage: Self::Storage);

    /// The piece is computed.
    fn computed(&mut self, out: &mut dyn Outgoing) -> Result<()>;

    /// A halo row, rows or a directive has come.
    fn receive(&mut self, from: usize, message: ToNeighbour<Bytes>) -> Result<()>;

    /// Rank 0, before it begins a sweep: this directive is for all.
    fn carry_out(&mut self, directive: Directive, out: &mut dyn Outgoing) -> Result<()>;

    /// Whether it makes its part of a movement and the rank that is to send rows has not begun to: that is waiting, as for a
    /// border, and no cost of the movement.
    fn awaits_sender(&self) -> bool;

    /// After which sweep the rank reports.
    fn report_after(&self) -> u64;

    /// Bytes of the longest message to a neighbour, if the costs of messages are asked for.
    fn asks_for_costs(&self) -> Option<usize> {
        None
    }

    /// What a message costs without content, and with as many bytes as were asked for (s).
    fn know_costs(&mut self, _empty: f64, _full: f64) {}

    /// On rank 0, before a sweep: the one before took `seconds`, if there was one, and the rank with the most rows has
    /// `most` of them. Returns the size of blocks from now on and why, when one is chosen for good.
    fn tune(&mut self, _seconds: Option<f64>, _most: u64) -> Option<(u64, String)> {
        None
    }

    /// Before a sweep: there is none any more.
    fn stop(&mut self);

    /// On rank 0: the size of blocks in the sweep that begins; 0 where there are none.
    fn grain(&self) -> u64 {
        0
    }

    /// How many sweeps after the order to do so rows can move: by then all ranks know of it that can be there.
    fn delay(&self) -> u64;

    /// Before which sweep, if any, its rows are to be written to a checkpoint.
    fn save_before(&self) -> Option<u64>;

    /// Its rows as they are now, for a checkpoint.
    fn pieces(&self) -> Vec<Piece>;

    /// Rows that it has.
    fn held(&self) -> u64;

    /// The part of all columns that a piece has, times its rows: the units that it is worth.
    fn units(&self, piece: &Self::Piece) -> f64;

    /// The sweep that is being done.
    fn sweep(&self) -> u64;

    /// How much of it is done, less than 1, where it is done in pieces.
    fn part_done(&self) -> f64 {
        0.0
    }

    /// Where in the loop a piece of this sweep is, for errors.
    fn whereabouts(sweep: u64, storage: &Self::Storage, piece: &Self::Piece) -> String;

    /// Whom it waits for, and for what, in words that follow "waits".
    fn waiting_for(&self) -> String;
}
