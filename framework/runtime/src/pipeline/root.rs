//! Protocol of rank 0 in a pipeline: chooses the first mapping of stages to ranks, starts the ranks, controls the stream and collects the reports.

mod remapper;

use std::time::Duration;

use armature_planner::pipeline::Mapping;

use super::controller::Controller;
use super::job_cost::JobCost;
use super::machine::batch::SavedStage;
use super::machine::{Committed, Done, Job, Machine, Source};
use super::messages::{Directive, Received, Report};
use super::observer::Observer;
use super::performance_model::{PerformanceModel, SPEED_LASTS};
use super::progress::Progress;
use super::remap_cost::RemapCostMeter;
use super::remaps::Remap;
use super::run_spec::RunSpec;
use super::snapshots::{Resumed, Snapshots};
use super::stage_host::StageHost;
use super::stats::RankReport;
use super::summary::Summary;
use crate::balance::link_probe::FASTEST;
use crate::balance::probe::{Probe, ProbeAction, Probed, Speed};
use crate::comm::endpoint::Endpoint;
use crate::comm::endpoint::stopping::kept;
use crate::comm::message::{Control, Message};
use crate::error::{Error, ErrorKind, Result};
use crate::observe::number_format::count;
use crate::observe::{self, Event};
use crate::rank::heartbeat::HeartbeatState;
use crate::rank::protocol::{FREQUENT_POLLS, JobOf, Moment, Next, Outgoing, Protocol};
use crate::session::{Balance, Config};

#[derive(Debug)]
enum Phase {
    /// The ranks measure their speeds and links and report them to rank 0 (probe).
    Probing(Box<Probe>),
    Streaming,
    /// The stream has ended, and the ranks send their last reports. The field holds the reports that have arrived, by rank.
    Ending(Vec<Option<RankReport>>),
}

/// Next mapping of stages to ranks, for which the ranks are creating their stages.
struct Change {
    mapping: Mapping,
    remap: Remap,
    /// Ranks that have not reported yet that their stages for the next mapping are ready.
    waiting: Vec<usize>,
}

/// Protocol of rank 0, which coordinates the ranks of a pipeline and also runs stages.
pub(crate) struct Root<'c, 'p> {
    machine: Machine,
    observer: Observer,
    size: usize,
    run_spec: RunSpec<'c>,
    config: &'c Config,
    performance_model: PerformanceModel,
    controller: Option<Controller>,
    cost: RemapCostMeter,
    balance: Balance,
    start: Duration,
    phase: Phase,
    mapping: Mapping,
    change: Option<Change>,
    remaps: Vec<Remap>,
    is_calibrating: bool,
    /// Time at the end of the calibration, in which rank 0 runs all stages to measure them before the mapping is planned, and number of items drawn
    /// by then.
    calibrated: Option<(Duration, u64)>,
    predicted: Option<f64>,
    /// Time of the next check whether a change of the mapping is due, while the stream runs.
    next_replan: Duration,
    ended: Duration,
    snapshots: Option<Snapshots>,
    /// True if the stream must end with the next snapshot that is due, because the job was asked to stop.
    stops_at_snapshot: bool,
    /// States of the serial stages in the snapshot from which the job continues; sent to the ranks with the first mapping.
    saved: Vec<SavedStage>,
    sink: SinkEnd,
    code: std::marker::PhantomData<StageHost<'p>>,
}

/// State of the call of the sink's `finish`, which is the last call of user code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SinkEnd {
    /// The sink's `finish` must be called when all items have reached the sink.
    Open,
    Finishing,
    Finished,
}

