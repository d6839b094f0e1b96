//! One rank while a pipeline runs: turns messages into work and work into messages.
//!
//! The state machine says what to do, the engine does it, the endpoint carries it; this brings the
//! three together, for whoever runs the rank: the conductor on rank 0, a follower elsewhere.

mod turn;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use armature_planner::Link;

use super::erased::Codec;
use super::ledger::{Activity, RankReport, StageStats};
use super::machine::table::Table;
use super::machine::window::WindowPlan;
use super::machine::{Idle, Machine, Source};
use super::meter::{Measures, Meter};
use super::probe;
use super::tasks::Task;
use super::watch::Watch;
use super::workshop::{SetUp, Workshop};
use crate::comm::Backoff;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::Message;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::{Event, EventLog, Place};
use crate::rank::executor::Executor;
use crate::session::Config;

/// How often a parked rank looks at its own speed.
const PROBE_EVERY: Duration = Duration::from_secs(2);

/// See the module's page.
pub(crate) struct Rank<'a, 'scope, 'env, 'p> {
    endpoint: &'a mut Endpoint,
    engine: Executor<'scope, 'env, Workshop<'p>>,
    machine: Machine,
    /// The mapping that this rank has set its stages up for and has not been told to use yet.
    prepared: Option<Table>,
    activity: Arc<Activity>,
    clock: Clock,
    backoff: Backoff,
    watch: Watch,
    /// Messages for whoever runs the rank: the conductor or the follower.
    control: VecDeque<Message>,
    /// A task that comes before all jobs.
    first: Option<Task>,
    answers: VecDeque<SetUp>,
    /// Since when the rank has had nothing to compute, and why.
    idle: Option<(Duration, Idle)>,
    report: RankReport,
    meter: Meter,
    events: EventLog,
    stage_names: Vec<String>,
    /// When this rank looks at its own speed again, while it is parked.
    next_probe: Duration,
    turns: u32,
    /// Whether anything was computed on this thread since it last looked for messages and found none: what it finds now
    /// may have been here for a while.
    looks_late: bool,
}

