//! The engine of a stencil loop: what a rank does when, without clock and transport. `README.md` has the protocol.

use std::ops::Range;

use bytemuck::Pod;

use super::block::Block;
use super::machine::{Machine, Step};
use super::mail::{Border, Mail, Next, Out, Place, next, send_told, unexpected};
use super::neighbours::Neighbours;
use super::orders::{Movement, Orders};
use super::relocation::Relocation;
use crate::comm::message::Tag;
use crate::error::Result;
use crate::loops::checkpoint::Piece;

/// Where a rank is in its sweep.
#[derive(Debug)]
enum Phase {
    /// Before the sweep.
    Between,
    /// Rows move before it.
    Moving(Relocation),
    /// Rows have moved; the next step is the boundary.
    Moved,
    /// Which of its bands is next: the first row, the last, those between.
    Band(usize),
    /// After the last sweep.
    Closing,
}

/// One rank's part of a stencil loop.
#[derive(Debug)]
pub(super) struct Halo<T> {
    place: Place,
    /// The rows as they are, with ghosts.
    pub(super) old: Block<T>,
    /// The same rows after the sweep; its ghosts mean nothing.
    new: Block<T>,
    sweeps: u64,
    sweep: u64,
    phase: Phase,
    /// Whether the ghosts of `old` are as the rows are.
    above_ready: bool,
    below_ready: bool,
    mail: Neighbours,
    movement: Option<Movement>,
    report_after: u64,
    save_before: Option<u64>,
}

impl<T: Pod + Send> Halo<T> {
    /// Both ghosts of `block` are as its rows.
    pub(super) fn new(place: Place, block: Block<T>, sweeps: u64) -> Self {
        Halo {
            place,
            new: block.clone(),
            old: block,
            sweeps,
            sweep: 0,
            phase: Phase::Between,
            above_ready: true,
            below_ready: true,
            mail: Neighbours::of(place),
            movement: None,
            report_after: 0,
            save_before: None,
        }
    }

    /// The rows as they were, around a band, and the band as it is to be.
    pub(super) fn band(&mut self, rows: &Range<usize>) -> (super::grid::OldGrid<'_, T>, &mut [T]) {
        (self.old.around(rows), self.new.band(rows))
    }