impl<'c, 'p> Root<'c, 'p> {
    pub(crate) fn new(
        (machine, observer): (Machine, Observer),
        run_spec: RunSpec<'c>,
        (config, snapshots, finishes): (&'c Config, Option<(Snapshots, Resumed)>, bool),
        endpoint: &Endpoint,
    ) -> Result<Self> {
        let (now, simulated) = (endpoint.clock().now(), !endpoint.capabilities().real_time);
        let planned = run_spec.mapping.is_none();
        let balance = match config.balance {
            // The mapping of a pipeline without stages cannot change.
            _ if run_spec.expanding.is_empty() => Balance::Off,
            Some(balance) => balance,
            None if planned => Balance::Live,
            None => Balance::Off,
        };
        let size = endpoint.size();
        let mut machine = machine.with_source(run_spec.first_window(config), run_spec.may_finish, now);
        let (snapshots, resumed) = snapshots.unzip();
        let resumed = resumed.unwrap_or_default();
        if let (Some(_), Some(source)) = (&snapshots, machine.source_mut()) {
            let before = resumed.position.as_ref().map_or(0, |position| position.items);
            source.with_snapshots(run_spec.ordered, before, resumed.is_finished);
        }
        if let Some(position) = resumed.position {
            machine.request(Job::ResumeSink(position));
        }
        Ok(Root {
            performance_model: PerformanceModel::new(&run_spec, size, balance, simulated)?,
            controller: Controller::new(balance, size)?,
            cost: RemapCostMeter::new(),
            balance,
            mapping: run_spec.first(),
            is_calibrating: planned,
            machine,
            snapshots,
            stops_at_snapshot: false,
            saved: resumed.stages,
            sink: if finishes { SinkEnd::Open } else { SinkEnd::Finished },
            observer,
            size,
            run_spec,
            config,
            start: now,
            phase: Phase::Streaming,
            change: None,
            remaps: Vec::new(),
            calibrated: None,
            predicted: None,
            next_replan: now,
            ended: now,
            code: std::marker::PhantomData,
        })
    }

    /// Starts a probe, in which the ranks measure their speeds and links, unless recent measurements can be used.
    fn probe(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let last = self.run_spec.probed.clone();
        if let Some((when, probed)) = last
            && at.now().saturating_sub(when) < SPEED_LASTS
        {
            return self.probed(probed, at, out);
        }
        // The user has given the speeds and bandwidths, so nothing has to be measured.
        if let Some(given) = self.config.platform.as_ref().filter(|given| given.is_complete()) {
            return self.probed(Probed::given(given, FASTEST)?, at, out);
        }
        self.phase = Phase::Probing(Box::new(Probe::new(out.run(), self.size)));
        for to in 1..self.size {
            out.send(to, Directive::MeasureSpeed)?;
        }
        self.machine.request(Job::Probe);
        Ok(())
    }

    /// Handles the answer of a rank (which may be rank 0) to the probe: the measured speed, or, if `speed` is `None`, the echo of a message that
    /// measures the link to the rank.
    fn on_answer(
        &mut self,
        from: usize,
        speed: Option<Speed>,
        at: &Moment,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let Phase::Probing(probe) = &mut self.phase else {
            return Err(out_of_step(from, "an answer to a probe"));
        };
        let (now, sharing) = (at.now(), self.run_spec.sharing);
        let action = match speed {
            Some(speed) => probe.on_speed(from, speed, now, sharing),
            None => probe.on_echo(from, now, sharing),
        };
        match action? {
            ProbeAction::Wait => Ok(()),
            ProbeAction::Send(to, question) => out.send(to, question),
            ProbeAction::Done(probed) => {
                let probed = match &self.config.platform {
                    Some(given) => probed.corrected_by(given)?,
                    None => probed,
                };
                *self.run_spec.probed = Some((now, probed.clone()));
                self.probed(probed, at, out)
            }
        }
    }

    /// Starts the stream when the speeds and links of the ranks are known.
    fn probed(&mut self, probed: Probed, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        self.phase = Phase::Streaming;
        let sharing = self.run_spec.sharing;
        self.observer.log(at, || Event::of_probe(&probed, sharing));
        self.performance_model.probed(probed, self.config.speeds().is_some());
        self.begin(self.mapping.clone(), Remap::first(), at, out)
    }

    fn text(&self, mapping: &Mapping) -> String {
        mapping.display(&self.run_spec.outline).to_string()
    }

    fn drawn(&self) -> u64 {
        self.machine.source().map_or(0, |s| s.items_drawn())
    }

    fn on_report(&mut self, from: usize, report: Report, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        match (report, &mut self.phase) {
            (Report::Speed(speed), _) => self.on_answer(from, Some(speed), at, out),
            (Report::Ready(ready), Phase::Streaming) => self.ready(from, &ready, at, out),
            (Report::Measurements(measurements), Phase::Streaming) => {
                self.performance_model.measured(from, measurements, at.now())
            }
            (Report::Ready(_) | Report::Measurements(_), Phase::Ending(_)) => Ok(()),
            (Report::Total(report), Phase::Ending(reports)) => {
                reports[from] = Some(report);
                Ok(())
            }
            (report, _) => Err(report.unexpected(from, "another kind of report")),
        }
    }

    fn progress_at(&self, at: &Moment) -> Option<Progress> {
        let now = at.now();
        let elapsed = now.saturating_sub(self.start);
        let source = self.machine.source()?;
        let (items, drawn, left) = (source.items_done(), source.items_drawn(), source.items_left());
        Some(Progress { now, elapsed, items, drawn, left, batches: source.window.batches() })
    }

    /// Returns true if the source has ended, all output made from its items has reached the sink, and no snapshot is being written.
    fn is_finished(&self) -> bool {
        // Before the first mapping, the source is not read and cannot be finished.
        let snapshots = self.snapshots.as_ref();
        self.machine.epoch() > 0
            && self.machine.source().is_none_or(|s| s.is_finished())
            && !snapshots.is_some_and(Snapshots::is_writing)
    }

    /// Sends the marker of a snapshot (a batch without items) into the stream if a snapshot is due, and completes a snapshot whose files have been
    /// written.
    fn advance_snapshots(&mut self, now: Duration, at: &Moment) -> Result<()> {
        let (Some(snapshots), Some(source)) = (&mut self.snapshots, self.machine.source_mut()) else {
            return Ok(());
        };
        if let Some(event) = snapshots.poll(now)? {
            self.observer.log(at, || event);
        }
        if matches!(self.phase, Phase::Streaming) && source.is_marker_useful() && snapshots.is_due(now) {
            match self.stops_at_snapshot {
                true => source.end(),
                false => source.request_marker(),
            }
        }
        Ok(())
    }

    /// Starts to write the files of a snapshot, because the sink has committed all items before the snapshot's marker.
    fn on_committed(&mut self, committed: Committed, at: &Moment) -> Result<()> {
        let (Some(snapshots), Some(source)) = (&mut self.snapshots, self.machine.source_mut()) else {
            return Ok(());
        };
        snapshots.write(committed, source.marker_arrived(), at.now())
    }

    /// Calls the sink's `finish` if it is needed and has not been called. Returns true if the sink is finished.
    fn finish_sink(&mut self) -> bool {
        let is_cut = self.machine.source().is_some_and(Source::is_cut);
        match self.sink {
            SinkEnd::Open if !is_cut => {
                self.sink = SinkEnd::Finishing;
                self.machine.request(Job::FinishSink);
                false
            }
            SinkEnd::Finishing => false,
            SinkEnd::Open | SinkEnd::Finished => true,
        }
    }

    /// Directs the other ranks to end the run, because the stream has ended, and begins to collect their last reports.
    fn end(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        if let Some(progress) = self.progress_at(at) {
            let update = self.cost.end(progress);
            self.take_cost(progress, update);
        }
        self.ended = at.now();
        let (items, elapsed) = (self.drawn(), self.ended.saturating_sub(self.start));
        self.observer.log(at, || Event::Finish { items, seconds: elapsed.as_secs_f64() });
        if let Some(source) = self.machine.source().filter(|source| source.is_cut()) {
            let done = source.items_before() + items;
            let total = source.items_left().map(|left| done + left);
            let text = match self.snapshots.as_ref().and_then(Snapshots::kept) {
                Some((items, dir)) => kept((items, total), "items", Some(dir)),
                None => kept((done, total), "items", None),
            };
            out.endpoint().stop_run(&text)?;
        }
        for to in 1..self.size {
            out.send(to, Directive::Finish)?;
        }
        self.phase = Phase::Ending(vec![None; self.size]);
        Ok(())
    }

    pub(crate) fn finish(mut self, host: &StageHost<'_>, at: &Moment) -> Summary {
        let items = self.drawn();
        let delivered = self.machine.source().map_or(0, |source| source.items_delivered());
        let mut reports = match std::mem::replace(&mut self.phase, Phase::Streaming) {
            Phase::Ending(reports) => reports,
            _ => vec![None; self.size],
        };
        let (calibration, calibration_items) = match self.calibrated {
            Some((when, items)) => (when.saturating_sub(self.start), items),
            None => (Duration::ZERO, 0),
        };
        let mapping_text = self.text(&self.mapping);
        reports[0] = Some(self.observer.finish(&mut self.machine, host, at));
        let ranks: Vec<RankReport> = reports.into_iter().flatten().collect();
        let summary = Summary {
            name: self.run_spec.name.clone(),
            stages: self.run_spec.outline.stages.iter().map(|s| s.name.clone()).collect(),
            mapping_text,
            mapping: self.mapping,
            items,
            delivered,
            elapsed: self.ended.saturating_sub(self.start),
            calibration,
            calibration_items,
            predicted: self.predicted,
            items_before: self.machine.source().map_or(0, Source::items_before),
            snapshots: self.snapshots.as_ref().map(Snapshots::costs),
            remaps: self.remaps,
            ranks,
        };
        self.observer.log(at, || Event::totals_of(&summary));
        summary
    }
}

impl<'p> Protocol for Root<'_, 'p> {
    type Code = StageHost<'p>;

