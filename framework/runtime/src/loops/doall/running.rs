//! A rank in one run of a DOALL loop: processes messages and results of user code, sends reports of measurements, and on rank 0 decides whether
//! units (rows or indices) move.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::Range;
use std::time::Duration;

use armature_planner::loops::LoopBalancer;

use super::checkpoint::pieces;
use super::coordinator::DoAllCoordinator;
use super::messages::{Directive, Received, Report, Tag, ToCoordinator, ToWorker, UnitMigration, unexpected};
use super::rank_loop::RankLoop;
use super::unit_queue::UnitBlock;
use super::user_code::{Done, Job};
use crate::comm::clock::Clock;
use crate::comm::message::{Encode, Message};
use crate::error::{Error, ErrorKind, Result};
use crate::loops::metrics::Metrics;
use crate::loops::units::Units;
use crate::observe::Progress;
use crate::rank::heartbeat::{HeartbeatState, Silence};
use crate::rank::protocol::{Moment, Next, Outgoing, Protocol};
use crate::rank::user_code::UserCode;

pub(in crate::loops) struct Run {
    pub(super) coordinator: Option<DoAllCoordinator>,
    /// On rank 0, the balancer of an earlier run, which has learned the speeds of the ranks, until this run begins.
    learned: Option<LoopBalancer>,
    pub(super) metrics: Metrics,
    pub(super) passes: u64,
    /// Range of the units (rows or indices) whose data this rank must create before it does anything else.
    to_make: Option<Range<u64>>,
    /// Set while user code creates units (rows or indices) or computes a block of them. Meanwhile user code has the data of the
    /// units.
    in_hand: Option<InHand>,
    /// Messages for this rank's worker, with their senders, that have arrived while user code had the data of the units (rows or indices).
    waiting: VecDeque<(usize, ToWorker)>,
    idle_since: Option<Duration>,
    /// Time that this rank has spent so far on sending and receiving units (rows or indices) in the present movement.
    moving: Duration,
    /// On rank 0, true if a report of measurements has arrived since the coordinator last checked whether a directive is due.
    is_dirty: bool,
    /// Next request of the program, if it gets ranges of indices by [`Ranges`](crate::loops::Ranges) and processes them itself.
    caller_request: Option<CallerRequest>,
}

#[derive(Clone, Debug)]
enum InHand {
    Units(Range<u64>),
    Block(UnitBlock),
}

/// Request of a program that gets ranges of indices by [`Ranges`](crate::loops::Ranges) and processes them itself, instead of passing a function to
/// the framework.
#[derive(Clone, Debug)]
pub(in crate::loops) enum CallerRequest {
    /// The program waits for the next block, which is a range of indices to process.
    Next,
    /// The program is at the first index of this range, the rest of the indices that it received last, and asks which part of the range it still has
    /// to process. The other part has moved to other ranks.
    Rest(Range<u64>),
}

impl Run {
    pub(super) fn new(clock: Clock, passes: u64, to_make: Option<Range<u64>>) -> Self {
        Run {
            coordinator: None,
            learned: None,
            metrics: Metrics::new(clock),
            passes,
            to_make,
            in_hand: None,
            waiting: VecDeque::new(),
            idle_since: None,
            moving: Duration::ZERO,
            is_dirty: true,
            caller_request: None,
        }
    }

    /// Adds the coordinator on rank 0. `learned` is the balancer of an earlier run, which has learned the speeds of the ranks.
    pub(super) fn with_coordinator(
        self,
        coordinator: DoAllCoordinator,
        learned: Option<LoopBalancer>,
    ) -> Self {
        Run { coordinator: Some(coordinator), learned, ..self }
    }
}

pub(in crate::loops) struct Running<'l, U, C> {
    of: &'l mut RankLoop<U>,
    run: &'l mut Run,
    code: PhantomData<C>,
}

impl<'l, U: Units, C> Running<'l, U, C> {
    pub(in crate::loops) fn new(of: &'l mut RankLoop<U>, run: &'l mut Run) -> Self {
        Running { of, run, code: PhantomData }
    }