impl<'a, 'scope, 'env, 'p: 'scope> Rank<'a, 'scope, 'env, 'p> {
    pub(crate) fn new(
        endpoint: &'a mut Endpoint,
        engine: Executor<'scope, 'env, Workshop<'p>>,
        run: u32,
        codecs: Vec<Arc<dyn Codec>>,
        activity: Arc<Activity>,
        stage_names: &[String],
        config: &Config,
    ) -> Self {
        let machine =
            Machine::new(endpoint.rank(), run, codecs, config.request_ahead).with_names(stage_names);
        let report =
            RankReport { stages: vec![StageStats::default(); stage_names.len()], ..RankReport::default() };
        Rank {
            watch: Watch::new(endpoint, stage_names.to_vec(), config),
            clock: endpoint.clock(),
            backoff: endpoint.backoff(),
            endpoint,
            engine,
            machine,
            prepared: None,
            activity,
            control: VecDeque::new(),
            first: None,
            answers: VecDeque::new(),
            idle: None,
            report,
            meter: Meter::new(stage_names.len()),
            events: EventLog::off(),
            stage_names: stage_names.to_vec(),
            next_probe: Duration::ZERO,
            turns: 0,
            looks_late: true,
        }
    }

    /// Makes this rank 0's, which reads the source.
    pub(crate) fn with_source(mut self, plan: WindowPlan) -> Self {
        self.machine = self.machine.with_source(plan, self.clock.now());
        self
    }

    pub(crate) fn number(&self) -> usize {
        self.endpoint.rank()
    }

    pub(crate) fn size(&self) -> usize {
        self.endpoint.size()
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn endpoint(&mut self) -> &mut Endpoint {
        self.endpoint
    }

    /// The mapping in force here; 0 before the first.
    pub(crate) fn epoch(&self) -> u32 {
        self.machine.epoch()
    }

    /// Begins the log of events, if there is to be one; `elapsed` is the time since the run began.
    pub(crate) fn log_events(&mut self, dir: Option<&Path>, elapsed: Duration) {
        let Some(dir) = dir.filter(|_| !self.events.is_on()) else { return };
        let offset = elapsed.as_secs_f64() - self.clock.now().as_secs_f64();
        let place = Place {
            rank: self.number(),
            size: self.size(),
            run: self.endpoint.run().saturating_sub(1),
            offset,
        };
        self.events = EventLog::open(dir, place);
    }

    /// Puts an event into the log, if there is one.
    pub(crate) fn tell(&mut self, event: impl FnOnce() -> Event) {
        if self.events.is_on() {
            self.events.record(self.clock.now(), event);
        }
    }

    /// Rank 0's end of the stream.
    pub(crate) fn source(&mut self) -> Option<&mut Source> {
        self.machine.source_mut()
    }

    /// The next message that is not about items.
    pub(crate) fn control(&mut self) -> Option<Message> {
        self.control.pop_front()
    }

    /// Sets the stages up that `table` puts here, while the stream goes on; returns when their factories are done.
    pub(crate) fn prepare(&mut self, table: Table) -> Result<SetUp> {
        self.first = Some(Task::SetUp { hosted: table.hosted(self.number()) });
        loop {
            if let Some(answer) = self.answers.pop_front() {
                for &(stage, took) in &answer.warm_up {
                    let stage = self.stage_names[stage].clone();
                    self.tell(|| Event::WarmUp { stage, seconds: took.as_secs_f64() });
                }
                self.tell(|| Event::Ready { epoch: table.epoch });
                self.prepared = Some(table);
                return Ok(answer);
            }
            self.turn_or_wait()?;
        }
    }

    /// Goes over to the mapping of `epoch`, which was prepared.
    pub(crate) fn switch(&mut self, epoch: u32) -> Result<()> {
        let table = self.prepared.take().filter(|table| table.epoch == epoch).ok_or_else(|| {
            let text = format!("was told to use mapping {epoch}, which it has not prepared");
            self.here(Error::new(ErrorKind::Wire, text))
        })?;
        let switched = self.machine.switch(table);
        switched.map_err(|e| self.here(e))?;
        self.send_mail()
    }

    /// Takes the sizes of items on the next `weigh` batches of every edge, and has measurements due so often.
    pub(crate) fn measure(&mut self, weigh: usize, every: Option<Duration>) -> Result<()> {
        self.meter.tell_every(every, self.clock.now());
        if weigh == 0 { Ok(()) } else { self.engine.submit(Task::Measure { batches: weigh }) }
    }

    /// From now on watches the traffic over links into this rank, which were probed as `known`, by sender; not at all
    /// where there are none.
    pub(crate) fn watch_links(&mut self, known: &[Link]) {
        self.meter.watch_links(known);
    }

    /// What has been measured here so far.
    pub(crate) fn measures(&mut self) -> Measures {
        self.meter.measures(self.machine.volumes())
    }

    /// The same, if there is anything new in it and it is time to tell it.
    pub(crate) fn measures_due(&mut self) -> Option<Measures> {
        let due = self.meter.is_due(self.clock.now());
        due.then(|| self.measures())
    }

    /// A rank that runs no stage looks at its own speed now and then: nothing else would tell that a load which
    /// competed with it has gone, or come.
    pub(crate) fn probe_if_parked(&mut self) {
        let now = self.clock.now();
        if self.machine.is_parked() && now >= self.next_probe {
            if self.next_probe > Duration::ZERO {
                self.meter.probed(probe::speed(self.clock));
            }
            self.next_probe = now + PROBE_EVERY;
        }
    }

    /// Ends the rank's part; returns what it has counted, and the endpoint.
    pub(crate) fn finish(mut self) -> Result<(RankReport, &'a mut Endpoint)> {
        self.end_idle();
        self.tell_notes();
        self.report.add_traffic(self.machine.traffic());
        let workshop = self.engine.finish()?;
        let queues = self.machine.longest_queues();
        for ((slot, fresh), &longest_queue) in self.report.stages.iter_mut().zip(workshop.stats()).zip(queues)
        {
            *slot = StageStats { longest_queue, ..fresh.clone() };
        }
        Ok((self.report, self.endpoint))
    }

    fn here(&self, error: Error) -> Error {
        error.at_rank(self.number())
    }

    fn end_idle(&mut self) {
        if let Some((since, reason)) = self.idle.take() {
            let waited = self.clock.now().saturating_sub(since);
            match reason {
                Idle::Input => self.report.waiting_input += waited,
                Idle::Downstream => self.report.waiting_downstream += waited,
            }
        }
    }
}