    const POLLS_PER_SIMULATED_JOB: u32 = FREQUENT_POLLS;

    fn start(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        self.observer.log_events(self.config.events.as_deref(), Duration::ZERO, at);
        let (ranks, mapping, balance) = (self.size, self.text(&self.mapping), self.balance);
        let balance = format!("{balance:?}").to_lowercase();
        self.observer.log(at, || Event::Start { ranks, mapping, balance });
        if ranks > 1 && (self.is_calibrating || self.controller.is_some()) {
            self.probe(at, out)
        } else {
            self.begin(self.mapping.clone(), Remap::first(), at, out)
        }
    }

    fn on_message(&mut self, message: Message, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        if message.is(Control::Echo) {
            return self.on_answer(message.from, None, at, out);
        }
        let from = message.from;
        match Received::decode(message)? {
            Received::StreamMessage(message) => {
                self.observer.arrived(from, &message, at);
                self.machine.on_message(from, message, at, out)
            }
            Received::Report(report) => self.on_report(from, report, at, out),
            Received::Directive(directive) => Err(directive.unexpected(from, "a message for rank 0")),
        }
    }

    fn on_done(&mut self, (done, cost): (Done, JobCost), at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        match done {
            Done::SetUp(set_up) => {
                let ready = self.machine.ready(set_up);
                self.observer.ready(&ready, at);
                match self.phase {
                    Phase::Ending(_) => Ok(()),
                    _ => self.ready(0, &ready, at, out),
                }
            }
            Done::Probed(speed) => {
                self.machine.answered();
                self.on_answer(0, Some(speed), at, out)
            }
            Done::SinkFinished => {
                self.machine.answered();
                self.sink = SinkEnd::Finished;
                Ok(())
            }
            Done::Committed(consumed, committed) => {
                self.machine.on_done(Done::Consumed(consumed), at, out)?;
                self.on_committed(committed, at)
            }
            done => {
                let is_consumed = matches!(done, Done::Consumed(_));
                self.observer.metrics.add_job(&cost);
                self.machine.on_done(done, at, out)?;
                if is_consumed { self.on_consumed(at, out) } else { Ok(()) }
            }
        }
    }

