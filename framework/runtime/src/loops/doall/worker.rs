//! Worker of a DOALL loop on each rank: holds the rank's units (rows or indices), carries out directives of rank 0, and determines when the
//! rank reports its measurements.

use std::time::Duration;

use super::messages::{Command, Directive, UnitMigration};
use super::unit_queue::{Segment, UnitBlock, UnitQueue};
use crate::error::{Error, ErrorKind, Result};
use crate::loops::units::Units;

/// Seconds until a rank first reports its measurements: enough to determine how fast it computes, and short enough for an early decision about
/// units (rows or indices).
const FIRST_PERIOD: f64 = 0.02;

/// Movement of units (rows or indices) between ranks, as long as not all units that this rank is to receive have arrived.
#[derive(Debug, Default)]
struct OpenMovement {
    /// Ranks that send units (rows or indices) to this rank in the movement, and whose units have not arrived yet.
    senders: Vec<usize>,
    sent: u64,
    received: u64,
}

/// Numbers of units (rows or indices) that this rank has sent and received in a movement, once it has sent and received all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartDone {
    pub(super) sent: u64,
    pub(super) received: u64,
}

pub(super) type Addressed<U> = (usize, UnitMigration<U>);

/// Worker of a DOALL loop on one rank. It has no clock and sends no messages.
#[derive(Debug)]
pub(super) struct DoAllWorker<U> {
    rank: usize,
    pub(super) unit_queue: UnitQueue<U>,
    round: u64,
    pass: u64,
    /// Number of times that a unit (row or index) is computed in each pass: one, or more if several passes without barriers between
    /// them are combined to one.
    times: u64,
    done: u64,
    reported: bool,
    /// True if the rank has computed a block (rows or indices of one call of user code) since its last report to rank 0.
    worked: bool,
    /// Value of `done` (number of computations in this pass) when the rank last reported that it had no units (rows or indices) left to
    /// compute.
    reported_idle: Option<u64>,
    report_soon: bool,
    period: f64,
    open: Option<OpenMovement>,
    part_done: Option<PartDone>,
    /// Units (rows or indices) that arrived before the directive of rank 0 that moves them, each with the rank that sent them.
    early: Vec<(usize, UnitMigration<U>)>,
    has_finished: bool,
}

impl<U: Units> DoAllWorker<U> {
    pub(super) fn new() -> Self {
        DoAllWorker {
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
            has_finished: false,
        }
    }

    /// Begins a run in which each unit (row or index) is to be computed `times` times in each pass. If `eager` is true, the rank
    /// reports its measurements after every block.
    pub(super) fn begin(&mut self, rank: usize, times: u64, eager: bool) {
        let unit_queue = std::mem::replace(&mut self.unit_queue, UnitQueue::new());
        *self = DoAllWorker { rank, unit_queue, times, ..DoAllWorker::new() };
        if eager {
            self.period = 0.0;
        }
        self.unit_queue.begin(times);
    }

    /// Adds this rank's first units (rows or indices), which were created after the run had begun.
    pub(super) fn take_initial(&mut self, units: Segment<U>) {
        self.unit_queue.receive(units);
        self.unit_queue.begin(self.times);
    }