    /// Creates the protocol of a rank whose program processes ranges of indices itself. If the program asks for the rest of its present range, the
    /// indices before that rest count as processed.
    pub(in crate::loops) fn caller_request(
        of: &'l mut RankLoop<U>,
        run: &'l mut Run,
        caller_request: CallerRequest,
    ) -> Self {
        if let (CallerRequest::Rest(rest), Some(InHand::Block(block))) = (&caller_request, &mut run.in_hand) {
            block.range.end = rest.start;
        }
        run.caller_request = Some(caller_request);
        Running::new(of, run)
    }

    pub(in crate::loops) fn has_finished(&self) -> bool {
        self.of.worker.has_finished()
    }

    fn report_saved(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let Some(checkpoints) = &mut self.of.checkpoints else { return Ok(()) };
        let Some((pass, written)) = checkpoints.writer.poll() else { return Ok(()) };
        let written = written.map_err(|error| error.message().to_string());
        self.send(ToCoordinator::Saved(pass, written), at, out)
    }

    /// Sends a message of this rank's worker to the coordinator, which may be on the same rank.
    fn send(&mut self, message: ToCoordinator, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        if self.run.coordinator.is_some() {
            return self.on_coordinator_message(0, message, at);
        }
        out.send(0, message)
    }

    /// Sends a report of measurements if one is due. On rank 0, the coordinator then decides whether units (rows or indices) move and whether
    /// the pass ends. Returns true if there was anything to do.
    fn interact(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<bool> {
        self.report_saved(at, out)?;
        let mut begin = None;
        loop {
            let (worker, metrics) = (&self.of.worker, &self.run.metrics);
            let is_to_report = self.run.in_hand.is_none() && worker.is_to_report(|| metrics.since_sample());
            if !is_to_report && !self.run.is_dirty {
                break;
            }
            begin.get_or_insert_with(|| at.now());
            if is_to_report {
                self.report(at, out)?;
                continue;
            }
            self.run.is_dirty = false;
            let Some(coordinator) = &mut self.run.coordinator else { continue };
            if let Some(directive) = coordinator.step(at.now())? {
                if let Some(passes) = coordinator.stopped_after() {
                    let before = self.of.checkpoints.as_ref().map_or(0, |checkpoints| checkpoints.before);
                    let all = before + self.run.passes;
                    out.endpoint().stop_run(&coordinator.of_run.kept(before + passes, all, "passes"))?;
                }
                self.issue(directive, at, out)?;
            }
        }
        if let Some(begin) = begin {
            self.run.metrics.interaction(at.now().saturating_sub(begin));
        }
        Ok(begin.is_some())
    }

    fn on_coordinator_message(&mut self, from: usize, message: ToCoordinator, at: &Moment) -> Result<()> {
        let Some(coordinator) = &mut self.run.coordinator else {
            return Err(unexpected(from, "a message for the coordinator"));
        };
        match message {
            ToCoordinator::Report(report) => {
                coordinator.on_report(from, &report, at.now());
                self.run.is_dirty = true;
                Ok(())
            }
            ToCoordinator::Saved(pass, written) => {
                self.run.is_dirty = true;
                coordinator.of_run.on_saved(from, pass, written, at.now())
            }
        }
    }

    fn issue(&mut self, directive: Directive, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let message = ToWorker::Directive(directive.clone()).encode(out.run())?;
        for rank in 1..out.ranks() {
            out.send(rank, message.clone())?;
        }
        self.run.waiting.push_back((0, ToWorker::Directive(directive)));
        self.take_waiting(at, out)
    }

    fn take_waiting(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        while !self.is_busy() {
            let Some((from, message)) = self.run.waiting.pop_front() else { return Ok(()) };
            self.take(from, message, at.now(), at, out)?;
        }
        Ok(())
    }

    fn is_busy(&self) -> bool {
        self.run.in_hand.is_some() || self.run.to_make.is_some()
    }

    /// Processes a message for this rank's worker; the processing began at time `begin`.
    fn take(
        &mut self,
        from: usize,
        message: ToWorker,
        begin: Duration,
        at: &Moment,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let mut is_moving = true;
        match message {
            ToWorker::Directive(directive) => {
                is_moving = !directive.moves.is_empty();
                self.carry_out(&directive, out)?;
            }
            ToWorker::Units(units) => {
                let migration = UnitMigration::decode(units, self.of.units)?;
                self.of.worker.accept(from, migration)?;
            }
        }
        if is_moving {
            self.run.moving += at.now().saturating_sub(begin);
        }
        if let Some(part_done) = self.of.worker.take_part_done() {
            let took = std::mem::take(&mut self.run.moving);
            self.run.metrics.moved(took, part_done.sent, part_done.received);
        }
        Ok(())
    }

    fn carry_out(&mut self, directive: &Directive, out: &mut Outgoing<'_>) -> Result<()> {
        if let (Some(pass), Some(checkpoints)) = (directive.save, &mut self.of.checkpoints) {
            checkpoints.writer.save(pass, pieces(self.of.worker.unit_queue.segments())?)?;
        }
        for (to, migration) in self.of.worker.carry_out(directive)? {
            out.send(to, migration.encode(out.run(), Tag::Units)?)?;
        }
        Ok(())
    }

    fn report(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let worker = &mut self.of.worker;
        let (undone, held) = (worker.unit_queue.undone(), worker.unit_queue.held());
        let sample = self.run.metrics.sample(undone);
        let total = (undone == 0).then(|| self.run.metrics.report(held));
        let (round, done) = (worker.round(), worker.done());
        worker.has_reported();
        let report = Report { at: at.now().as_secs_f64(), round, done, held, sample, total };
        self.send(ToCoordinator::Report(report), at, out)
    }

    fn has_work(&self) -> bool {
        let worker = &self.of.worker;
        !worker.has_finished() && !worker.is_idle()
    }

    fn block(&mut self) -> Option<UnitBlock> {
        if !self.has_work() {
            return None;
        }
        let worker = &mut self.of.worker;
        if let Some(CallerRequest::Rest(rest)) = &self.run.caller_request {
            return worker.next(rest.end - rest.start).filter(|block| block.range.start == rest.start);
        }
        let left = worker.unit_queue.undone().min(worker.unit_queue.held());
        worker.next(self.of.block_size.next(left))
    }

    fn end_idle(&mut self, at: &Moment) {
        if let Some(since) = self.run.idle_since.take() {
            self.run.metrics.waited(at.now().saturating_sub(since));
        }
    }
}

impl<U: Units, C: UserCode<Job = Job<U>, Done = Done<U>>> Protocol for Running<'_, U, C> {
    type Code = C;

