//! What every rank does in a DOALL loop: its units, the orders that it has carried out, and when it reports.

use std::time::Duration;

use super::messages::{Orders, Shipment, What};
use super::stock::{Block, Stock};
use crate::error::{Error, ErrorKind, Result};
use crate::loops::units::Units;

/// Seconds until the first report: long enough to tell a rate, short enough to know it early.
const FIRST_PERIOD: f64 = 0.02;

/// A movement of which this rank has not made its part yet.
#[derive(Debug, Default)]
struct Open {
    /// Ranks whose units have not come.
    senders: Vec<usize>,
    sent: u64,
    received: u64,
}

/// A movement of which this rank has made its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) sent: u64,
    pub(super) received: u64,
}

/// A shipment and whom it is for.
pub(super) type Addressed<U> = (usize, Shipment<U>);

/// One rank's state. It has no clock and sends nothing.
#[derive(Debug)]
pub(super) struct Member<U> {
    rank: usize,
    pub(super) stock: Stock<U>,
    /// The orders that were carried out last.
    round: u64,
    /// From 1.
    pass: u64,
    /// How often a unit is done in each pass: once, or as often as in all the passes that this one stands for.
    times: u64,
    /// Units done in this pass; those done several times count as so many.
    done: u64,
    /// Has reported since these orders.
    reported: bool,
    /// Has done a block since its last report.
    worked: bool,
    /// What it had done when it last reported that it has run dry.
    told_dry: Option<u64>,
    hurried: bool,
    period: f64,
    open: Option<Open>,
    made: Option<Made>,
    /// Shipments of orders that have not come here yet, and who sent them.
    early: Vec<(usize, Shipment<U>)>,
    over: bool,
}

impl<U: Units> Member<U> {
    pub(super) fn new(rank: usize) -> Self {
        Member {
            rank,
            stock: Stock::new(),
            round: 0,
            pass: 1,
            times: 1,
            done: 0,
            reported: false,
            worked: false,
            told_dry: None,
            hurried: false,
            period: FIRST_PERIOD,
            open: None,
            made: None,
            early: Vec::new(),
            over: false,
        }
    }

    /// A run begins: all units are to be done, so many times in each pass. With `eager` it reports at every hook.
    pub(super) fn begin(&mut self, times: u64, eager: bool) {
        let stock = std::mem::replace(&mut self.stock, Stock::new());
        *self = Member { stock, times, ..Member::new(self.rank) };
        if eager {
            self.period = 0.0;
        }
        self.stock.begin(times);
    }

    /// Carries orders out; returns what is to be sent.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if they do not follow those before.
    pub(super) fn obey(&mut self, orders: &Orders) -> Result<Vec<Addressed<U>>> {
        if orders.what == What::Hurry {
            self.hurried |= orders.round == self.round;
            return Ok(Vec::new());
        }
        if orders.round != self.round + 1 || self.open.is_some() {
            let text = format!("orders number {} came behind number {}", orders.round, self.round);
            return Err(Error::new(ErrorKind::Wire, text));
        }
        (self.round, self.period, self.hurried) = (orders.round, orders.period, false);
        match orders.what {
            What::End => {
                self.over = true;
                return Ok(Vec::new());
            }
            What::Begin => {
                self.pass += 1;
                self.done = 0;
                self.stock.begin(self.times);
            }
            What::Go | What::Hurry => {}
        }
        let changes = orders.what == What::Begin || !orders.moves.is_empty();
        // Who has nothing to do and is not told anything new has nothing to say either.
        self.reported = !changes && self.told_dry.is_some() && self.is_dry();
        if changes {
            self.told_dry = None;
        }
        if orders.moves.is_empty() {
            return Ok(Vec::new());
        }
        let left = self.stock.undone();
        let mut open = Open::default();
        let mut shipments = Vec::new();
        for transfer in &orders.moves {
            if transfer.from == self.rank {
                let segments = self.stock.ship(transfer.of_those_left(left));
                let shipment = Shipment { round: self.round, segments };
                open.sent += shipment.len();
                shipments.push((transfer.to, shipment));
            } else if transfer.to == self.rank {
                open.senders.push(transfer.from);
            }
        }
        self.open = Some(open);
        for (from, shipment) in std::mem::take(&mut self.early) {
            self.accept(from, shipment)?;
        }
        self.settle();
        Ok(shipments)
    }

