//! Protocol of a rank that holds rows of the grid: calls the worker's state machine and user code, sends reports of measurements, and on rank 0
//! decides whether rows move.

mod checking;
mod reports;

use std::ops::Range;
use std::time::Duration;

use super::checkpoint::{CheckpointWriter, LastSaved};
use super::convergence::Checks;
use super::coordinator::GridCoordinator;
use super::kernel::{Done, Job, Kernel};
use super::messages::{Coordination, NeighbourSender, Received, ToCoordinator, ToNeighbour};
use super::neighbours::Position;
use super::times::Times;
use super::worker::{GridAction, GridWorker};
use crate::balance::link_probe::{LinkProbe, ROUNDS};
use crate::comm::HEARTBEAT_PERIOD;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Control, Message};
use crate::error::Result;
use crate::loops::until::CheckResult;
use crate::observe::{Progress, Tally};
use crate::rank::heartbeat::{HeartbeatState, Watch};
use crate::rank::protocol::{Moment, Next, Outgoing, Protocol};
use crate::session::Config;

impl NeighbourSender for Outgoing<'_> {
    #[inline]
    fn send(&mut self, to: usize, message: ToNeighbour<&[u8]>) -> Result<()> {
        Outgoing::send(self, to, message)
    }
}

/// Set if a neighbour waits for rows that this rank has sent. The rank then polls until the transport has transferred them.
struct PushOut {
    to: usize,
    since: Option<Duration>,
}

/// Phase of a run on a rank that holds rows of the grid.
enum Phase {
    /// Rank 0 measures the latency and bandwidth of messages to the rank that holds the rows below its own.
    Probing(LinkProbe),
    Sweeping,
    /// The rank waits for rank 0's verdict about convergence before the sweep with this number.
    Checking(u64),
    /// Rank 0 processes reports of measurements and decides whether rows move before the sweep with this number.
    Deciding(u64),
    /// The rank has done all its sweeps and has been ending the run since this time.
    Ending(Duration),
}

pub(super) struct GridParticipant<'w, 'd> {
    worker: &'w mut (dyn GridWorker + 'w),
    clock: Clock,
    position: Position,
    size: usize,
    /// Maximum time that the rank's disk may take to write the last checkpoint.
    peer_limit: Duration,
    /// True if the transport delivers messages although sender and receiver do not poll, as in a simulator.
    leave_by_themselves: bool,
    times: Times,
    phase: Phase,
    is_lent: bool,
    push_out: Option<PushOut>,
    coordinator: Option<GridCoordinator>,
    checkpoints: Option<CheckpointWriter>,
    checks: Option<Checks<'d>>,
    has_reported: bool,
    /// True if the loop has ended before its last sweep because the job was asked to stop.
    is_stopped: bool,
    next_progress: Duration,
}