    /// Maximum number of messages that a rank processes between two calls of user code; unlimited, because rank 0 decides from the
    /// reports of all ranks.
    const MESSAGES_BETWEEN_JOBS: usize = usize::MAX;

    /// A result of user code returns the data of the units (rows or indices) to the queue, and messages may add or remove units, so results are
    /// processed first.
    const DONE_BEFORE_MESSAGES: bool = true;

    fn start(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let (learned, coordinator) = (self.run.learned.take(), &mut self.run.coordinator);
        let (Some(learned), Some(coordinator)) = (learned, coordinator) else { return Ok(()) };
        coordinator.open(learned)?.map_or(Ok(()), |directive| self.issue(directive, at, out))
    }

    fn on_message(&mut self, message: Message, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let (from, begin) = (message.from, at.now());
        match Received::decode(message)? {
            Received::ToCoordinator(message) => self.on_coordinator_message(from, message, at)?,
            Received::ToWorker(message) => {
                let is_directive = matches!(message, ToWorker::Directive(_));
                if is_directive && (from != 0 || self.run.coordinator.is_some()) {
                    return Err(unexpected(from, "a directive"));
                }
                if self.is_busy() {
                    if !is_directive {
                        self.run.moving += at.now().saturating_sub(begin);
                    }
                    self.run.waiting.push_back((from, message));
                } else {
                    self.take(from, message, begin, at, out)?;
                }
            }
        }
        self.run.metrics.interaction(at.now().saturating_sub(begin));
        Ok(())
    }

