//! Worker of a stencil loop on one rank: a state machine without clock and transport. `README.md` describes the protocol.

use std::collections::VecDeque;
use std::ops::Range;

use bytemuck::Pod;
use bytes::Bytes;

use super::directive::{Directive, Movement};
use super::local_rows::LocalRows;
use super::messages::{HaloRow, NeighbourSender, ToNeighbour, unexpected};
use super::neighbours::{Neighbours, Position};
use super::row_migration::RowMigration;
use super::shape::Edges;
use super::view::OldGrid;
use super::worker::{Carrier, GridAction, GridWorker, Phase, Storage};
use crate::error::Result;
use crate::persist::snapshot::CheckpointPiece;

#[derive(Debug)]
pub(super) struct OldAndNew<T> {
    old: LocalRows<T>,
    new: LocalRows<T>,
}

impl<T: Pod> OldAndNew<T> {
    /// Returns the rows `rows` for user code: their old values, with the row above and the row below, and their new values, which user code writes.
    pub(super) fn band(&mut self, rows: &Range<usize>) -> (OldGrid<'_, T>, &mut [T]) {
        (self.old.around(rows), self.new.band(rows))
    }
}

impl<T: Pod + Send> Storage for OldAndNew<T> {
    fn whereabouts(&self, sweep: u64, piece: &Range<usize>) -> String {
        format!("sweep {sweep}, rows {:?}", self.old.numbers(piece))
    }
}

/// One rank's part of a stencil loop: its rows before and after a sweep, and its state.
#[derive(Debug)]
pub(super) struct StencilStep<T> {
    position: Position,
    /// Rank that holds the row at the opposite end of a grid with periodic rows, if this rank holds the first or the last row.
    across: Option<usize>,
    pub(super) old: LocalRows<T>,
    /// Rows of this rank after the sweep. The content of their halo rows is undefined.
    new: LocalRows<T>,
    sweeps: u64,
    sweep: u64,
    /// Phase of the worker. Within a sweep it contains the piece that user code computes next: 0 for the first row, 1 for the last row, 2 for the
    /// rows between them.
    phase: Phase<usize>,
    /// True if the upper halo row of `old` has been received for the present sweep.
    above_ready: bool,
    below_ready: bool,
    queues: Neighbours,
    /// Halo rows received from the rank at the opposite end of a grid with periodic rows.
    wrapped: VecDeque<HaloRow<Bytes>>,
    movement: Option<Movement>,
    report_after: u64,
    save_before: Option<u64>,
    carrier: Carrier<OldAndNew<T>>,
}

impl<T: Pod + Send> StencilStep<T> {
    /// Creates the worker. Both halo rows of `local` must be up to date.
    pub(super) fn new(position: Position, local: LocalRows<T>, sweeps: u64) -> Self {
        StencilStep {
            position,
            across: position.across().filter(|_| matches!(local.edges(), Edges::Periodic(_))),
            new: local.clone(),
            old: local,
            sweeps,
            sweep: 0,
            phase: Phase::Between,
            above_ready: true,
            below_ready: true,
            queues: Neighbours::of(position),
            wrapped: VecDeque::new(),
            movement: None,
            report_after: 0,
            save_before: None,
            carrier: Carrier::new(),
        }
    }

    /// Receives the halo rows of the present sweep (the neighbours' rows after the previous sweep). Returns false if one has not arrived.
    fn take_halo(&mut self, out: &mut dyn NeighbourSender) -> Result<bool> {
        while let Some(from) = self.position.above()
            && !self.above_ready
        {
            match self.queues.above.pop_front() {
                Some(ToNeighbour::HaloRow(row)) => self.above_ready = self.fill(&row, from, true)?,
                Some(ToNeighbour::Directive(directive)) => self.carry_out(directive, out)?,
                Some(other) => return Err(other.unexpected(from, "a halo row or a directive")),
                None => return Ok(false),
            }
        }
        if let Some(from) = self.position.below()
            && !self.below_ready
        {
            match self.queues.below.pop_front() {
                Some(ToNeighbour::HaloRow(row)) => self.below_ready = self.fill(&row, from, false)?,
                Some(other) => return Err(other.unexpected(from, "a halo row from below")),
                None => return Ok(false),
            }
        }
        if let Some(from) = self.across
            && !(self.above_ready && self.below_ready)
        {
            let Some(row) = self.wrapped.pop_front() else { return Ok(false) };
            match self.position.above() {
                None => self.above_ready = self.fill(&row, from, true)?,
                Some(_) => self.below_ready = self.fill(&row, from, false)?,
            }
        }
        Ok(true)
    }

