//! The engine of a DOACROSS loop: what a rank does when, without clock and transport. `README.md` has the protocol.

use std::ops::Range;

use armature_planner::loops::ShiftCost;
use bytemuck::Pod;

use super::block::Block;
use super::machine::{Machine, Step};
use super::mail::{Border, Mail, Next, Out, Place, next, send_told, unexpected};
use super::neighbours::Neighbours;
use super::orders::{Crossing, Movement, Orders};
use super::relocation::Relocation;
use super::strips::Strips;
use crate::comm::message::Tag;
use crate::error::Result;
use crate::loops::checkpoint::Piece;

/// In so many pieces the first row goes to the rank above: the first of them lets it begin its next sweep.
const SEGMENTS: usize = 4;
/// A longest block that changes by more than this factor may be done best in strips of another width.
const MUCH: f64 = 1.5;

/// Where a rank is in its sweep.
#[derive(Debug)]
enum Phase {
    /// Before the sweep: nothing is known of it.
    Between,
    /// Rows move before it.
    Moving(Relocation),
    /// Rows have moved; the next step is the boundary.
    Moved,
    /// In the sweep.
    Sweeping,
    /// After the last.
    Closing,
}

/// One rank's part of a DOACROSS loop.
#[derive(Debug)]
pub(super) struct Sweeper<T> {
    place: Place,
    pub(super) block: Block<T>,
    /// Columns that are computed.
    inner: Range<usize>,
    sweeps: u64,
    /// The sweep that is being done.
    sweep: u64,
    phase: Phase,
    /// On rank 0: how wide strips are.
    pub(super) strips: Strips,
    /// Rows of the rank with the most, when the width was chosen; 0 before.
    most: u64,
    /// Rows have moved since the last tuning.
    has_moved: bool,
    /// Strips done of this sweep.
    done: u64,
    /// First column that is not computed in this sweep.
    column: usize,
    /// Where the strip ends that is being computed.
    end: usize,
    /// First column of the upper ghost that is not of this sweep.
    above_until: usize,
    /// First column of the lower ghost that is not of the sweep before.
    below_until: usize,
    /// First column of the first row that has not gone to the rank above in this sweep.
    told_until: usize,
    mail: Neighbours,
    movement: Option<Movement>,
    save_before: Option<u64>,
    report_after: u64,
}

impl<T: Pod + Send> Sweeper<T> {
    /// Both ghosts of `block` are as after the sweep before the first.
    pub(super) fn new(
        place: Place,
        block: Block<T>,
        inner: Range<usize>,
        sweeps: u64,
        strips: Strips,
    ) -> Self {
        let width = block.width();
        Sweeper {
            place,
            inner,
            sweeps,
            sweep: 0,
            phase: Phase::Between,
            strips,
            most: 0,
            has_moved: false,
            done: 0,
            column: 0,
            end: 0,
            above_until: 0,
            below_until: width,
            told_until: 0,
            mail: Neighbours::of(place),
            movement: None,
            save_before: None,
            report_after: 0,
            block,
        }
    }

    /// Columns that borders of these computed columns have: the fixed ones at either end go along.
    fn with_edges(&self, columns: Range<usize>) -> Range<usize> {
        let start = if columns.start == self.inner.start { 0 } else { columns.start };
        let end = if columns.end == self.inner.end { self.block.width() } else { columns.end };
        start..end
    }

    /// Before sweep `self.sweep`.
    fn begin_sweep(&mut self) {
        self.column = self.inner.start;
        self.done = 0;
        self.told_until = 0;
        self.above_until = if self.place.above().is_some() { 0 } else { self.block.width() };
        self.phase = Phase::Sweeping;
    }

    /// Rows have moved: what is true of the ghosts now, and what the rank above has to be sent.
    fn end_movement(&mut self, out: &mut dyn Out) -> Result<()> {
        let Some(movement) = self.movement.take() else { return Ok(()) };
        self.has_moved = true;
        if self.place.below().is_some() {
            self.below_until = match movement.crossing(self.place.rank) {
                // The first row that went down is the ghost, and it is as after the sweep before.
                Some(Crossing::Down) => self.block.width(),
                Some(Crossing::Up) | None => 0,
            };
        }
        if let Some(above) = self.place.above()
            && movement.crossing(above) == Some(Crossing::Up)
        {
            let width = self.block.width();
            Border::send(out, above, self.sweep - 1, 0..width, self.block.first())?;
        }
        Ok(())
    }

