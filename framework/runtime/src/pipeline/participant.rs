//! Part of a rank in a stream, on rank 0 and on all other ranks: the state machine, measurements and the event log.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use armature_planner::Link;
use armature_text::shown;

use super::erased::Codec;
use super::job_cost::JobCost;
use super::links::Arrival;
use super::machine::table::Table;
use super::machine::window::{WindowPlan, first_fill};
use super::machine::{Done, Idle, Job, Machine, SetUp, Source};
use super::messages::{Ready, StreamMessage};
use super::metrics::{Measurements, Metrics};
use super::stage_host::StageHost;
use super::stats::{Activity, Doing, RankReport, StageStats};
use crate::balance::probe::Speed;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::{Event, EventLog, Place};
use crate::rank::heartbeat::Sign;
use crate::rank::protocol::{Moment, Outgoing};
use crate::session::Config;

/// Part of a rank in a stream; see the module documentation.
pub(crate) struct Participant {
    rank: usize,
    size: usize,
    run: u32,
    machine: Machine,
    /// Mapping for which the stages of this rank are set up or being set up, and to which the rank has not switched yet.
    prepared: Option<Table>,
    /// Tasks that run before all jobs.
    tasks: VecDeque<Job>,
    /// Number of queued or running tasks other than jobs whose outcome is pending.
    unanswered: usize,
    activity: Arc<Activity>,
    /// Start and reason of the current idle time.
    idle: Option<(Duration, Idle)>,
    report: RankReport,
    metrics: Metrics,
    events: EventLog,
    stage_names: Vec<String>,
}

impl Participant {
    /// Creates the part of rank `rank` of `size` ranks in run number `run`. The user code of the rank records its current activity in `activity`.
    pub(crate) fn new(
        (rank, size, run): (usize, usize, u32),
        codecs: Vec<Arc<dyn Codec>>,
        activity: Arc<Activity>,
        (stage_names, expanding): (Vec<String>, Vec<bool>),
        config: &Config,
    ) -> Self {
        let stages = vec![StageStats::default(); stage_names.len()];
        let machine = Machine::new(rank, codecs, config.request_ahead).with_names(&stage_names);
        Participant {
            rank,
            size,
            run,
            metrics: Metrics::new(expanding.clone()),
            machine: machine.with_expanding(expanding, first_fill(config.batch, config.batch_time)),
            prepared: None,
            tasks: VecDeque::new(),
            unanswered: 0,
            activity,
            idle: None,
            report: RankReport { stages, ..RankReport::default() },
            events: EventLog::off(),
            stage_names,
        }
    }