    /// Copies a received row to the upper halo row if `is_above` is true, and to the lower one otherwise. The message must contain
    /// all columns.
    fn fill(&mut self, row: &HaloRow<Bytes>, from: usize, is_above: bool) -> Result<bool> {
        let width = self.old.width();
        let halo = if is_above { self.old.upper() } else { self.old.lower() };
        let end = row.write(halo, self.sweep.wrapping_sub(1), 0, from)?;
        if end != width {
            return Err(unexpected(from, &format!("{end} values of a row"), &format!("{width}")));
        }
        Ok(true)
    }

    /// Sends the first and the last row of `rows` to the neighbours, as halo rows. If `crossed` is true, only
    /// the neighbours with which rows are exchanged before the next sweep receive them; otherwise only the
    /// other neighbours do.
    fn send_ends(
        &self,
        rows: &LocalRows<T>,
        sweep: u64,
        crossed: bool,
        out: &mut dyn NeighbourSender,
    ) -> Result<()> {
        let moves = |lower: usize| {
            self.movement
                .as_ref()
                .is_some_and(|movement| movement.before == sweep + 1 && movement.direction(lower).is_some())
        };
        let width = rows.width();
        if let Some(above) = self.position.above()
            && moves(above) == crossed
        {
            out.send(above, ToNeighbour::HaloRow(HaloRow::of(sweep, 0..width, rows.first())))?;
        }
        if let Some(below) = self.position.below()
            && moves(self.position.rank) == crossed
        {
            out.send(below, ToNeighbour::HaloRow(HaloRow::of(sweep, 0..width, rows.last())))?;
        }
        // No rows ever move between the two ends of a grid with periodic rows.
        if let Some(across) = self.other_end()
            && !crossed
        {
            let row = if self.position.above().is_none() { rows.first() } else { rows.last() };
            out.send(across, ToNeighbour::WrapRow(HaloRow::of(sweep, 0..width, row)))?;
        }
        Ok(())
    }

    /// For an end of a grid with periodic rows, returns the rank at the opposite end, if it is another rank.
    fn other_end(&self) -> Option<usize> {
        self.across.filter(|&across| across != self.position.rank)
    }

    /// Returns the rows of piece `band` of a sweep: 0 is the first row, 1 the last row, 2 all rows between them.
    fn rows_of(&self, band: usize) -> Range<usize> {
        let len = self.old.len();
        match band {
            0 => 0..1,
            1 => len - 1..len,
            _ => 1..len - 1,
        }
    }

    /// Sends and receives the rows that move between this rank and its neighbours. Returns the numbers of rows sent and received, or `None` if the
    /// rank has to wait for rows.
    fn migrate(&mut self, out: &mut dyn NeighbourSender) -> Result<Option<(u64, u64)>> {
        let migrated = loop {
            let Phase::Moving(migration) = &mut self.phase else { return Ok(None) };
            if migration.advance(self.position, &mut self.old, &mut self.queues, out)? {
                break (migration.sent, migration.received);
            }
            // A directive of rank 0 that has arrived before the rows is carried out now; the rows are behind it in the queue.
            match self.queues.above.front() {
                Some(ToNeighbour::Directive(directive)) => {
                    let directive = directive.clone();
                    self.queues.above.pop_front();
                    self.carry_out(directive, out)?;
                }
                _ => return Ok(None),
            }
        };
        // The movement of rows has changed this rank's first or last row, so the neighbours that took part get the new halo row now,
        // and not at the end of the sweep.
        self.send_ends(&self.old, self.sweep - 1, true, out)?;
        self.movement = None;
        self.new.clone_from(&self.old);
        Ok(Some(migrated))
    }
}

impl<T: Pod + Send> GridWorker for StencilStep<T> {
    fn next(&mut self, out: &mut dyn NeighbourSender) -> Result<GridAction> {
        match &mut self.phase {
            Phase::Sweeping(band) => {
                let band = *band;
                if band == 0 && !self.take_halo(out)? {
                    return Ok(GridAction::Wait);
                }
                Ok(GridAction::Compute(self.rows_of(band)))
            }
            Phase::Between if self.sweep == self.sweeps => {
                self.phase = Phase::Closing;
                self.next(out)
            }
            Phase::Between => {
                if let Some(movement) = self.movement.as_ref().filter(|m| m.before == self.sweep) {
                    self.phase = Phase::Moving(RowMigration::new(movement, self.position));
                    return Ok(GridAction::Moving);
                }
                self.phase = Phase::Sweeping(0);
                Ok(GridAction::Boundary(self.sweep))
            }
            Phase::Moving(_) => match self.migrate(out)? {
                Some((sent, received)) => {
                    self.phase = Phase::MovementDone;
                    Ok(GridAction::MovementDone { sent, received })
                }
                None => Ok(GridAction::Wait),
            },
            Phase::MovementDone => {
                self.phase = Phase::Sweeping(0);
                Ok(GridAction::Boundary(self.sweep))
            }
            Phase::Closing => Ok(if self.take_halo(out)? { GridAction::Done } else { GridAction::Wait }),
        }
    }