    /// Takes the rows of both neighbours as they are after the sweep before; false if they have not come.
    fn take_ghosts(&mut self, out: &mut dyn Out) -> Result<bool> {
        while let Some(from) = self.place.above()
            && !self.above_ready
        {
            match next(&mut self.mail.above, from)? {
                Next::Border(border) => {
                    self.above_ready = self.fill(&border, from, true)?;
                }
                Next::Orders(orders) => self.order(orders, out)?,
                Next::Nothing => return Ok(false),
            }
        }
        if let Some(from) = self.place.below()
            && !self.below_ready
        {
            match next(&mut self.mail.below, from)? {
                Next::Border(border) => self.below_ready = self.fill(&border, from, false)?,
                Next::Orders(_) => return Err(unexpected(from, "orders", "a border from below")),
                Next::Nothing => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Writes a border, which must be a whole row, to its ghost.
    fn fill(&mut self, border: &Border, from: usize, is_above: bool) -> Result<bool> {
        let width = self.old.width();
        let ghost = if is_above { self.old.upper() } else { self.old.lower() };
        let end = border.write(ghost, self.sweep.wrapping_sub(1), 0, from)?;
        if end != width {
            return Err(unexpected(from, &format!("{end} values of a row"), &format!("{width}")));
        }
        Ok(true)
    }

    /// Sends the rows at the ends of `rows` to those who need them, where `to` says so.
    fn send_ends(&self, rows: &Block<T>, sweep: u64, crossed: bool, out: &mut dyn Out) -> Result<()> {
        let moves = |lower: usize| {
            self.movement
                .as_ref()
                .is_some_and(|movement| movement.before == sweep + 1 && movement.crossing(lower).is_some())
        };
        let width = rows.width();
        if let Some(above) = self.place.above()
            && moves(above) == crossed
        {
            Border::send(out, above, sweep, 0..width, rows.first())?;
        }
        if let Some(below) = self.place.below()
            && moves(self.place.rank) == crossed
        {
            Border::send(out, below, sweep, 0..width, rows.last())?;
        }
        Ok(())
    }

    /// Which rows a band has.
    fn rows_of(&self, band: usize) -> Range<usize> {
        let len = self.old.len();
        match band {
            0 => 0..1,
            1 => len - 1..len,
            _ => 1..len - 1,
        }
    }

    /// Goes on with the part in a movement; `None` if something has to come first.
    fn relocate(&mut self, out: &mut dyn Out) -> Result<Option<(u64, u64)>> {
        // Orders may come before rows.
        while self.mail.above.front().is_some_and(|mail| mail.tag == Tag::Orders) {
            let from = self.place.above().unwrap_or(0);
            if let Next::Orders(orders) = next(&mut self.mail.above, from)? {
                self.order(orders, out)?;
            }
        }
        let Phase::Moving(relocation) = &mut self.phase else { return Ok(None) };
        if !relocation.advance(self.place, &mut self.old, &mut self.mail, out)? {
            return Ok(None);
        }
        let told = (relocation.sent, relocation.received);
        // Borders that were not sent, because they would have been of other rows.
        self.send_ends(&self.old, self.sweep - 1, true, out)?;
        self.movement = None;
        self.new.clone_from(&self.old);
        Ok(Some(told))
    }
}

impl<T: Pod + Send> Machine for Halo<T> {
    /// Rows, counted from the first of the block.
    type Piece = Range<usize>;

    fn next(&mut self, out: &mut dyn Out) -> Result<Step<Range<usize>>> {
        match &mut self.phase {
            Phase::Band(band) => {
                let band = *band;
                if band == 0 && !self.take_ghosts(out)? {
                    return Ok(Step::Wait);
                }
                Ok(Step::Compute(self.rows_of(band)))
            }
            Phase::Between if self.sweep == self.sweeps => {
                self.phase = Phase::Closing;
                self.next(out)
            }
            Phase::Between => {
                if let Some(movement) = self.movement.as_ref().filter(|m| m.before == self.sweep) {
                    self.phase = Phase::Moving(Relocation::new(movement, self.place));
                    return Ok(Step::Moving);
                }
                self.phase = Phase::Band(0);
                Ok(Step::Boundary(self.sweep))
            }
            Phase::Moving(_) => match self.relocate(out)? {
                Some((sent, received)) => {
                    self.phase = Phase::Moved;
                    Ok(Step::Moved { sent, received })
                }
                None => Ok(Step::Wait),
            },
            Phase::Moved => {
                self.phase = Phase::Band(0);
                Ok(Step::Boundary(self.sweep))
            }
            Phase::Closing => Ok(if self.take_ghosts(out)? { Step::Done } else { Step::Wait }),
        }
    }

    fn computed(&mut self, out: &mut dyn Out) -> Result<()> {
        let Phase::Band(band) = self.phase else { return Ok(()) };
        let len = self.old.len();
        // The ends are done: with fewer than two rows after the first band.
        if band == 1 || len == 1 {
            self.send_ends(&self.new, self.sweep, false, out)?;
        }
        if band + 1 < len.min(3) {
            self.phase = Phase::Band(band + 1);
            return Ok(());
        }
        // Fixed rows at the ends of the grid are ghosts of the old rows only.
        if self.place.above().is_none() {
            self.new.upper().copy_from_slice(self.old.upper());
        }
        if self.place.below().is_none() {
            self.new.lower().copy_from_slice(self.old.lower());
        }
        std::mem::swap(&mut self.old, &mut self.new);
        self.sweep += 1;
        self.above_ready = self.place.above().is_none();
        self.below_ready = self.place.below().is_none();
        self.phase = Phase::Between;
        Ok(())
    }

    fn receive(&mut self, from: usize, mail: Mail) -> Result<()> {
        self.mail.receive(from, mail)
    }

    fn order(&mut self, orders: Orders, out: &mut dyn Out) -> Result<()> {
        if let Some(below) = self.place.below() {
            send_told(out, Tag::Orders, below, &orders)?;
        }
        self.report_after = orders.report_after;
        self.save_before = orders.save_before.or(self.save_before);
        if let Some(movement) = orders.movement {
            if movement.before <= self.sweep || self.movement.is_some() {
                let text =
                    format!("orders to move rows before sweep {} in sweep {}", movement.before, self.sweep);
                return Err(unexpected(0, &text, "a later sweep, and one movement at a time"));
            }
            self.movement = Some(movement);
        }
        Ok(())
    }

    fn awaits_mover(&self) -> bool {
        matches!(&self.phase, Phase::Moving(relocation) if relocation.awaits_sender())
    }

    fn report_after(&self) -> u64 {
        self.report_after
    }

    fn delay(&self) -> u64 {
        // Each rank can be a sweep ahead of the one above it, from which it has its orders.
        self.place.chain as u64
    }

    fn save_before(&self) -> Option<u64> {
        self.save_before
    }

    fn pieces(&self) -> Vec<Piece> {
        self.old.pieces()
    }

    fn held(&self) -> u64 {
        self.old.len() as u64
    }

    fn units(&self, piece: &Range<usize>) -> f64 {
        piece.len() as f64
    }

    fn whereabouts(&self, piece: &Range<usize>) -> String {
        let first = self.old.rows().start;
        let rows = first + piece.start as u64..first + piece.end as u64;
        format!("sweep {}, rows {rows:?}", self.sweep)
    }

    fn waiting_for(&self) -> String {
        match &self.phase {
            Phase::Moving(relocation) => relocation.waiting_for(),
            _ => {
                let from = if self.above_ready { self.place.below() } else { self.place.above() };
                format!(
                    "for the border of sweep {}{}",
                    self.sweep.saturating_sub(1),
                    from.map_or(String::new(), |rank| format!(" from rank {rank}"))
                )
            }
        }
    }
}

#[cfg(test)]
#[path = "halo_tests.rs"]
mod tests;
