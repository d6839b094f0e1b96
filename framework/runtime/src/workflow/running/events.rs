//! Event log of a rank, measurement of its speed, and time limits of closures.

use std::path::Path;
use std::time::Duration;

use super::{Running, unexpected};
use crate::balance::probe::Speed;
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::{Event, EventLog, LogOrigin, TaskHeld};
use crate::rank::protocol::{Moment, Outgoing};
use crate::workflow::messages::Content;
use crate::workflow::root::{Answered, Root};
use crate::workflow::user_code::too_long;

impl Running<'_, '_> {
    pub(in crate::workflow) fn log_events(&mut self, directory: Option<&Path>, endpoint: &Endpoint) {
        let Some(directory) = directory else { return };
        let offset = -endpoint.clock().now().as_secs_f64();
        let run = endpoint.run().saturating_sub(1);
        let origin = LogOrigin { rank: endpoint.rank(), run, offset };
        self.events = EventLog::open(directory, origin);
        if let Some(root) = &mut self.root {
            root.master.supply.record_held();
        }
    }

    pub(super) fn set_event_time(&mut self, at: &Moment) {
        if self.events.is_on() {
            self.worker.trace.set_time(at.now());
        }
    }

    /// Handles the death of rank `lost` on this rank: stops transfers from and to it. Rank 0 also informs all living ranks.
    pub(super) fn report_lost(&mut self, lost: usize, out: &mut Outgoing<'_>) -> Result<()> {
        self.lose_files(lost, out)?;
        if let Some(root) = &self.root {
            for rank in (1..out.ranks()).filter(|&rank| !root.master.is_lost(rank)) {
                out.send(rank, Content::Lost(lost))?;
            }
        }
        self.worker.on_lost(lost, out)
    }

    pub(super) fn log(&mut self, at: &Moment) {
        if !self.events.is_on() {
            return;
        }
        for (when, event) in self.worker.take_events() {
            self.events.record(when, || event);
        }
        let Some(root) = &mut self.root else { return };
        for (task, limit) in root.master.supply.take_held() {
            let (task, limit) = (root.graph.dag.name(task), &root.graph.limit_names[limit]);
            let held = || Event::TaskHeld(TaskHeld { task: task.to_string(), limit: limit.clone() });
            self.events.record(at.now(), held);
        }
    }

    /// Writes the result of a request to the planner to the event log, and the plan if it is a new one.
    pub(super) fn log_planned(&mut self, event: Event, at: &Moment) {
        if !self.events.is_on() {
            return;
        }
        let is_fresh = matches!(&event, Event::Planned(planned) if planned.by.is_some() && !planned.kept);
        self.events.record(at.now(), || event);
        if let Some(plan) = self.root.as_ref().filter(|_| is_fresh).and_then(Root::plan_event) {
            self.events.record(at.now(), || plan);
        }
    }

    /// Handles the measured speed of a rank (`speed`), or a rank's reply to a message that measures a link.
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
            Answered::Send(to, question) => out.send(to, question),
            Answered::Done(event) => {
                self.events.record(at.now(), || event);
                Ok(())
            }
        }
    }

    /// Checks the time limit of the running closure. A closure cannot be ended: if it takes more than twice its limit, the job ends,
    /// because the closure may never return.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if the closure has taken more than twice its limit.
    pub(super) fn check_limits(&self, now: Duration) -> Result<()> {
        let Some(&(task, since)) = self.limited.front() else { return Ok(()) };
        let took = now.saturating_sub(since);
        match self.graph.needs(task).time_limit.filter(|&limit| took > 2 * limit) {
            None => Ok(()),
            Some(limit) => {
                let text = format!(
                    "{} (task {:?}); a closure cannot be killed, so the job ends",
                    too_long("runs for", took, limit),
                    self.graph.dag.name(task)
                );
                Err(Error::new(ErrorKind::Timeout, text).on_item(task as u64))
            }
        }
    }
}
