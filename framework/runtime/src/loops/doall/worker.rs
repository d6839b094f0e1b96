//! What every rank does in a DOALL loop: its units, the directives that it carries out, and when it reports.

use std::time::Duration;

use super::messages::{Command, Directive, UnitMigration};
use super::unit_queue::{Segment, UnitBlock, UnitQueue};
use crate::error::{Error, ErrorKind, Result};
use crate::loops::units::Units;

/// Seconds until the first report: long enough to tell a rate, short enough to know it early.
const FIRST_PERIOD: f64 = 0.02;

/// A movement of which this rank has not made its part yet.
#[derive(Debug, Default)]
struct OpenMovement {
    /// Ranks whose units have not come.
    senders: Vec<usize>,
    sent: u64,
    received: u64,
}

/// A movement of which this rank has made its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartDone {
    pub(super) sent: u64,
    pub(super) received: u64,
}

/// Units that move, and their receiver.
pub(super) type Addressed<U> = (usize, UnitMigration<U>);

/// One rank's state. It has no clock and sends nothing.
#[derive(Debug)]
pub(super) struct Worker<U> {
    rank: usize,
    pub(super) unit_queue: UnitQueue<U>,
    /// The number of the directive that was carried out last.
    round: u64,
    /// From 1.
    pass: u64,
    /// How often a unit is done in each pass: once, or as often as in all the passes that this one stands for.
    times: u64,
    /// Units done in this pass; one that was done several times counts as often.
    done: u64,
    /// Has reported since that directive.
    reported: bool,
    /// Has done a block since its last report.
    worked: bool,
    /// What it had done when it last reported that it has run out of units.
    reported_idle: Option<u64>,
    report_soon: bool,
    period: f64,
    open: Option<OpenMovement>,
    part_done: Option<PartDone>,
    /// Units whose directive has not come here yet, and who sent them.
    early: Vec<(usize, UnitMigration<U>)>,
    over: bool,
}

impl<U: Units> Worker<U> {
    pub(super) fn new() -> Self {
        Worker {
            rank: 0,
            unit_queue: UnitQueue::new(),
            round: 0,
            pass: 1,
            times: 1,
            done: 0,
            reported: false,
            worked: false,
            reported_idle: None,
            report_soon: false,
            period: FIRST_PERIOD,
            open: None,
            part_done: None,
            early: Vec::new(),
            over: false,
        }
    }

    /// A run begins on rank `rank`: all units are to be done, `times` times in each pass. With `eager` it reports at every hook.
    pub(super) fn begin(&mut self, rank: usize, times: u64, eager: bool) {
        let unit_queue = std::mem::replace(&mut self.unit_queue, UnitQueue::new());
        *self = Worker { rank, unit_queue, times, ..Worker::new() };
        if eager {
            self.period = 0.0;
        }
        self.unit_queue.begin(times);
    }

    /// Takes units in that were made when the run had begun.
    pub(super) fn take_made(&mut self, units: Segment<U>) {
        self.unit_queue.receive(units);
        self.unit_queue.begin(self.times);
    }

    /// Carries a directive out; returns what is to be sent.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if they do not follow those before.
    pub(super) fn carry_out(&mut self, directive: &Directive) -> Result<Vec<Addressed<U>>> {
        if directive.what == Command::ReportSoon {
            self.report_soon |= directive.round == self.round;
            return Ok(Vec::new());
        }
        if directive.round != self.round + 1 || self.open.is_some() {
            let text = format!("directive number {} came behind number {}", directive.round, self.round);
            return Err(Error::new(ErrorKind::Wire, text));
        }
        (self.round, self.period, self.report_soon) = (directive.round, directive.period, false);
        match directive.what {
            Command::End => {
                self.over = true;
                self.take_early()?;
                let left = self.early.first();
                return left
                    .map_or(Ok(Vec::new()), |(from, migration)| Err(unordered(*from, migration.round)));
            }
            Command::BeginPass => {
                self.pass += 1;
                self.done = 0;
                self.unit_queue.begin(self.times);
            }
            Command::Continue | Command::ReportSoon => {}
        }
        let changes = directive.what == Command::BeginPass || !directive.moves.is_empty();
        // A rank that has nothing to do and gets nothing new has nothing to report either.
        self.reported = !changes && self.reported_idle.is_some() && self.is_idle();
        if changes {
            self.reported_idle = None;
        }
        if directive.moves.is_empty() {
            return self.take_early().map(|()| Vec::new());
        }
        let left = self.unit_queue.undone();
        let mut open = OpenMovement::default();
        let mut migrations = Vec::new();
        for transfer in &directive.moves {
            if transfer.from == self.rank {
                let segments = self.unit_queue.take_back(transfer.of_those_left(left));
                let migration = UnitMigration { round: self.round, segments };
                open.sent += migration.len();
                migrations.push((transfer.to, migration));
            } else if transfer.to == self.rank {
                open.senders.push(transfer.from);
            }
        }
        self.open = Some(open);
        self.take_early()?;
        self.settle();
        Ok(migrations)
    }

