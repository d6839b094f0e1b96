//! What a rank sees to beside its tasks: the log of events, how fast it is, and closures that take too long.

use std::path::Path;
use std::time::Duration;

use super::{Running, unexpected};
use crate::balance::probe::Speed;
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::{Event, EventLog, Place, TaskHeld};
use crate::rank::protocol::{Moment, Outgoing};
use crate::workflow::messages::Content;
use crate::workflow::root::{Answered, Root};
use crate::workflow::user_code::too_long;

impl Running<'_, '_> {
    /// Begins the log of events, if there is to be one.
    pub(in crate::workflow) fn log_events(&mut self, directory: Option<&Path>, endpoint: &Endpoint) {
        let Some(directory) = directory else { return };
        let offset = -endpoint.clock().now().as_secs_f64();
        let run = endpoint.run().saturating_sub(1);
        let place = Place { rank: endpoint.rank(), run, offset };
        self.events = EventLog::open(directory, place);
        if let Some(root) = &mut self.root {
            root.master.note_held();
        }
    }

    /// It is a new moment, for the log of events.
    pub(super) fn note_time(&mut self, at: &Moment) {
        if self.events.is_on() {
            self.worker.set_time(at.now());
        }
    }

    /// Sends something, and keeps in mind which message is which value.
    pub(super) fn send(&mut self, to: usize, content: Content, out: &mut Outgoing<'_>) -> Result<()> {
        let task = match &content {
            Content::Value(task, _) => Some(*task),
            _ => None,
        };
        out.send(to, content.encode(out.run())?)?;
        if let Some(task) = task {
            self.worker.has_sent(to, task, out.last_sent());
        }
        Ok(())
    }

    /// On rank 0: all hear that a rank has died.
    pub(super) fn tell_lost(&mut self, lost: usize, out: &mut Outgoing<'_>) -> Result<()> {
        self.worker.on_lost(lost);
        self.lose_files(lost, out)?;
        let Some(root) = &self.root else { return Ok(()) };
        for rank in (1..out.ranks()).filter(|&rank| !root.master.is_lost(rank)) {
            out.send(rank, Content::Lost(lost).encode(out.run())?)?;
        }
        Ok(())
    }

    /// Puts what has happened into the log of events.
    pub(super) fn log(&mut self, at: &Moment) {
        if !self.events.is_on() {
            return;
        }
        for (when, event) in self.worker.take_events() {
            self.events.record(when, || event);
        }
        let Some(root) = &mut self.root else { return };
        for (task, limit) in root.master.take_held() {
            let (task, limit) = (root.graph.dag.name(task), &root.graph.limit_names[limit]);
            let held = || Event::TaskHeld(TaskHeld { task: task.to_string(), limit: limit.clone() });
            self.events.record(at.now(), held);
        }
    }

    /// Puts what the planner has said into the log of events, and the plan where that is another one than before.
    pub(super) fn log_planned(&mut self, said: Event, at: &Moment) {
        if !self.events.is_on() {
            return;
        }
        let is_fresh = matches!(&said, Event::Planned(planned) if planned.by.is_some() && !planned.kept);
        self.events.record(at.now(), || said);
        if let Some(plan) = self.root.as_ref().filter(|_| is_fresh).and_then(Root::plan_event) {
            self.events.record(at.now(), || plan);
        }
    }

    /// A rank has said how fast it is, or that a message was there.
    pub(super) fn on_probe_answer(
        &mut self,
        from: usize,
        speed: Option<Speed>,
        at: &Moment,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let root = self.root.as_mut().ok_or_else(|| unexpected(from))?;
        match root.on_probe_answer(from, speed, at.now())? {
            Answered::Wait => Ok(()),
            Answered::Ask(to, question) => out.send(to, question),
            Answered::Done(event) => {
                self.events.record(at.now(), || event);
                Ok(())
            }
        }
    }

    /// A closure cannot be ended. One that goes on for twice as long as it may ends the job: nobody would wait for what may never end.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if there is one.
    pub(super) fn check_limits(&self, now: Duration) -> Result<()> {
        let Some(&(task, since)) = self.limited.front() else { return Ok(()) };
        let took = now.saturating_sub(since);
        match self.worker.time_limit(task).filter(|&limit| took > 2 * limit) {
            None => Ok(()),
            Some(limit) => {
                let text = format!(
                    "{} (task {:?}); a closure cannot be ended, so the job is",
                    too_long("runs for", took, limit),
                    self.worker.name(task)
                );
                Err(Error::new(ErrorKind::Timeout, text).on_item(task as u64))
            }
        }
    }
}
