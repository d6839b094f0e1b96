//! State machine of one rank in a DOACROSS loop (a wavefront over a grid), without clock and transport. `README.md` describes the protocol.

mod reports;

use std::ops::Range;

use armature_planner::loops::ShiftCost;
use bytemuck::Pod;
use bytes::Bytes;

use super::directive::{Direction, Directive, Movement};
use super::local_rows::LocalRows;
use super::messages::{HaloRow, NeighbourSender, ToNeighbour, unexpected};
use super::neighbours::{Neighbours, Position};
use super::row_migration::RowMigration;
use super::strip_width::StripWidth;
use super::worker::{Carrier, GridAction, GridWorker, Phase, Storage};
use crate::error::Result;
use crate::persist::snapshot::CheckpointPiece;

/// Number of messages in which a rank sends its first row to the rank above. The rank above can begin its next sweep after the first of these
/// messages, but each message has a cost.
const SEGMENTS: usize = 4;
/// Rank 0 tries other strip widths (columns between two messages) when the largest number of rows of a rank has changed by this factor, because
/// another width may then be best.
const MUCH: f64 = 1.5;

#[derive(Debug)]
pub(super) struct Wavefront<T> {
    position: Position,
    pub(super) local: LocalRows<T>,
    inner: Range<usize>,
    sweeps: u64,
    sweep: u64,
    phase: Phase<()>,
    pub(super) strip_width: StripWidth,
    /// Largest number of rows of any rank when the strip width (columns between two messages) was last chosen; 0 before the first sweep.
    most: u64,
    /// True if rows have moved between ranks since the strip width (columns between two messages) was last adapted.
    has_new_rows: bool,
    done: u64,
    /// First column that this rank has not yet computed in this sweep.
    column: usize,
    /// End (exclusive) of the range of columns that this rank computes now.
    end: usize,
    /// First column of the upper halo row whose value for this sweep has not been received.
    above_until: usize,
    /// First column of the lower halo row whose value after the previous sweep has not been received.
    below_until: usize,
    /// First column of this rank's first row whose value has not been sent to the rank above in this sweep.
    sent_until: usize,
    queues: Neighbours,
    movement: Option<Movement>,
    save_before: Option<u64>,
    report_after: u64,
    carrier: Carrier<LocalRows<T>>,
}

impl<T: Pod + Send> Wavefront<T> {
    /// Creates the state of a rank. Both halo rows of `local` must have the values from before the first sweep of the run.
    pub(super) fn new(
        position: Position,
        local: LocalRows<T>,
        inner: Range<usize>,
        sweeps: u64,
        strip_width: StripWidth,
    ) -> Self {
        let width = local.width();
        Wavefront {
            position,
            inner,
            sweeps,
            sweep: 0,
            phase: Phase::Between,
            strip_width: strip_width.for_sweeps(sweeps),
            most: 0,
            has_new_rows: false,
            done: 0,
            column: 0,
            end: 0,
            above_until: 0,
            below_until: width,
            sent_until: 0,
            queues: Neighbours::of(position),
            movement: None,
            save_before: None,
            report_after: 0,
            carrier: Carrier::new(),
            local,
        }
    }

    /// Returns the columns of a row to send when `columns` have been computed: `columns`, and the fixed columns next to them at the ends of the row.
    fn with_edges(&self, columns: Range<usize>) -> Range<usize> {
        let start = if columns.start == self.inner.start { 0 } else { columns.start };
        let end = if columns.end == self.inner.end { self.local.width() } else { columns.end };
        start..end
    }

    fn begin_sweep(&mut self) {
        self.column = self.inner.start;
        self.done = 0;
        self.sent_until = 0;
        self.above_until = if self.position.above().is_some() { 0 } else { self.local.width() };
        self.phase = Phase::Sweeping(());
    }

    /// Determines which halo rows are valid after rows have moved, and sends the first row to the rank above if that rank has received rows from this
    /// one.
    fn end_movement(&mut self, out: &mut dyn NeighbourSender) -> Result<()> {
        let Some(movement) = self.movement.take() else { return Ok(()) };
        self.has_new_rows = true;
        if self.position.below().is_some() {
            self.below_until = match movement.direction(self.position.rank) {
                // The rank below has received rows from this rank. The first row that it received is the lower halo row of this rank, as it is after
                // the previous sweep.
                Some(Direction::Down) => self.local.width(),
                Some(Direction::Up) | None => 0,
            };
        }
        if let Some(above) = self.position.above()
            && movement.direction(above) == Some(Direction::Up)
        {
            let width = self.local.width();
            out.send(above, ToNeighbour::HaloRow(HaloRow::of(self.sweep - 1, 0..width, self.local.first())))?;
        }
        Ok(())
    }

