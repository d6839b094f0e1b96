//! What every rank does in a stream: the state machine, what is measured, and what goes to the log of events.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use armature_planner::Link;

use super::erased::Codec;
use super::job_cost::JobCost;
use super::links::Arrival;
use super::machine::table::Table;
use super::machine::window::{WindowPlan, first_fill};
use super::machine::{Done, Idle, Machine, Source, StreamEvent};
use super::messages::{Ready, StreamMessage};
use super::metrics::{Measurements, Metrics};
use super::stage_host::{SetUp, StageHost};
use super::stats::{Activity, Doing, RankReport, StageStats};
use super::tasks::Task;
use crate::balance::probe::Speed;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::{Event, EventLog, Place};
use crate::rank::heartbeat::Sign;
use crate::rank::protocol::{Moment, Outgoing};
use crate::session::Config;

/// See the module's page.
pub(crate) struct Participant {
    rank: usize,
    size: usize,
    run: u32,
    machine: Machine,
    /// The mapping that this rank has set its stages up for, or does, and does not use yet.
    prepared: Option<Table>,
    /// Tasks that come before all jobs.
    tasks: VecDeque<Task>,
    /// Of these, and of what user code is at, those that will be answered.
    unanswered: usize,
    activity: Arc<Activity>,
    /// Since when the rank has had nothing to compute, and why.
    idle: Option<(Duration, Idle)>,
    report: RankReport,
    metrics: Metrics,
    events: EventLog,
    stage_names: Vec<String>,
}

impl Participant {
    /// Rank `rank` of `size` in run number `run`; its user code keeps `activity` at what it does.
    pub(crate) fn new(
        (rank, size, run): (usize, usize, u32),
        codecs: Vec<Arc<dyn Codec>>,
        activity: Arc<Activity>,
        (stage_names, expanding): (Vec<String>, Vec<bool>),
        config: &Config,
    ) -> Self {
        let stages = vec![StageStats::default(); stage_names.len()];
        let machine = Machine::new(rank, run, codecs, config.request_ahead).with_names(&stage_names);
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

    /// Makes this rank 0's, which reads the source. With `wants_end` an empty batch comes behind all others.
    pub(crate) fn with_source(mut self, plan: WindowPlan, wants_end: bool, now: Duration) -> Self {
        self.machine = self.machine.with_source(plan, wants_end, now);
        self
    }

    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The mapping in force here; 0 before the first.
    pub(crate) fn epoch(&self) -> u32 {
        self.machine.epoch()
    }

    /// Whether the mapping in force has nothing for this rank.
    pub(crate) fn is_parked(&self) -> bool {
        self.machine.is_parked()
    }

    /// Whether user code has been asked something other than a job and has not answered.
    pub(crate) fn is_asked(&self) -> bool {
        self.unanswered > 0
    }

    /// Rank 0's end of the stream.
    pub(crate) fn source(&mut self) -> Option<&mut Source> {
        self.machine.source_mut()
    }

    /// Begins the log of events, if there is to be one; `elapsed` is the time since the run began.
    pub(crate) fn log_events(&mut self, dir: Option<&Path>, elapsed: Duration, at: &Moment) {
        let Some(dir) = dir.filter(|_| !self.events.is_on()) else { return };
        let offset = elapsed.as_secs_f64() - at.now().as_secs_f64();
        let place = Place { rank: self.rank, run: self.run.saturating_sub(1), offset };
        self.events = EventLog::open(dir, place);
    }

    /// Puts an event into the log, if there is one.
    pub(crate) fn log(&mut self, at: &Moment, event: impl FnOnce() -> Event) {
        if self.events.is_on() {
            self.events.record(at.now(), event);
        }
    }

    /// Takes a message of the stream in.
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
        self.machine.on_message(from, message)?;
        self.send_messages(at, out)
    }

    /// Takes the result of a job in, and sends what follows from it: somebody may be waiting for it.
    pub(crate) fn on_done(
        &mut self,
        done: Done,
        cost: &JobCost,
        at: &Moment,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        self.metrics.note(cost);
        let now = if self.machine.needs_time(&done) { at.now() } else { Duration::ZERO };
        self.machine.on_done(done, now)?;
        self.send_messages(at, out)
    }