    fn lend(&mut self) -> Box<dyn Storage> {
        self.carrier.lend(OldAndNew { old: self.old.lend(), new: self.new.lend() })
    }

    fn take_back(&mut self, storage: Box<dyn Storage>) -> Result<()> {
        let OldAndNew { old, new } = self.carrier.take_back(storage)?;
        (self.old, self.new) = (old.lend(), new.lend());
        Ok(())
    }

    fn computed(&mut self, out: &mut dyn NeighbourSender) -> Result<()> {
        let Phase::Sweeping(band) = self.phase else { return Ok(()) };
        let len = self.old.len();
        // The neighbours get their halo rows as soon as this rank's first and last rows (pieces 0 and 1 of a sweep) are computed; a
        // single row is piece 0 only.
        if band == 1 || len == 1 {
            self.send_ends(&self.new, self.sweep, false, out)?;
        }
        if band + 1 < len.min(3) {
            self.phase = Phase::Sweeping(band + 1);
            return Ok(());
        }
        match self.across {
            // No neighbour sends the fixed rows at the ends of the grid, so they are copied from the old to the new rows.
            None => {
                if self.position.above().is_none() {
                    self.new.upper().copy_from_slice(self.old.upper());
                }
                if self.position.below().is_none() {
                    self.new.lower().copy_from_slice(self.old.lower());
                }
            }
            Some(across) if across == self.position.rank => self.new.wrap(),
            Some(_) => {}
        }
        std::mem::swap(&mut self.old, &mut self.new);
        self.sweep += 1;
        let is_at_end = self.other_end().is_none();
        self.above_ready = self.position.above().is_none() && is_at_end;
        self.below_ready = self.position.below().is_none() && is_at_end;
        self.phase = Phase::Between;
        Ok(())
    }

    fn receive(&mut self, from: usize, message: ToNeighbour<Bytes>) -> Result<()> {
        match message {
            ToNeighbour::WrapRow(row) if Some(from) == self.other_end() => self.wrapped.push_back(row),
            message => return self.queues.receive(from, message),
        }
        Ok(())
    }

    fn carry_out(&mut self, directive: Directive, out: &mut dyn NeighbourSender) -> Result<()> {
        if let Some(below) = self.position.below() {
            out.send(below, ToNeighbour::Directive(directive.clone()))?;
        }
        self.report_after = directive.report_after;
        self.save_before = directive.save_before.or(self.save_before);
        if let Some(movement) = directive.movement {
            if movement.before <= self.sweep || self.movement.is_some() {
                let text = format!(
                    "a directive to move rows before sweep {} in sweep {}",
                    movement.before, self.sweep
                );
                return Err(unexpected(0, &text, "a directive for a later sweep, one movement at a time"));
            }
            self.movement = Some(movement);
        }
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

    fn block_size(&self) -> u64 {
        self.held()
    }

    fn delay(&self) -> u64 {
        // A rank can begin a sweep before a directive of the rank above reaches it, so it can be one sweep ahead of that rank. Rows therefore move
        // as many sweeps after rank 0 issues the directive as there are ranks with rows.
        self.position.chain as u64
    }

    fn save_before(&self) -> Option<u64> {
        self.save_before
    }

    fn pieces(&self) -> Vec<CheckpointPiece> {
        self.old.pieces()
    }

    fn held(&self) -> u64 {
        self.old.len() as u64
    }

    fn units(&self, piece: &Range<usize>) -> f64 {
        piece.len() as f64
    }

    fn sweep(&self) -> u64 {
        self.sweep
    }

    fn waiting_for(&self) -> String {
        match &self.phase {
            Phase::Moving(migration) => migration.waiting_for(),
            _ => {
                let neighbour = if self.above_ready { self.position.below() } else { self.position.above() };
                format!(
                    "for the halo row of sweep {}{}",
                    self.sweep.saturating_sub(1),
                    neighbour.or(self.across).map_or(String::new(), |rank| format!(" from rank {rank}"))
                )
            }
        }
    }
}

#[cfg(test)]
#[path = "stencil_step_tests.rs"]
mod tests;
