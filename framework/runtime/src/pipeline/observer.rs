//! Measurements, idle times, heartbeats and event log of a rank that takes part in a pipeline. The protocol of the pipeline does not depend on them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use armature_text::shown;

use super::links::Arrival;
use super::machine::{Idle, Job, Machine};
use super::messages::{Ready, StreamMessage};
use super::metrics::Metrics;
use super::stage_host::StageHost;
use super::stats::{Activity, Doing, RankReport, StageStats};
use crate::observe::{Event, EventLog, LogOrigin};
use crate::rank::heartbeat::HeartbeatState;
use crate::rank::protocol::Moment;

pub(crate) struct Observer {
    rank: usize,
    run: u32,
    pub(crate) metrics: Metrics,
    activity: Arc<Activity>,
    /// Start time and reason of the current idle time, if the rank is idle.
    idle: Option<(Duration, Idle)>,
    report: RankReport,
    events: EventLog,
    stage_names: Vec<String>,
}

impl Observer {
    /// Creates the observer of a rank in run number `run`. The thread that runs the stages records its current call of user code in `activity`.
    pub(crate) fn new(
        (rank, run): (usize, u32),
        activity: Arc<Activity>,
        (stage_names, expanding): (Vec<String>, Vec<bool>),
    ) -> Self {
        Observer {
            rank,
            run,
            metrics: Metrics::new(expanding),
            activity,
            idle: None,
            report: RankReport::default(),
            events: EventLog::off(),
            stage_names,
        }
    }

    /// Opens the event log if there is a directory for it. `elapsed` is the time since the start of the run.
    pub(crate) fn log_events(&mut self, dir: Option<&Path>, elapsed: Duration, at: &Moment) {
        let Some(dir) = dir.filter(|_| !self.events.is_on()) else { return };
        let offset = elapsed.as_secs_f64() - at.now().as_secs_f64();
        let origin = LogOrigin { rank: self.rank, run: self.run.saturating_sub(1), offset };
        self.events = EventLog::open(dir, origin);
    }

    pub(crate) fn log(&mut self, at: &Moment, event: impl FnOnce() -> Event) {
        if self.events.is_on() {
            self.events.record(at.now(), event);
        }
    }

    pub(crate) fn arrived(&mut self, from: usize, message: &StreamMessage, at: &Moment) {
        if let StreamMessage::Batch(batch) = message
            && self.metrics.watches_links()
        {
            let (bytes, sent) = (batch.bytes, batch.sent);
            self.metrics.arrived(Arrival {
                from,
                bytes,
                sent,
                now: at.now(),
                computed_since_poll: at.computed_since_poll,
            });
        }
    }

    /// Ends the idle time of the rank if a job (call of user code) processes items.
    pub(crate) fn begins(&mut self, job: &Job, at: &Moment) {
        if !matches!(job, Job::SetUp { .. } | Job::Measure { .. } | Job::Probe) {
            self.end_idle(at);
        }
    }

    pub(crate) fn on_idle(&mut self, machine: &Machine, at: &Moment) {
        if self.idle.is_none() {
            self.idle = Some((at.now(), machine.idle_reason()));
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.idle.is_some()
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

    pub(crate) fn tick(&mut self, machine: &mut Machine, now: Duration, at: &Moment) {
        self.log_stream(machine, at);
        self.events.tick(now);
    }

    fn log_stream(&mut self, machine: &mut Machine, at: &Moment) {
        for event in machine.take_events() {
            self.log(at, || event);
        }
    }

    pub(crate) fn ready(&mut self, ready: &Ready, at: &Moment) {
        for &(stage, took) in &ready.warm_up {
            let stage = self.stage_names[stage].clone();
            self.log(at, || Event::WarmUp { stage, seconds: took.as_secs_f64() });
        }
        self.log(at, || Event::Ready { epoch: ready.epoch });
    }

    pub(crate) fn heartbeat_state(&self, machine: &Machine) -> HeartbeatState {
        let doing = self.activity.get();
        let text = match doing {
            Doing::Nothing => "computing nothing".to_string(),
            Doing::Drawing { item } => format!("drawing item {item} from the source"),
            Doing::Feeding { item } => format!("feeding item {item} to the sink"),
            Doing::Stage { stage, item } => {
                let name = shown(self.stage_names.get(stage).map_or("?", String::as_str));
                format!("in stage {name}, items from {item} on")
            }
        };
        let state = format!("{text}; {}", machine.describe());
        HeartbeatState::new(doing != Doing::Nothing, state).or_rests(self.rank > 0 && machine.is_parked())
    }

    pub(crate) fn finish(&mut self, machine: &mut Machine, host: &StageHost<'_>, at: &Moment) -> RankReport {
        self.end_idle(at);
        self.log_stream(machine, at);
        self.report.add_traffic(machine.traffic());
        let (stages, source_and_sink) = host.stats();
        self.report.source_and_sink = source_and_sink;
        let queues = stages.iter().zip(machine.longest_queues());
        let stats = |(stats, &longest_queue): (&StageStats, _)| StageStats { longest_queue, ..stats.clone() };
        self.report.stages = queues.map(stats).collect();
        std::mem::take(&mut self.report)
    }
}
