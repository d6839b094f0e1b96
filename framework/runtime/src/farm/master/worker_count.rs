//! Number of workers on rank 0: checks, decisions and their execution, and messages that measure the links between two iterations.

use std::time::Duration;

use armature_text::shown;

use super::super::controller::{Replan, Situation};
use super::super::messages::ToWorker;
use super::super::state::{Change, WorkerState};
use super::MasterRank;
use super::run::MasterRun;
use crate::balance::link_probe::LinkProbe;
use crate::comm::endpoint::Endpoint;
use crate::error::Result;
use crate::observe::{Event, EventLog, LogOrigin};
use crate::rank::protocol::Outgoing;
use crate::session::Config;

const ROUND_TRIP_LIMIT: Duration = Duration::from_secs(1);

impl MasterRank {
    pub(super) fn log_events(&mut self, endpoint: &Endpoint, config: &Config, balance: &str) {
        let Some(dir) = &config.events else { return };
        let offset = -self.clock.now().as_secs_f64();
        let run = endpoint.run().saturating_sub(1);
        self.events = EventLog::open(dir, LogOrigin { rank: 0, run, offset });
        let (farm, ranks, workers) = (self.name.clone(), endpoint.size(), self.state.started_with);
        let (chunking, balance) = (self.options.chunking.to_string(), balance.to_string());
        self.record_event(|| Event::FarmStart { farm, ranks, workers, chunking, balance });
    }

    pub(super) fn record_event(&mut self, event: impl FnOnce() -> Event) {
        if self.events.is_on() {
            self.events.record(self.clock.now(), event);
        }
    }

    /// Parks ranks (which then get no tasks) or wakes them, until the decided number of ranks runs tasks.
    pub(super) fn adjust_workers(&mut self, out: &mut Outgoing<'_>) -> Result<()> {
        let Change { parked, woken } = self.state.adjust_workers();
        for &rank in &parked {
            out.send(rank, ToWorker::Park(true))?;
        }
        for &rank in &woken {
            out.send(rank, ToWorker::Park(false))?;
        }
        if !parked.is_empty() {
            self.record_event(|| Event::Parked { ranks: parked });
        }
        if !woken.is_empty() {
            self.record_event(|| Event::Woken { ranks: woken });
        }
        Ok(())
    }

    pub(super) fn replan_stream(&mut self, now: Duration, out: &mut Outgoing<'_>) -> Result<()> {
        let splittable =
            if self.may_split() { self.state.workers().working() + self.state.workers().parked() } else { 0 };
        let due =
            self.streaming && self.state.groups.len() == 0 && self.controller.is_due(now, true, splittable);
        if due { self.replan(now, true, out) } else { Ok(()) }
    }

    /// Returns true if rank 0 may introduce sub-masters during the run: the program has not set their number, and tasks have no time limit.
    fn may_split(&self) -> bool {
        self.options.sub_masters.is_none() && self.options.task_limit.is_none()
    }

    fn replan(&mut self, now: Duration, stream: bool, out: &mut Outgoing<'_>) -> Result<()> {
        let workers = self.state.workers();
        let (workers, most) = (workers.working(), workers.working() + workers.parked());
        let clock = self.clock;
        let may_split = self.may_split();
        let situation = Situation { now, workers, most, computes: self.state.computes, stream, may_split };
        let Some(Replan { target, split, events }) = self.controller.replan(situation, || clock.now()) else {
            return Ok(());
        };
        events.into_iter().for_each(|event| self.record_event(|| event));
        if let Some((count, why)) = split {
            self.split(count, &why, out)?;
        }
        if let Some(target) = target {
            log::info!(
                "farm {}: {target} instead of {workers} workers: {}",
                shown(&self.name),
                self.controller.why().unwrap_or_default()
            );
            self.state.tasks.set_target(target);
            self.adjust_workers(out)?;
        }
        Ok(())
    }
}

impl<'scope, 'w: 'scope, 'f: 'scope> MasterRun<'_, 'scope, '_, 'w, 'f> {
    /// Measures links between rank 0 and idle workers, and checks the number of workers. Called between two iterations, while no message is in
    /// flight. `took` is the time in which the tasks of the next iteration were created.
    pub(in super::super) fn between(&mut self, took: Duration) -> Result<()> {
        let (clock, start) = (self.master.clock, self.master.start);
        if self.master.state.groups.len() > 0 {
            return Ok(());
        }
        self.master.controller.iteration(took);
        let now = clock.now();
        for bytes in self.master.controller.round_trips(now.saturating_sub(start)) {
            self.round_trips(bytes)?;
        }
        if self.master.controller.is_due(now, false, 0) {
            self.master.replan(now, false, &mut Outgoing::new(self.endpoint))?;
        }
        self.master.controller.resume(clock.now());
        Ok(())
    }

    /// Measures two round trips to an idle worker: of an empty message and of one of `bytes` bytes. Successive calls measure
    /// different workers.
    fn round_trips(&mut self, bytes: usize) -> Result<()> {
        let (size, clock) = (self.endpoint.size(), self.master.clock);
        let idle = |&rank: &usize| {
            let workers = self.master.state.workers();
            workers.state_of(rank) == WorkerState::Active && workers.held(rank) == 0
        };
        let probed = self.master.probed;
        let Some(to) = (1..size).map(|n| 1 + (probed + n) % (size - 1)).find(idle) else {
            return Ok(());
        };
        self.master.probed = to - 1;
        let has_limit = self.endpoint.capabilities().real_time;
        let mut probe = LinkProbe::new(self.endpoint.run(), to, bytes, [1, 1]);
        loop {
            let start = clock.now();
            let Some(question) = probe.next_frame(start) else { break };
            self.master.echo = None;
            self.endpoint.send_ready(to, question)?;
            self.wait_until(None, |master, _| {
                let is_timed_out = || has_limit && clock.now().saturating_sub(start) > ROUND_TRIP_LIMIT;
                Ok(master.echo == Some(to) || is_timed_out())
            })?;
            if self.master.echo != Some(to) {
                return Ok(());
            }
            probe.answered(clock.now());
        }
        self.master.controller.echo(bytes, probe.round_trips());
        Ok(())
    }
}