    fn on_tick(&mut self, now: Duration, at: &Moment, out: &mut Outgoing<'_>) -> Result<bool> {
        self.observer.tick(&mut self.machine, now, at);
        self.replan_if_due(now, at, out)?;
        self.advance_snapshots(now, at)?;
        Ok(self.machine.has_request())
    }

    fn on_stop(&mut self, _: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        self.stops_at_snapshot = self.snapshots.is_some() && out.endpoint().stops_at_checkpoint();
        if let (Phase::Streaming, Some(source), false) =
            (&self.phase, self.machine.source_mut(), self.stops_at_snapshot)
        {
            source.end();
        }
        Ok(())
    }

    fn on_idle(&mut self, at: &Moment) {
        self.observer.on_idle(&self.machine, at);
    }

    fn next(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<Next<JobOf<Self>>> {
        if matches!(self.phase, Phase::Streaming) && self.is_finished() && self.finish_sink() {
            self.end(at, out)?;
        }
        if let Some(job) = self.machine.next_job(at, out)? {
            self.observer.begins(&job, at);
            return Ok(Next::Job(job));
        }
        Ok(match &self.phase {
            Phase::Ending(reports)
                if reports.iter().skip(1).all(Option::is_some) && !self.machine.awaits_result() =>
            {
                Next::Finished
            }
            _ => Next::Wait,
        })
    }

    fn heartbeat_state(&self) -> HeartbeatState {
        self.observer.heartbeat_state(&self.machine)
    }

    fn progress(&mut self) -> Option<observe::Progress> {
        let mapping = self.text(&self.mapping);
        let source = self.machine.source().filter(|source| source.items_drawn() > 0)?;
        let before = source.items_before();
        let (done, left) = (before + source.items_done(), source.items_left());
        let in_flight = source.window.in_flight();
        Some(observe::Progress {
            of: format!("pipeline {:?}", self.run_spec.name),
            done,
            before,
            part: 0.0,
            total: left.map(|left| done + left),
            what: "items",
            rest: format!("{} in flight  {mapping}", count(in_flight as u64, "batch")),
        })
    }

    fn awaits_results(&self) -> bool {
        self.observer.is_idle() && self.machine.source().is_some_and(|source| source.window.in_flight() > 0)
    }
}

fn out_of_step(from: usize, what: &str) -> Error {
    Error::new(ErrorKind::Wire, format!("rank {from} sent {what}, which rank 0 does not expect now"))
}