impl<'w, 'd> GridParticipant<'w, 'd> {
    /// Creates the protocol of a rank; only rank 0 has a coordinator.
    pub(super) fn new(
        worker: &'w mut (dyn GridWorker + 'w),
        endpoint: &Endpoint,
        position: Position,
        config: &Config,
        coordinator: Option<GridCoordinator>,
        checkpoints: Option<CheckpointWriter>,
        checks: Option<Checks<'d>>,
    ) -> Self {
        let clock = endpoint.clock();
        GridParticipant {
            worker,
            clock,
            position,
            size: endpoint.size(),
            peer_limit: config.peer_limit,
            leave_by_themselves: !endpoint.capabilities().real_time,
            times: Times::new(clock),
            phase: Phase::Sweeping,
            is_lent: false,
            push_out: None,
            coordinator,
            checkpoints,
            checks,
            has_reported: false,
            is_stopped: false,
            next_progress: clock.now() + HEARTBEAT_PERIOD,
        }
    }

    /// Returns the results of the run: the coordinator on rank 0, the last measured duration of a piece of a sweep, the last verdict about
    /// convergence, and the final block size.
    pub(super) fn finish(self) -> (Option<GridCoordinator>, Option<Duration>, Option<CheckResult>, u64) {
        let last = self.checks.and_then(|checks| checks.last());
        (self.coordinator, self.times.piece_time(), last, self.worker.block_size())
    }

    /// Sends the next message that measures the link to the rank below (which holds the rows below this rank's), or begins the sweeps
    /// if all such messages have been answered.
    fn probe(&mut self, now: Duration, out: &mut Outgoing<'_>) -> Result<()> {
        let Phase::Probing(probe) = &mut self.phase else { return Ok(()) };
        if let Some(question) = probe.next_frame(now) {
            return Outgoing::send(out, probe.to, question);
        }
        let [empty, full] = probe.one_way();
        self.worker.know_costs(empty, full);
        self.phase = Phase::Sweeping;
        Ok(())
    }

    fn lend_to_user_code(&mut self, piece: Range<usize>, at: &Moment) -> Job {
        let usual = self.times.begin_piece(at.user_code.is_inline);
        self.is_lent = true;
        Job { sweep: self.worker.sweep(), storage: self.worker.lend(), piece, usual }
    }

    /// Runs the worker's state machine until user code must run or a message must arrive.
    fn step(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<Next<Job>> {
        let action = self.worker.next(out)?;
        match action {
            GridAction::Compute(piece) => {
                self.times.end_wait();
                return Ok(Next::Job(self.lend_to_user_code(piece, at)));
            }
            GridAction::Wait => {
                self.times.wait(!self.worker.awaits_sender());
                return Ok(Next::Wait);
            }
            GridAction::Boundary(sweep) => self.boundary(sweep, out)?,
            GridAction::Moving => self.times.begin_movement(),
            GridAction::MovementDone { sent, received } => self.times.end_movement(sent, received),
            GridAction::Done => {
                self.times.end_wait();
                self.times.end_stretch();
                self.phase = Phase::Ending(self.clock.now());
                self.send_residual(self.worker.sweep(), out)?;
            }
        }
        self.advance(at, out)
    }

    /// Continues in the rank's present phase, such as computing or ending. Returns what the driver must do next, such as running user
    /// code or waiting.
    fn advance(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<Next<Job>> {
        match self.phase {
            Phase::Probing(_) => Ok(Next::Wait),
            Phase::Checking(_) => {
                self.times.wait(true);
                Ok(Next::Wait)
            }
            Phase::Sweeping => self.step(at, out),
            Phase::Deciding(sweep) => match self.decide(sweep, at, out)? {
                None => self.step(at, out),
                Some(next) => Ok(next),
            },
            Phase::Ending(since) => self.end(since, out),
        }
    }

    /// Before sweep `sweep`, sends a report of measurements and writes rows to a checkpoint if these are due, and begins a convergence check. On rank
    /// 0 a decision about movements of rows follows.
    fn boundary(&mut self, sweep: u64, out: &mut Outgoing<'_>) -> Result<()> {
        self.times.end_wait();
        let is_due = sweep > 0 && self.worker.report_after() == sweep - 1;
        if is_due {
            self.times.end_stretch();
            let begin = self.clock.now();
            let sample = self.times.metrics.sample(self.worker.held()).of_all_work();
            self.report(ToCoordinator::Sample(sample), out)?;
            self.times.metrics.interaction(self.clock.now().saturating_sub(begin));
        }
        if let Some(checkpoints) = &mut self.checkpoints {
            if self.worker.save_before() == Some(sweep) {
                checkpoints.save(sweep, self.worker.pieces())?;
            }
            if let Some(saved) = checkpoints.saved() {
                self.report(saved, out)?;
            }
        }
        if self.worker.is_stopped_before(sweep) {
            self.stop(sweep);
            return Ok(());
        }
        self.check(sweep, out)
    }

    /// Ends the loop before sweep `sweep`, because the job was asked to stop.
    fn stop(&mut self, sweep: u64) {
        (self.is_stopped, self.phase, self.checks) = (true, Phase::Sweeping, None);
        self.worker.stop();
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.stop(sweep);
        }
    }

    /// On rank 0, processes the reports of measurements that have arrived and decides whether rows move before sweep `sweep`. Returns `None` when the
    /// sweep can begin.
    fn decide(&mut self, sweep: u64, at: &Moment, out: &mut Outgoing<'_>) -> Result<Option<Next<Job>>> {
        if at.computed_since_poll {
            return Ok(Some(Next::PollAgain));
        }
        self.times.end_wait();
        self.phase = Phase::Sweeping;
        let begin = self.clock.now();
        let Some(coordinator) = &mut self.coordinator else { return Ok(None) };
        let seconds = coordinator.begin_sweep(sweep, begin);
        if let Some((block, why)) = self.worker.tune(seconds, coordinator.most()) {
            coordinator.chose(block, why);
        }
        coordinator.use_grain(sweep, self.worker.grain());
        if let Some(directive) = coordinator.decide(sweep, self.worker.delay())? {
            self.worker.carry_out(directive, out)?;
            self.times.metrics.interaction(self.clock.now().saturating_sub(begin));
        }
        Ok(None)
    }

    /// Sends a report of this rank to the coordinator, which may be on this rank.
    fn report(&mut self, message: ToCoordinator, out: &mut Outgoing<'_>) -> Result<()> {
        match (&mut self.coordinator, message) {
            (Some(_), ToCoordinator::Residual(sweep, residual)) => self.collect(0, sweep, residual, out),
            (Some(coordinator), message) => coordinator.on_message(0, message, self.clock.now()),
            (None, message) => out.send(0, Coordination::Report(message)),
        }
    }

    /// Ends the run after the last sweep, which ended at the time `since`: waits until the checkpoint is written and sends the final report. Rank 0
    /// then waits for the final reports of the other ranks.
    fn end(&mut self, since: Duration, out: &mut Outgoing<'_>) -> Result<Next<Job>> {
        while let Some(checkpoints) = &mut self.checkpoints {
            match checkpoints.last(self.clock.now().saturating_sub(since), self.peer_limit)? {
                LastSaved::Now(saved) => self.report(saved, out)?,
                LastSaved::Later => return Ok(Next::Wait),
                LastSaved::Nothing => break,
            }
        }
        if !std::mem::replace(&mut self.has_reported, true) {
            let report = self.times.metrics.report(self.worker.held());
            self.report(ToCoordinator::Total(report), out)?;
        }
        let Some(coordinator) = &mut self.coordinator else {
            // A rank that ends the loop early waits for the message of rank 0 that the job stops, which follows when all ranks have
            // reported their part of the last checkpoint.
            let is_informed = !self.is_stopped || out.endpoint().is_run_stopped();
            return Ok(if is_informed { Next::Finished } else { Next::Wait });
        };
        if !coordinator.missing().is_empty() {
            self.times.wait(false);
            return Ok(Next::Wait);
        }
        coordinator.of_run.ended = Some(self.clock.now());
        if self.is_stopped {
            out.endpoint().stop_run(&coordinator.kept())?;
        }
        for to in self.position.chain..self.size {
            out.send(to, Coordination::Finish)?;
        }
        Ok(Next::Finished)
    }

    /// Returns false as long as a neighbour waits for rows that this rank has sent and the transport has not transferred them. The rank must then
    /// poll instead of computing: MPI may transfer large messages only while both sides poll, and a computing rank polls once in a millisecond.
    fn have_left(&mut self, out: &mut Outgoing<'_>) -> Result<bool> {
        let Some(PushOut { to, since }) = self.push_out else { return Ok(true) };
        self.times.end_wait();
        self.times.end_stretch();
        let now = self.clock.now();
        let since = since.unwrap_or(now);
        if !self.leave_by_themselves && !out.sends_done()? {
            self.push_out = Some(PushOut { to, since: Some(since) });
            return Ok(false);
        }
        self.push_out = None;
        self.times.waited_for_sends(now.saturating_sub(since));
        Ok(true)
    }
}