    /// What user code is to do next.
    pub(crate) fn next(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<Option<Task>> {
        if let Some(task) = self.tasks.pop_front() {
            return Ok(Some(task));
        }
        let Some(job) = self.machine.next_job()? else { return Ok(None) };
        self.end_idle(at);
        self.send_messages(at, out)?;
        Ok(Some(Task::Job(job)))
    }

    /// The rank has nothing to compute.
    pub(crate) fn on_idle(&mut self, at: &Moment) {
        if self.idle.is_none() {
            self.idle = Some((at.now(), self.machine.idle_reason()));
        }
    }

    /// Puts into the log what has happened in the stream.
    pub(crate) fn on_tick(&mut self, now: Duration, at: &Moment) {
        self.log_stream_events(at);
        self.events.tick(now);
    }

    /// Whether there is something to do before all jobs.
    pub(crate) fn has_task(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// What the rank does, for the others.
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
                let name = self.stage_names.get(stage).map_or("?", String::as_str);
                format!("in stage {name}, items from {item} on")
            }
        }
    }

    /// Rank 0: whether it has nothing to compute although items are in flight.
    pub(crate) fn is_held_up(&self) -> bool {
        self.idle.is_some() && self.machine.source().is_some_and(|source| source.flow().in_flight > 0)
    }

    /// Has the stages set up that `table` puts here, while the stream goes on; [`set_up`](Participant::set_up) follows.
    pub(crate) fn prepare(&mut self, table: Table) {
        self.tasks.push_back(Task::SetUp { hosted: table.hosted(self.rank) });
        self.unanswered += 1;
        self.prepared = Some(table);
    }

    /// The stages of the mapping that was prepared are set up.
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

    /// Goes over to the mapping of `epoch`, which was prepared.
    pub(crate) fn switch(&mut self, epoch: u32, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let table = self.prepared.take().filter(|table| table.epoch == epoch).ok_or_else(|| {
            let text = format!("was ordered to use mapping {epoch}, which it has not prepared");
            Error::new(ErrorKind::Wire, text)
        })?;
        self.machine.switch(table)?;
        self.send_messages(at, out)
    }

    /// Takes the sizes of items on the next `weigh` batches of every edge, and has measurements due so often.
    pub(crate) fn measure(&mut self, weigh: usize, every: Option<Duration>, at: &Moment) {
        self.metrics.report_every(every, at.now());
        if weigh > 0 {
            self.tasks.push_back(Task::Measure { batches: weigh });
        }
    }

    /// From now on watches the traffic over links into this rank, which were probed as `known`, by sender; not at all
    /// where there are none.
    pub(crate) fn watch_links(&mut self, known: &[Link]) {
        self.metrics.watch_links(known);
    }

    /// What has been measured here so far.
    pub(crate) fn measurements(&mut self) -> Measurements {
        self.metrics.measurements(self.machine.volumes())
    }

    /// The same, if there is anything new in it and it is time to send it.
    pub(crate) fn measurements_due(&mut self, now: Duration) -> Option<Measurements> {
        let due = self.metrics.is_due(now);
        due.then(|| self.measurements())
    }

    /// Has the speed of this rank measured, before its next job.
    pub(crate) fn probe(&mut self) {
        self.tasks.push_back(Task::Probe);
        self.unanswered += 1;
    }

    /// The speed was measured that was [asked for](Participant::probe).
    pub(crate) fn probed(&mut self) {
        self.unanswered -= 1;
    }

    /// The speed was measured because the rank had nothing else to do.
    pub(crate) fn take_speed(&mut self, speed: Speed) {
        self.metrics.probed(speed);
    }

    /// What the rank has counted, at the end.
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

    fn send_messages(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        if !self.machine.has_messages() {
            return Ok(());
        }
        let sent = (at.looks_after_messages && self.metrics.watches_links()).then(|| at.now());
        self.machine.take_messages(sent).try_for_each(|(to, frame)| out.send(to, frame))
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
            let name = |stage: usize| self.stage_names.get(stage).cloned().unwrap_or_default();
            let event = match event {
                StreamEvent::HandOver { stage, to, next, bytes } => {
                    Event::HandOver { stage: name(stage), to, next_batch: next.batch, bytes: bytes as u64 }
                }
                StreamEvent::TakeOver { stage, from, next } => {
                    Event::TakeOver { stage: name(stage), from, next_batch: next.batch }
                }
                StreamEvent::Forwarded { epoch, batches } => Event::Forwarded { epoch, batches },
            };
            self.log(at, || event);
        }
    }
}