    /// Takes units in that came before the directive which has been carried out now.
    fn take_early(&mut self) -> Result<()> {
        let round = self.round;
        let early = std::mem::take(&mut self.early);
        let (now, later) =
            early.into_iter().partition::<Vec<_>, _>(|(_, migration)| migration.round == round);
        self.early = later;
        now.into_iter().try_for_each(|(from, migration)| self.accept(from, migration))
    }

    /// Units have come.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if no directive has sent them, or they have nothing to do.
    pub(super) fn accept(&mut self, from: usize, migration: UnitMigration<U>) -> Result<()> {
        if migration.round > self.round {
            // The directive is still on its way from rank 0. So may be those before it, for which rank 0 does not wait to be
            // answered where they move nothing and the rank has nothing to do.
            self.early.push((from, migration));
            return Ok(());
        }
        let round = migration.round;
        let expected = self.open.as_mut().filter(|_| round == self.round).and_then(|open| {
            let at = open.senders.iter().position(|&sender| sender == from)?;
            open.senders.swap_remove(at);
            Some(open)
        });
        let Some(open) = expected else { return Err(unordered(from, round)) };
        if let Some(segment) = migration.segments.iter().find(|s| !(1..=self.times).contains(&s.left)) {
            let (unit, left) = (segment.first, segment.left);
            let text = format!("rank {from} sent unit {unit} to be done {left} times of {}", self.times);
            return Err(Error::new(ErrorKind::Wire, text));
        }
        open.received += migration.len();
        migration.segments.into_iter().for_each(|segment| self.unit_queue.receive(segment));
        self.settle();
        Ok(())
    }

    /// Closes a movement of which everything has come.
    fn settle(&mut self) {
        if let Some(open) = self.open.take_if(|open| open.senders.is_empty()) {
            self.part_done = Some(PartDone { sent: open.sent, received: open.received });
        }
    }

    /// The movement of which this rank has made its part since this was last asked.
    pub(super) fn take_part_done(&mut self) -> Option<PartDone> {
        self.part_done.take()
    }

    /// The next units to do, at most `most`.
    pub(super) fn next(&mut self, most: u64) -> Option<UnitBlock> {
        self.unit_queue.next(most)
    }

    /// They are done.
    pub(super) fn finished(&mut self, block: &UnitBlock) {
        self.done += block.len();
        self.worked = true;
        self.unit_queue.finished(block);
    }

    /// Whether a report is due, `since` after the last one. Ranks that compute report once a round, so that rank 0 is never
    /// flooded; a rank that becomes idle reports at once, but not before the units have come that are on their way here.
    pub(super) fn is_to_report(&self, since: impl FnOnce() -> Duration) -> bool {
        if self.open.is_some() {
            return false;
        }
        if self.is_idle() {
            return !self.over && self.reported_idle != Some(self.done);
        }
        // Without a block in between, ranks could report and move units for ever, and nothing would be done.
        !self.reported && self.worked && (self.report_soon || since().as_secs_f64() >= self.period)
    }

    /// It has reported.
    pub(super) fn has_reported(&mut self) {
        self.reported = true;
        (self.report_soon, self.worked) = (false, false);
        self.reported_idle = self.is_idle().then_some(self.done);
    }

    /// Whether it has reported, and not been answered.
    pub(super) fn is_unanswered(&self) -> bool {
        self.reported
    }

    /// Whether it has nothing to do.
    pub(super) fn is_idle(&self) -> bool {
        self.unit_queue.undone() == 0
    }

    /// Whether the run is over.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// The number of the directive that was carried out last.
    pub(super) fn round(&self) -> u64 {
        self.round
    }

    /// The pass of the unit that is done next, from 1; of the last one where there is none.
    pub(super) fn pass(&self) -> u64 {
        self.pass + self.times - self.unit_queue.left().clamp(1, self.times)
    }

    /// Units done in this pass; one that was done several times counts as often.
    pub(super) fn done(&self) -> u64 {
        self.done
    }

    /// What it waits for while it has nothing to do.
    pub(super) fn waits_for(&self) -> String {
        match &self.open {
            Some(open) => {
                format!("for units from ranks {:?}, by directive number {}", open.senders, self.round)
            }
            None => format!(
                "for rank 0 to decide how pass {} goes on; all {} units that were here are done",
                self.pass(),
                self.unit_queue.held()
            ),
        }
    }
}

/// An error: these units should not have been sent.
fn unordered(from: usize, round: u64) -> Error {
    let text = format!("rank {from} sent units by directive number {round}, which does not order that");
    Error::new(ErrorKind::Wire, text)
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