    fn on_done(&mut self, done: Done<U>, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        match (self.run.in_hand.take(), done) {
            (Some(InHand::Units(range)), Done::Created(units)) => self.of.set_units(range, units)?,
            (Some(InHand::Block(block)), Done::Block(_, units, time)) => {
                self.of.worker.unit_queue.return_units(units);
                self.run.metrics.done(time, block.len() as f64);
                if !matches!(self.run.caller_request, Some(CallerRequest::Rest(_))) {
                    self.of.block_size.done(block.len(), time.took);
                }
                self.of.worker.finished(&block);
            }
            _ => {
                return Err(Error::new(
                    ErrorKind::Panic,
                    "in the framework itself: user code returned a result that was not requested",
                ));
            }
        }
        self.take_waiting(at, out)
    }

    fn on_stop(&mut self, _: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        if let Some(coordinator) = &mut self.run.coordinator {
            coordinator.of_run.request_stop(out.endpoint().stops_at_checkpoint());
        }
        Ok(())
    }

    fn on_tick(&mut self, _: Duration, at: &Moment, out: &mut Outgoing<'_>) -> Result<bool> {
        Ok(self.interact(at, out)? && self.run.in_hand.is_none())
    }

    fn on_idle(&mut self, at: &Moment) {
        self.run.idle_since.get_or_insert_with(|| at.now());
    }

    fn on_lost(&mut self, silence: Silence, _: &mut Outgoing<'_>) -> Result<()> {
        Err(self.of.placed(silence.error))
    }

    fn next(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<Next<Job<U>>> {
        let has_caller_request = self.run.caller_request.is_some();
        if self.run.in_hand.is_some() {
            // The caller of [`Ranges`](crate::loops::Ranges) processes indices itself: the protocol pauses, and the caller receives
            // the block that was chosen.
            return Ok(if has_caller_request { Next::Finished } else { Next::Wait });
        }
        if let Some(range) = self.run.to_make.take() {
            self.run.in_hand = Some(InHand::Units(range.clone()));
            return Ok(Next::Job(Job::Create(range)));
        }
        self.interact(at, out)?;
        if let Some(block) = self.block() {
            self.end_idle(at);
            let pass = (self.run.passes > 1).then(|| self.of.worker.pass());
            let Some((units, at)) = self.of.worker.unit_queue.take_out(&block) else {
                return Err(Error::new(
                    ErrorKind::Panic,
                    "in the framework itself: this rank does not have the block",
                ));
            };
            self.run.in_hand = Some(InHand::Block(block.clone()));
            return Ok(Next::Job(Job::Block { block, units, at, pass }));
        }
        let has_finished = self.of.worker.has_finished();
        if has_finished {
            self.end_idle(at);
        }
        let is_rest = matches!(self.run.caller_request, Some(CallerRequest::Rest(_)));
        Ok(if has_finished || is_rest { Next::Finished } else { Next::Wait })
    }

    fn heartbeat_state(&self) -> HeartbeatState {
        let mut state = match &self.run.in_hand {
            Some(InHand::Units(range)) => format!("creating units {} to {}", range.start, range.end),
            Some(InHand::Block(UnitBlock { range })) => {
                format!("computing units {} to {} of pass {}", range.start, range.end, self.of.worker.pass())
            }
            None => format!("waits {}", self.of.worker.waits_for()),
        };
        if let Some(coordinator) = &self.run.coordinator {
            state = format!("{state}; waits {}", coordinator.waits_for());
        }
        HeartbeatState::new(self.run.in_hand.is_some() || self.has_work(), state)
    }

    fn progress(&mut self) -> Option<Progress> {
        let (before, at_most) =
            self.of.until.map_or((0, None), |(before, until)| (before, Some(until.passes)));
        self.run.coordinator.as_ref().map(|coordinator| coordinator.progress(before, at_most))
    }

    fn awaits_results(&self) -> bool {
        self.run.idle_since.is_some()
    }
}