    /// Units have come.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if they were not ordered, or have nothing to do.
    pub(super) fn accept(&mut self, from: usize, shipment: Shipment<U>) -> Result<()> {
        if shipment.round == self.round + 1 {
            // The orders are still on their way from rank 0.
            self.early.push((from, shipment));
            return Ok(());
        }
        let round = shipment.round;
        let expected = self.open.as_mut().filter(|_| round == self.round).and_then(|open| {
            let at = open.senders.iter().position(|&sender| sender == from)?;
            open.senders.swap_remove(at);
            Some(open)
        });
        let Some(open) = expected else {
            let text = format!("rank {from} sent units by orders number {round}, which do not say so");
            return Err(Error::new(ErrorKind::Wire, text));
        };
        if let Some(segment) = shipment.segments.iter().find(|s| !(1..=self.times).contains(&s.left)) {
            let (unit, left) = (segment.first, segment.left);
            let text = format!("rank {from} sent unit {unit} to be done {left} times of {}", self.times);
            return Err(Error::new(ErrorKind::Wire, text));
        }
        open.received += shipment.len();
        shipment.segments.into_iter().for_each(|segment| self.stock.receive(segment));
        self.settle();
        Ok(())
    }

    /// Closes a movement of which everything has come.
    fn settle(&mut self) {
        if let Some(open) = self.open.take_if(|open| open.senders.is_empty()) {
            self.made = Some(Made { sent: open.sent, received: open.received });
        }
    }

    /// The movement of which this rank has made its part since this was last asked.
    pub(super) fn take_made(&mut self) -> Option<Made> {
        self.made.take()
    }

    /// The next units to do, at most `most`.
    pub(super) fn next(&mut self, most: u64) -> Option<Block> {
        self.stock.next(most)
    }

    /// They are done.
    pub(super) fn finished(&mut self, block: &Block) {
        self.done += block.len();
        self.worked = true;
        self.stock.finished(block);
    }

    /// Whether a report is due, `since` after the last one. Ranks that compute report once a round, so that rank 0 is never
    /// flooded; who runs dry says so at once, but not before the units have come that are on their way here.
    pub(super) fn is_to_report(&self, since: impl FnOnce() -> Duration) -> bool {
        if self.open.is_some() {
            return false;
        }
        if self.is_dry() {
            return !self.over && self.told_dry != Some(self.done);
        }
        // Without a block in between, ranks could report and be told to move units for ever, and nothing would be done.
        !self.reported && self.worked && (self.hurried || since().as_secs_f64() >= self.period)
    }

    /// It has reported.
    pub(super) fn has_reported(&mut self) {
        self.reported = true;
        (self.hurried, self.worked) = (false, false);
        self.told_dry = self.is_dry().then_some(self.done);
    }

    /// Whether it has reported, and not been answered.
    pub(super) fn is_unanswered(&self) -> bool {
        self.reported
    }

    /// Whether it has nothing to do.
    pub(super) fn is_dry(&self) -> bool {
        self.stock.undone() == 0
    }

    /// Whether the run is over.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// The orders that were carried out last.
    pub(super) fn round(&self) -> u64 {
        self.round
    }

    /// The pass of the unit that is done next, from 1; of the last one where there is none.
    pub(super) fn pass(&self) -> u64 {
        self.pass + self.times - self.stock.left().clamp(1, self.times)
    }

    /// Units done in this pass; those done several times count as so many.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// What it waits for while it has nothing to do.
    pub(super) fn waits_for(&self) -> String {
        match &self.open {
            Some(open) => format!("for units from ranks {:?}, by orders number {}", open.senders, self.round),
            None => format!(
                "for rank 0 to say how pass {} goes on; all {} units that were here are done",
                self.pass(),
                self.stock.held()
            ),
        }
    }
}

#[cfg(test)]
#[path = "member_tests.rs"]
mod tests;