    /// Makes this the part of rank 0, which reads the source. With `wants_end`, an empty batch follows all others.
    pub(crate) fn with_source(mut self, plan: WindowPlan, wants_end: bool, now: Duration) -> Self {
        self.machine = self.machine.with_source(plan, wants_end, now);
        self
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns the epoch of this rank's current mapping; 0 before the first mapping.
    pub(crate) fn epoch(&self) -> u32 {
        self.machine.epoch()
    }

    /// Returns true if this rank runs no stage under the current mapping.
    pub(crate) fn is_parked(&self) -> bool {
        self.machine.is_parked()
    }

    /// Returns true if the outcome of a task other than a job is pending.
    pub(crate) fn is_asked(&self) -> bool {
        self.unanswered > 0
    }

    /// Returns the source; `None` on ranks other than 0.
    pub(crate) fn source(&mut self) -> Option<&mut Source> {
        self.machine.source_mut()
    }

    /// Opens the event log if there is a directory for it. `elapsed` is the time since the start of the run.
    pub(crate) fn log_events(&mut self, dir: Option<&Path>, elapsed: Duration, at: &Moment) {
        let Some(dir) = dir.filter(|_| !self.events.is_on()) else { return };
        let offset = elapsed.as_secs_f64() - at.now().as_secs_f64();
        let place = Place { rank: self.rank, run: self.run.saturating_sub(1), offset };
        self.events = EventLog::open(dir, place);
    }

    /// Writes an event to the event log, if it is open.
    pub(crate) fn log(&mut self, at: &Moment, event: impl FnOnce() -> Event) {
        if self.events.is_on() {
            self.events.record(at.now(), event);
        }
    }

    /// Handles a message of the stream.
    pub(crate) fn on_message(
        &mut self,
        from: usize,
        message: StreamMessage,
        at: &Moment,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        if let StreamMessage::Batch(batch) = &message
            && self.metrics.watches_links()
        {
            let (bytes, sent) = (batch.bytes, batch.sent);
            self.metrics.arrived(Arrival { from, bytes, sent, now: at.now(), late: at.is_late });
        }
        self.machine.on_message(from, message, at, out)
    }

    /// Handles the result of a job and sends the resulting messages at once, because other ranks may be waiting for them.
    pub(crate) fn on_done(
        &mut self,
        done: Done,
        cost: &JobCost,
        at: &Moment,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        self.metrics.note(cost);
        self.machine.on_done(done, at, out)
    }

    /// Returns the next task for user code.
    pub(crate) fn next(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<Option<Job>> {
        if let Some(task) = self.tasks.pop_front() {
            return Ok(Some(task));
        }
        let Some(job) = self.machine.next_job(at, out)? else { return Ok(None) };
        self.end_idle(at);
        Ok(Some(job))
    }

    /// Registers that the rank has nothing to compute.
    pub(crate) fn on_idle(&mut self, at: &Moment) {
        if self.idle.is_none() {
            self.idle = Some((at.now(), self.machine.idle_reason()));
        }
    }

    /// Writes pending events of the stream to the event log.
    pub(crate) fn on_tick(&mut self, now: Duration, at: &Moment) {
        self.log_stream_events(at);
        self.events.tick(now);
    }

    /// Returns true if a task that runs before all jobs is queued.
    pub(crate) fn has_task(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Returns the sign of life of this rank for the other ranks.
    pub(crate) fn sign(&self) -> Sign {
        let doing = self.activity.get();
        let state = format!("{}; {}", self.describe(doing), self.machine.describe());
        Sign::new(doing != Doing::Nothing, state).or_rests(self.rank > 0 && self.is_parked())
    }

    fn describe(&self, doing: Doing) -> String {
        match doing {
            Doing::Nothing => "computing nothing".to_string(),
            Doing::Drawing { item } => format!("drawing item {item} from the source"),
            Doing::Feeding { item } => format!("feeding item {item} to the sink"),
            Doing::Stage { stage, item } => {
                let name = shown(self.stage_names.get(stage).map_or("?", String::as_str));
                format!("in stage {name}, items from {item} on")
            }
        }
    }

    /// Returns true on rank 0 if it has nothing to compute although batches are in flight.
    pub(crate) fn is_held_up(&self) -> bool {
        self.idle.is_some() && self.machine.source().is_some_and(|source| source.flow().in_flight > 0)
    }

    /// Starts the set-up of the stages that `table` assigns to this rank, while the stream continues. [`set_up`](Participant::set_up) handles its
    /// outcome.
    pub(crate) fn prepare(&mut self, table: Table) {
        self.tasks.push_back(Job::SetUp { hosted: table.hosted(self.rank) });
        self.unanswered += 1;
        self.prepared = Some(table);
    }

    /// Handles the outcome of the set-up for the prepared mapping. Returns the report for rank 0.
    pub(crate) fn set_up(&mut self, SetUp { movable, warm_up }: SetUp, at: &Moment) -> Ready {
        self.unanswered -= 1;
        for &(stage, took) in &warm_up {
            let stage = self.stage_names[stage].clone();
            self.log(at, || Event::WarmUp { stage, seconds: took.as_secs_f64() });
        }
        let epoch = self.prepared.as_ref().map_or(0, |table| table.epoch);
        self.log(at, || Event::Ready { epoch });
        Ready { epoch, movable, warm_up }
    }

    /// Switches to the prepared mapping of `epoch`.
    pub(crate) fn switch(&mut self, epoch: u32, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let table = self.prepared.take().filter(|table| table.epoch == epoch).ok_or_else(|| {
            let text = format!("was ordered to use mapping {epoch}, which it has not prepared");
            Error::new(ErrorKind::Wire, text)
        })?;
        self.machine.switch(table, at, out)
    }

    /// Measures the sizes of items on the next `weigh` batches of every edge, and makes measurements due at the interval `every`.
    pub(crate) fn measure(&mut self, weigh: usize, every: Option<Duration>, at: &Moment) {
        self.metrics.report_every(every, at.now());
        if weigh > 0 {
            self.tasks.push_back(Job::Measure { batches: weigh });
        }
    }

    /// Starts to monitor the traffic over links into this rank. `known` are the probed links by sender; if it is empty, nothing is monitored.
    pub(crate) fn watch_links(&mut self, known: &[Link]) {
        self.metrics.watch_links(known);
        self.machine.stamp_batches(self.metrics.watches_links());
    }

    /// Returns all measurements of this rank so far.
    pub(crate) fn measurements(&mut self) -> Measurements {
        self.metrics.measurements(self.machine.volumes())
    }

    /// Returns the measurements if there are new ones and a report is due.
    pub(crate) fn measurements_due(&mut self, now: Duration) -> Option<Measurements> {
        let due = self.metrics.is_due(now);
        due.then(|| self.measurements())
    }

    /// Measures the speed of this rank before its next job.
    pub(crate) fn probe(&mut self) {
        self.tasks.push_back(Job::Probe);
        self.unanswered += 1;
    }

    /// Registers that the speed has been measured as [requested](Participant::probe).
    pub(crate) fn probed(&mut self) {
        self.unanswered -= 1;
    }

    /// Stores a speed that was measured because the rank was parked.
    pub(crate) fn take_speed(&mut self, speed: Speed) {
        self.metrics.probed(speed);
    }

    /// Returns the report of the rank at the end of the run.
    pub(crate) fn finish(&mut self, host: &StageHost<'_>, at: &Moment) -> RankReport {
        self.end_idle(at);
        self.log_stream_events(at);
        self.report.add_traffic(self.machine.traffic());
        let (stages, source_and_sink) = host.stats();
        self.report.source_and_sink = source_and_sink;
        let queues = self.machine.longest_queues();
        for ((slot, fresh), &longest_queue) in self.report.stages.iter_mut().zip(stages).zip(queues) {
            *slot = StageStats { longest_queue, ..fresh.clone() };
        }
        std::mem::take(&mut self.report)
    }

    fn end_idle(&mut self, at: &Moment) {
        if let Some((since, reason)) = self.idle.take() {
            let waited = at.now().saturating_sub(since);
            match reason {
                Idle::Input => self.report.waiting_input += waited,
                Idle::Downstream => self.report.waiting_downstream += waited,
            }
        }
    }

    fn log_stream_events(&mut self, at: &Moment) {
        for event in self.machine.take_events() {
            self.log(at, || event);
        }
    }
}