    /// Whether the border to the rank above changes before the next sweep, so that it need not be told of it now.
    fn is_above_moving(&self) -> bool {
        self.movement.as_ref().is_some_and(|movement| {
            movement.before == self.sweep + 1
                && self.place.above().is_some_and(|above| movement.crossing(above).is_some())
        })
    }

    /// Takes the upper border of the strip; false if it has not come. Orders that come before it are passed on.
    #[inline]
    fn take_above(&mut self, from: usize, out: &mut dyn Out) -> Result<bool> {
        loop {
            match next(&mut self.mail.above, from)? {
                Next::Border(border) => {
                    let start = self.above_until;
                    self.above_until = border.write(self.block.upper(), self.sweep, start, from)?;
                    return Ok(true);
                }
                Next::Orders(orders) => self.order(orders, out)?,
                Next::Nothing => return Ok(false),
            }
        }
    }

    /// Takes lower borders of the sweep before until the ghost is known up to this column; false if they have not come.
    #[inline]
    fn take_below(&mut self, until: usize) -> Result<bool> {
        let Some(from) = self.place.below() else { return Ok(true) };
        while self.below_until < until {
            match next(&mut self.mail.below, from)? {
                Next::Border(border) => {
                    let start = self.below_until;
                    self.below_until = border.write(self.block.lower(), self.sweep - 1, start, from)?;
                }
                Next::Orders(_) => return Err(unexpected(from, "orders", "a border from below")),
                Next::Nothing => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Where the strip ends that begins at `self.column`: the rank above has done the same one.
    fn strip_end(&self) -> usize {
        let end = match self.place.above() {
            Some(_) => self.above_until,
            None => self.column.saturating_add(self.strips.width() as usize),
        };
        end.min(self.inner.end)
    }

    /// Before the sweep, when all of the one before is done.
    fn between(&mut self) -> Step<Range<usize>> {
        if let Some(movement) = self.movement.as_ref().filter(|m| m.before == self.sweep) {
            self.phase = Phase::Moving(Relocation::new(movement, self.place));
            return Step::Moving;
        }
        self.begin_sweep();
        Step::Boundary(self.sweep)
    }
}

impl<T: Pod + Send> Machine for Sweeper<T> {
    /// Columns.
    type Piece = Range<usize>;

    #[inline]
    fn next(&mut self, out: &mut dyn Out) -> Result<Step<Range<usize>>> {
        match &mut self.phase {
            Phase::Sweeping => {
                if let Some(above) = self.place.above()
                    && self.above_until <= self.column
                    && !self.take_above(above, out)?
                {
                    return Ok(Step::Wait);
                }
                let end = self.strip_end();
                if end <= self.column {
                    let text = format!("a border that ends at column {}", self.above_until);
                    let from = self.place.above().unwrap_or(0);
                    return Err(unexpected(from, &text, &format!("one beyond {}", self.column)));
                }
                if self.below_until < end && !self.take_below(end)? {
                    return Ok(Step::Wait);
                }
                self.end = end;
                Ok(Step::Compute(self.column..end))
            }
            Phase::Between if self.sweep == self.sweeps => {
                self.phase = Phase::Closing;
                self.next(out)
            }
            Phase::Between => Ok(self.between()),
            Phase::Moving(relocation) => {
                if !relocation.advance(self.place, &mut self.block, &mut self.mail, out)? {
                    return Ok(Step::Wait);
                }
                let (sent, received) = (relocation.sent, relocation.received);
                self.end_movement(out)?;
                self.phase = Phase::Moved;
                Ok(Step::Moved { sent, received })
            }
            Phase::Moved => {
                self.begin_sweep();
                Ok(Step::Boundary(self.sweep))
            }
            Phase::Closing => {
                // What the next run begins with.
                let width = self.block.width();
                Ok(if self.take_below(width)? { Step::Done } else { Step::Wait })
            }
        }
    }

    #[inline]
    fn computed(&mut self, out: &mut dyn Out) -> Result<()> {
        let strip = self.column..self.end;
        self.column = strip.end;
        self.done += 1;
        let is_last = strip.end == self.inner.end;
        if let Some(below) = self.place.below() {
            let columns = self.with_edges(strip.clone());
            Border::send(out, below, self.sweep, columns, self.block.last())?;
        }
        if let Some(above) = self.place.above()
            && (is_last || strip.end - self.told_until >= self.inner.len().div_ceil(SEGMENTS))
            && !self.is_above_moving()
        {
            let end = if is_last { self.block.width() } else { strip.end };
            Border::send(out, above, self.sweep, self.told_until..end, self.block.first())?;
            self.told_until = end;
        }
        if is_last {
            self.sweep += 1;
            self.below_until = if self.place.below().is_some() { 0 } else { self.block.width() };
            self.phase = Phase::Between;
        }
        Ok(())
    }

    fn receive(&mut self, from: usize, mail: Mail) -> Result<()> {
        self.mail.receive(from, mail)
    }

    fn order(&mut self, orders: Orders, out: &mut dyn Out) -> Result<()> {
        if let Some(below) = self.place.below() {
            send_told(out, Tag::Orders, below, &orders)?;
        }
        // Everything that a sweep does differs with these, so they must be here before it begins.
        if orders.sweep != self.sweep || self.column != self.inner.start {
            let text = format!("orders for sweep {} in sweep {}", orders.sweep, self.sweep);
            return Err(unexpected(0, &text, "them before it begins"));
        }
        self.report_after = orders.report_after;
        if orders.movement.is_some() {
            self.movement = orders.movement;
        }
        self.save_before = orders.save_before.or(self.save_before);
        Ok(())
    }

    fn awaits_mover(&self) -> bool {
        matches!(&self.phase, Phase::Moving(relocation) if relocation.awaits_sender())
    }

    fn report_after(&self) -> u64 {
        self.report_after
    }

    fn asks_for_costs(&self) -> Option<usize> {
        self.strips.wants_shift().then(|| self.block.width() * size_of::<T>())
    }

    fn know_costs(&mut self, empty: f64, full: f64) {
        self.strips.know_shift(ShiftCost::measured(empty, self.block.width() as u64, full));
    }

    fn tune(&mut self, seconds: Option<f64>, most: u64) -> Option<(u64, String)> {
        let has_moved = std::mem::take(&mut self.has_moved);
        let chosen = match seconds {
            Some(seconds) if !has_moved => self.strips.lap(seconds),
            _ => {
                self.strips.disturb();
                None
            }
        };
        if chosen.is_some() || self.most == 0 {
            self.most = most;
        } else if most.max(self.most) as f64 > MUCH * most.min(self.most) as f64 {
            self.most = most;
            self.strips.restart();
        }
        chosen.map(|why| (self.strips.width(), why))
    }

    fn grain(&self) -> u64 {
        self.strips.width()
    }

    fn delay(&self) -> u64 {
        // Nobody begins a sweep before it has the border that rank 0 sends in it, after its orders.
        1
    }

    fn save_before(&self) -> Option<u64> {
        self.save_before
    }

    fn pieces(&self) -> Vec<Piece> {
        self.block.pieces()
    }

    fn held(&self) -> u64 {
        self.block.len() as u64
    }

    #[inline]
    fn units(&self, piece: &Range<usize>) -> f64 {
        self.block.len() as f64 * piece.len() as f64 / self.inner.len() as f64
    }

    fn whereabouts(&self, piece: &Range<usize>) -> String {
        format!("sweep {}, rows {:?}, columns {piece:?}", self.sweep, self.block.rows())
    }

    fn waiting_for(&self) -> String {
        let from = |rank: Option<usize>| rank.map_or(String::new(), |rank| format!(" from rank {rank}"));
        match &self.phase {
            Phase::Moving(relocation) => relocation.waiting_for(),
            Phase::Sweeping if self.above_until <= self.column => {
                format!("for strip {} of sweep {}{}", self.done, self.sweep, from(self.place.above()))
            }
            Phase::Sweeping => format!(
                "for columns {}.. of sweep {}{}",
                self.below_until,
                self.sweep.saturating_sub(1),
                from(self.place.below())
            ),
            Phase::Closing => {
                format!("for columns {}.. of the last sweep{}", self.below_until, from(self.place.below()))
            }
            Phase::Between | Phase::Moved => "for nothing".to_string(),
        }
    }
}

#[cfg(test)]
#[path = "sweeper_tests.rs"]
mod tests;
