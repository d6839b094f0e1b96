//! The hook between two blocks of a DOALL loop: messages in, reports and directives out.

use std::time::Duration;

use super::checkpoint::pieces;
use super::coordinator::Coordinator;
use super::messages::{Directive, Received, Report, ToCoordinator, ToWorker, unexpected};
use super::rank_loop::RankLoop;
use super::worker::Addressed;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::Message;
use crate::error::Result;
use crate::loops::units::Units;

impl<U: Units> RankLoop<U> {
    /// Reports what has been written to a checkpoint.
    fn report_saved(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        let saved = self.checkpoints.as_mut().map_or(Ok(None), |checkpoints| checkpoints.writer.poll())?;
        saved.map_or(Ok(()), |(pass, pieces)| self.send(endpoint, ToCoordinator::Saved(pass, pieces)))
    }

    /// To the coordinator, which may be here.
    fn send(&mut self, endpoint: &mut Endpoint, message: ToCoordinator) -> Result<()> {
        if self.run.as_ref().is_some_and(|run| run.coordinator.is_some()) {
            return self.on_coordinator_message(0, message);
        }
        let frame = message.encode(endpoint.run())?;
        endpoint.send_ready(0, frame)
    }

    /// Takes in what has come, reports where that is due, and lets the coordinator decide. False if there was nothing to do.
    pub(super) fn exchange(&mut self, endpoint: &mut Endpoint) -> Result<bool> {
        self.report_saved(endpoint)?;
        let mut begin = None;
        loop {
            let message = endpoint.poll()?;
            let Some(run) = &mut self.run else { return Ok(false) };
            let reports = message.is_none() && self.worker.is_to_report(|| run.metrics.since_sample());
            if message.is_none() && !reports && !run.dirty {
                break;
            }
            begin.get_or_insert_with(|| run.clock.now());
            if let Some(message) = message {
                self.on_message(endpoint, message)?;
            } else if reports {
                self.report(endpoint)?;
            } else {
                run.dirty = false;
                let now = run.clock.now();
                if let Some(directive) =
                    run.coordinator.as_mut().map_or(Ok(None), |coordinator| coordinator.step(now))?
                {
                    self.issue(endpoint, directive)?;
                }
            }
        }
        let Some(run) = &mut self.run else { return Ok(false) };
        if let Some(begin) = begin {
            run.metrics.interaction(run.clock.now().saturating_sub(begin));
        }
        Ok(begin.is_some())
    }

    fn on_message(&mut self, endpoint: &mut Endpoint, message: Message) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let (from, begin) = (message.from, run.clock.now());
        match Received::decode(message, self.units)? {
            Received::ForCoordinator(message) => self.on_coordinator_message(from, message),
            Received::ForWorker(ToWorker::Directive(directive)) => {
                if from != 0 || run.coordinator.is_some() {
                    return Err(unexpected(from, "a directive"));
                }
                self.carry_out(endpoint, &directive)
            }
            Received::ForWorker(ToWorker::Units(migration)) => {
                self.worker.accept(from, migration)?;
                run.moving += run.clock.now().saturating_sub(begin);
                self.settle();
                Ok(())
            }
        }
    }

    fn on_coordinator_message(&mut self, from: usize, message: ToCoordinator) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let Some(coordinator) = &mut run.coordinator else {
            return Err(unexpected(from, "what is for the coordinator"));
        };
        match message {
            ToCoordinator::Report(report) => {
                coordinator.on_report(from, &report, run.clock.now());
                run.dirty = true;
                Ok(())
            }
            ToCoordinator::Saved(pass, pieces) => coordinator.on_saved(from, pass, pieces),
        }
    }

    /// Sends a directive to all workers and carries it out here.
    pub(super) fn issue(&mut self, endpoint: &mut Endpoint, directive: Directive) -> Result<()> {
        let message = ToWorker::<U>::Directive(directive.clone()).encode(endpoint.run())?;
        for rank in 1..endpoint.size() {
            endpoint.send_ready(rank, message.clone())?;
        }
        self.carry_out(endpoint, &directive)
    }

    fn carry_out(&mut self, endpoint: &mut Endpoint, directive: &Directive) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        if let (Some(pass), Some(checkpoints)) = (directive.save, &mut self.checkpoints) {
            checkpoints.writer.save(pass, pieces(self.worker.unit_queue.segments())?)?;
        }
        let begin = run.clock.now();
        let migrations: Vec<Addressed<U>> = self.worker.carry_out(directive)?;
        for (to, migration) in migrations {
            endpoint.send_ready(to, ToWorker::Units(migration).encode(endpoint.run())?)?;
        }
        if !directive.moves.is_empty() {
            run.moving += run.clock.now().saturating_sub(begin);
        }
        self.settle();
        Ok(())
    }

    /// Measures the movement of which this rank has made its part.
    fn settle(&mut self) {
        if let (Some(part_done), Some(run)) = (self.worker.take_part_done(), &mut self.run) {
            run.metrics.moved(std::mem::take(&mut run.moving), part_done.sent, part_done.received);
        }
    }

    fn report(&mut self, endpoint: &mut Endpoint) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let (undone, held) = (self.worker.unit_queue.undone(), self.worker.unit_queue.held());
        let sample = run.metrics.sample(undone);
        let total = (undone == 0).then(|| run.metrics.report(held));
        let at = run.clock.now().as_secs_f64();
        let report = Report { at, round: self.worker.round(), done: self.worker.done(), held, sample, total };
        self.worker.has_reported();
        self.send(endpoint, ToCoordinator::Report(report))
    }

    /// How long this rank waits in silence.
    pub(super) fn limit(&self) -> Duration {
        let Some(run) = &self.run else { return Duration::MAX };
        match &run.coordinator {
            Some(coordinator) if coordinator.has_heard_all() => run.peer_limit,
            // Rank 0 knows more, so it is the one to report it.
            None if self.worker.round() > 0 => run.peer_limit + run.peer_limit / 4,
            _ => run.join_limit,
        }
    }

    /// For whom and what it waits.
    pub(super) fn waits_for(&self) -> String {
        let coordinator = self.run.as_ref().and_then(|run| run.coordinator.as_ref());
        coordinator.map_or_else(|| self.worker.waits_for(), Coordinator::waits_for)
    }
}