    /// Carries out a directive of rank 0, and returns the units (rows or indices) that this rank must send to other ranks.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the directive does not follow the one before.
    pub(super) fn carry_out(&mut self, directive: &Directive) -> Result<Vec<Addressed<U>>> {
        if directive.what == Command::ReportSoon {
            self.report_soon |= directive.round == self.round;
            return Ok(Vec::new());
        }
        if directive.round != self.round + 1 || self.open.is_some() {
            let text = format!("directive number {} arrived after number {}", directive.round, self.round);
            return Err(Error::new(ErrorKind::Wire, text));
        }
        (self.round, self.period, self.report_soon) = (directive.round, directive.period, false);
        match directive.what {
            Command::End => {
                self.has_finished = true;
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
        // An idle rank that has reported that it is idle does not report again after a directive of rank 0 that gives it no units (rows or
        // indices).
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

    /// Adds units (rows or indices) that arrived before the directive of rank 0 that moves them, which this rank has now carried out.
    fn take_early(&mut self) -> Result<()> {
        let round = self.round;
        let early = std::mem::take(&mut self.early);
        let (now, later) =
            early.into_iter().partition::<Vec<_>, _>(|(_, migration)| migration.round == round);
        self.early = later;
        now.into_iter().try_for_each(|(from, migration)| self.accept(from, migration))
    }

    /// Adds units (rows or indices with their data) that arrived from rank `from`.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if no directive has moved the units, or they need not be computed.
    pub(super) fn accept(&mut self, from: usize, migration: UnitMigration<U>) -> Result<()> {
        if migration.round > self.round {
            // The units (rows or indices) arrived before the directive of rank 0 that orders their movement. They are kept until that
            // directive arrives. Earlier directives may be in transit as well, because rank 0 does not wait for an idle rank's report about a
            // directive that moves nothing.
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
            let text = format!("rank {from} sent unit {unit} with {left} of {} passes left", self.times);
            return Err(Error::new(ErrorKind::Wire, text));
        }
        open.received += migration.len();
        migration.segments.into_iter().for_each(|segment| self.unit_queue.receive(segment));
        self.settle();
        Ok(())
    }

    /// Completes this rank's part of a movement of units (rows or indices), if all units that the rank is to receive have arrived.
    fn settle(&mut self) {
        if let Some(open) = self.open.take_if(|open| open.senders.is_empty()) {
            self.part_done = Some(PartDone { sent: open.sent, received: open.received });
        }
    }

    /// Returns the numbers of units (rows or indices) sent and received in a movement, if this rank has completed its part in the movement
    /// since the last call.
    pub(super) fn take_part_done(&mut self) -> Option<PartDone> {
        self.part_done.take()
    }

    pub(super) fn next(&mut self, most: u64) -> Option<UnitBlock> {
        self.unit_queue.next(most)
    }

    pub(super) fn finished(&mut self, block: &UnitBlock) {
        self.done += block.len();
        self.worked = true;
        self.unit_queue.finished(block);
    }

    /// Returns true if a report of measurements is due, given the time `since` the last report. A busy rank reports once per directive, which bounds
    /// the number of reports that rank 0 receives. A rank that becomes idle reports at once, but not while units (rows or indices) are in transit to
    /// it.
    pub(super) fn is_to_report(&self, since: impl FnOnce() -> Duration) -> bool {
        if self.open.is_some() {
            return false;
        }
        if self.is_idle() {
            return !self.has_finished && self.reported_idle != Some(self.done);
        }
        // A busy rank reports only after it has computed a block (call of user code). Otherwise ranks could report and move units (rows or
        // indices) forever without computing.
        !self.reported && self.worked && (self.report_soon || since().as_secs_f64() >= self.period)
    }

    pub(super) fn has_reported(&mut self) {
        self.reported = true;
        (self.report_soon, self.worked) = (false, false);
        self.reported_idle = self.is_idle().then_some(self.done);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.unit_queue.undone() == 0
    }

    pub(super) fn has_finished(&self) -> bool {
        self.has_finished
    }

    pub(super) fn round(&self) -> u64 {
        self.round
    }

    /// Returns the number of the pass in which the next unit (row or index) is computed, from 1; the last pass if no unit is left.
    pub(super) fn pass(&self) -> u64 {
        self.pass + self.times - self.unit_queue.left().clamp(1, self.times)
    }

    pub(super) fn done(&self) -> u64 {
        self.done
    }

    pub(super) fn waits_for(&self) -> String {
        match &self.open {
            Some(open) => {
                format!("for units from ranks {:?}, by directive number {}", open.senders, self.round)
            }
            None => format!(
                "for rank 0 to decide about pass {}; all {} units of this rank are done",
                self.pass(),
                self.unit_queue.held()
            ),
        }
    }
}

fn unordered(from: usize, round: u64) -> Error {
    let text = format!("rank {from} sent units for directive number {round}, which does not order that");
    Error::new(ErrorKind::Wire, text)
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