impl<'w> Protocol for GridParticipant<'w, '_> {
    type Code = Kernel<'w>;

    const MESSAGES_BETWEEN_JOBS: usize = usize::MAX;

    fn start(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        if let (Some(bytes), Some(below), Some(_)) =
            (self.worker.probed_neighbour(), self.position.below(), &self.coordinator)
        {
            self.phase = Phase::Probing(LinkProbe::new(out.run(), below, bytes, ROUNDS));
            self.probe(at.now(), out)?;
        }
        Ok(())
    }

    #[inline]
    fn on_message(&mut self, message: Message, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let from = message.from;
        if let Phase::Probing(probe) = &mut self.phase
            && message.is(Control::Echo)
            && probe.to == from
        {
            let now = at.now();
            probe.answered(now);
            return self.probe(now, out);
        }
        match (Received::decode(message)?, &mut self.coordinator) {
            (Received::ToNeighbour(ToNeighbour::Wanted), ..) => {
                self.push_out = Some(PushOut { to: from, since: None });
                Ok(())
            }
            (Received::ToNeighbour(message), ..) => self.worker.receive(from, message),
            (
                Received::Coordination(Coordination::Report(ToCoordinator::Residual(sweep, residual))),
                Some(_),
            ) => self.collect(from, sweep, residual, out),
            (Received::Coordination(Coordination::CheckResult(check_result)), None) if from == 0 => {
                self.on_check_result(check_result);
                Ok(())
            }
            (Received::Coordination(Coordination::Report(message)), Some(coordinator)) => {
                coordinator.on_message(from, message, at.now())
            }
            (other, ..) => Err(other.unexpected(from, "messages of a loop over a grid")),
        }
    }

    #[inline]
    fn on_done(&mut self, done: Done, _: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let Done { storage, piece, time, .. } = done;
        self.worker.take_back(storage)?;
        self.is_lent = false;
        self.times.end_piece(self.worker.units(&piece), time);
        self.worker.computed(out)?;
        self.times.end_full_stretch();
        Ok(())
    }

    #[inline]
    fn next(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<Next<Job>> {
        if self.is_lent {
            return Ok(Next::Wait);
        }
        if !self.have_left(out)? {
            return Ok(Next::PollAgain);
        }
        self.advance(at, out)
    }

    /// Returns true if the rank computes the next piece of a sweep without polling for messages. While a neighbour waits for rows of
    /// this rank, the rank polls after every piece.
    #[inline]
    fn may_skip_poll(&self) -> bool {
        self.times.is_within_stretch()
    }

    /// A rank that has sent its final report is not monitored for silence, because it may be in the program's own code.
    fn watch(&self, rank: usize) -> Watch {
        match &self.coordinator {
            Some(coordinator) if coordinator.is_done(rank) => Watch::No,
            _ => Watch::Usual,
        }
    }

    fn on_stop(&mut self, _: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.of_run.request_stop(out.endpoint().stops_at_checkpoint());
        }
        Ok(())
    }

    fn on_tick(&mut self, now: Duration, _: &Moment, out: &mut Outgoing<'_>) -> Result<bool> {
        self.report_progress(now, out).map(|()| false)
    }

    fn heartbeat_state(&self) -> HeartbeatState {
        HeartbeatState::new(!self.times.waits() && !matches!(self.phase, Phase::Probing(_)), self.state())
    }

    fn tally(&mut self, _: Duration, tally: &mut Tally) {
        self.times.tally(tally);
    }

    fn progress(&mut self) -> Option<Progress> {
        let at = (self.worker.sweep(), self.worker.part_done());
        self.coordinator.as_ref().map(|root| root.progress(at, self.checks.is_some()))
    }

    fn awaits_results(&self) -> bool {
        self.times.waits()
    }
}

#[cfg(test)]
#[path = "participant_tests.rs"]
mod tests;