    /// Returns true if rows move between this rank and the rank above before the next sweep. The rank above then does not need this rank's present
    /// first row.
    fn is_above_moving(&self) -> bool {
        self.movement.as_ref().is_some_and(|movement| {
            movement.before == self.sweep + 1
                && self.position.above().is_some_and(|above| movement.direction(above).is_some())
        })
    }

    /// Receives a message with columns of the upper halo row; returns false if none has arrived. Directives of rank 0 that arrive before it are
    /// processed and forwarded to the rank below.
    #[inline]
    fn take_above(&mut self, from: usize, out: &mut dyn NeighbourSender) -> Result<bool> {
        loop {
            match self.queues.above.pop_front() {
                Some(ToNeighbour::HaloRow(row)) => {
                    let start = self.above_until;
                    self.above_until = row.write(self.local.upper(), self.sweep, start, from)?;
                    return Ok(true);
                }
                Some(ToNeighbour::Directive(directive)) => self.carry_out(directive, out)?,
                Some(other) => return Err(other.unexpected(from, "a halo row or a directive")),
                None => return Ok(false),
            }
        }
    }

    /// Receives columns of the lower halo row, with their values after the previous sweep, up to column `until`; returns false if they have not
    /// arrived.
    #[inline]
    fn take_below(&mut self, until: usize) -> Result<bool> {
        let Some(from) = self.position.below() else { return Ok(true) };
        while self.below_until < until {
            match self.queues.below.pop_front() {
                Some(ToNeighbour::HaloRow(row)) => {
                    let start = self.below_until;
                    self.below_until = row.write(self.local.lower(), self.sweep - 1, start, from)?;
                }
                Some(other) => return Err(other.unexpected(from, "a halo row from below")),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Returns the end of the range of columns to compute next. Rank 0 chooses it; any other rank computes the columns that it has received from the
    /// rank above.
    fn strip_end(&self) -> usize {
        let end = match self.position.above() {
            Some(_) => self.above_until,
            None => self.column.saturating_add(self.strip_width.width() as usize),
        };
        end.min(self.inner.end)
    }

    /// Begins the movement of rows that rank 0 has ordered before the present sweep, or, if there is none, the sweep itself.
    fn between(&mut self) -> GridAction {
        if let Some(movement) = self.movement.as_ref().filter(|m| m.before == self.sweep) {
            self.phase = Phase::Moving(RowMigration::new(movement, self.position));
            return GridAction::Moving;
        }
        self.begin_sweep();
        GridAction::Boundary(self.sweep)
    }
}

impl<T: Pod + Send> Storage for LocalRows<T> {
    fn whereabouts(&self, sweep: u64, piece: &Range<usize>) -> String {
        self.edges().place(sweep, self.numbers(&(0..self.len())), piece, self.width())
    }
}

impl<T: Pod + Send> GridWorker for Wavefront<T> {
    fn next(&mut self, out: &mut dyn NeighbourSender) -> Result<GridAction> {
        match &mut self.phase {
            Phase::Sweeping(()) => {
                if let Some(above) = self.position.above()
                    && self.above_until <= self.column
                    && !self.take_above(above, out)?
                {
                    return Ok(GridAction::Wait);
                }
                let end = self.strip_end();
                if end <= self.column {
                    let text = format!("halo values that end at column {}", self.above_until);
                    let from = self.position.above().unwrap_or(0);
                    return Err(unexpected(from, &text, &format!("values beyond column {}", self.column)));
                }
                if self.below_until < end && !self.take_below(end)? {
                    return Ok(GridAction::Wait);
                }
                self.end = end;
                Ok(GridAction::Compute(self.column..end))
            }
            Phase::Between if self.sweep == self.sweeps => {
                self.phase = Phase::Closing;
                self.next(out)
            }
            Phase::Between => Ok(self.between()),
            Phase::Moving(migration) => {
                if !migration.advance(self.position, &mut self.local, &mut self.queues, out)? {
                    return Ok(GridAction::Wait);
                }
                let (sent, received) = (migration.sent, migration.received);
                self.end_movement(out)?;
                self.phase = Phase::MovementDone;
                Ok(GridAction::MovementDone { sent, received })
            }
            Phase::MovementDone => {
                self.begin_sweep();
                Ok(GridAction::Boundary(self.sweep))
            }
            Phase::Closing => {
                // Waits for the whole lower halo row of the last sweep, because the next run of the loop begins with it.
                let width = self.local.width();
                Ok(if self.take_below(width)? { GridAction::Done } else { GridAction::Wait })
            }
        }
    }

    fn lend(&mut self) -> Box<dyn Storage> {
        self.carrier.lend(self.local.lend())
    }

    fn take_back(&mut self, storage: Box<dyn Storage>) -> Result<()> {
        self.local = self.carrier.take_back(storage)?.lend();
        Ok(())
    }

    fn computed(&mut self, out: &mut dyn NeighbourSender) -> Result<()> {
        let strip = self.column..self.end;
        self.column = strip.end;
        self.done += 1;
        let is_last = strip.end == self.inner.end;
        if let Some(below) = self.position.below() {
            let columns = self.with_edges(strip.clone());
            let row = HaloRow::of(self.sweep, columns, self.local.last());
            out.send(below, ToNeighbour::HaloRow(row))?;
        }
        if let Some(above) = self.position.above()
            && (is_last || strip.end - self.sent_until >= self.inner.len().div_ceil(SEGMENTS))
            && !self.is_above_moving()
        {
            let end = if is_last { self.local.width() } else { strip.end };
            let row = HaloRow::of(self.sweep, self.sent_until..end, self.local.first());
            out.send(above, ToNeighbour::HaloRow(row))?;
            self.sent_until = end;
        }
        if is_last {
            self.sweep += 1;
            self.below_until = if self.position.below().is_some() { 0 } else { self.local.width() };
            self.phase = Phase::Between;
        }
        Ok(())
    }

    fn receive(&mut self, from: usize, message: ToNeighbour<Bytes>) -> Result<()> {
        self.queues.receive(from, message)
    }

    fn carry_out(&mut self, directive: Directive, out: &mut dyn NeighbourSender) -> Result<()> {
        if let Some(below) = self.position.below() {
            out.send(below, ToNeighbour::Directive(directive.clone()))?;
        }
        // A directive of rank 0 changes how a sweep is done, so it must arrive before the rank begins the sweep.
        if directive.sweep != self.sweep || self.column != self.inner.start {
            let text = format!("a directive for sweep {} in sweep {}", directive.sweep, self.sweep);
            return Err(unexpected(0, &text, "a directive before the sweep begins"));
        }
        self.report_after = directive.report_after;
        if directive.movement.is_some() {
            self.movement = directive.movement;
        }
        self.save_before = directive.save_before.or(self.save_before);
        Ok(())
    }

    fn stop(&mut self) {
        self.sweeps = self.sweep;
        self.phase = Phase::Closing;
    }

    fn awaits_sender(&self) -> bool {
        matches!(&self.phase, Phase::Moving(migration) if migration.awaits_sender())
    }

    fn report_after(&self) -> u64 {
        self.report_after
    }

    fn probed_neighbour(&self) -> Option<usize> {
        self.strip_width.wants_shift().then(|| self.local.width() * size_of::<T>())
    }

    fn know_costs(&mut self, empty: f64, full: f64) {
        self.strip_width.know_shift(ShiftCost::measured(empty, self.local.width() as u64, full));
    }

    fn tune(&mut self, seconds: Option<f64>, most: u64) -> Option<(u64, String)> {
        let has_new_rows = std::mem::take(&mut self.has_new_rows);
        let chosen = match seconds {
            Some(seconds) if !has_new_rows => self.strip_width.on_sweep(seconds),
            _ => {
                self.strip_width.disturb();
                None
            }
        };
        if chosen.is_some() || self.most == 0 {
            self.most = most;
        } else if most.max(self.most) as f64 > MUCH * most.min(self.most) as f64 {
            self.most = most;
            self.strip_width.restart();
        }
        chosen.map(|why| (self.strip_width.width(), why))
    }

    fn grain(&self) -> u64 {
        self.strip_width.width()
    }

    fn block_size(&self) -> u64 {
        self.strip_width.width()
    }

    fn delay(&self) -> u64 {
        // Rows can move one sweep after the directive: a rank begins a sweep only when it has received a part of the upper halo row, which arrives
        // after rank 0's directive, so no rank is ahead of a directive.
        1
    }

    fn save_before(&self) -> Option<u64> {
        self.save_before
    }

    fn pieces(&self) -> Vec<CheckpointPiece> {
        self.local.pieces()
    }

    fn held(&self) -> u64 {
        self.local.len() as u64
    }

    fn units(&self, piece: &Range<usize>) -> f64 {
        self.local.len() as f64 * piece.len() as f64 / self.inner.len() as f64
    }

    fn sweep(&self) -> u64 {
        self.sweep
    }

    fn part_done(&self) -> f64 {
        self.part()
    }

    fn waiting_for(&self) -> String {
        self.waiting()
    }
}

#[cfg(test)]
#[path = "wavefront_tests.rs"]
mod tests;
