//! Worker: the pipeline protocol of every rank except rank 0.

use std::path::PathBuf;
use std::time::Duration;

use super::job_cost::JobCost;
use super::machine::{Done, Job, Machine};
use super::messages::{Directive, Prepare, Received, Report};
use super::observer::Observer;
use super::stage_host::StageHost;
use super::stats::RankReport;
use crate::comm::message::Message;
use crate::error::Result;
use crate::rank::heartbeat::HeartbeatState;
use crate::rank::protocol::{FREQUENT_POLLS, JobOf, Moment, Next, Outgoing, Protocol};

/// Interval at which a rank without stages measures its own speed: a hundred times the duration of one measurement.
const PROBE_EVERY: Duration = Duration::from_secs(2);

pub(crate) struct PipelineWorker<'p> {
    machine: Machine,
    observer: Observer,
    events: Option<PathBuf>,
    /// True if rank 0 bases decisions about the mapping on measurements of this rank.
    is_balanced: bool,
    next_probe: Duration,
    /// True if rank 0 has requested a measurement of the rank's speed.
    is_probed: bool,
    is_finished: bool,
    code: std::marker::PhantomData<StageHost<'p>>,
}

impl<'p> PipelineWorker<'p> {
    pub(crate) fn new(machine: Machine, observer: Observer, events: Option<PathBuf>) -> Self {
        PipelineWorker {
            machine,
            observer,
            events,
            is_balanced: false,
            next_probe: Duration::ZERO,
            is_probed: false,
            is_finished: false,
            code: std::marker::PhantomData,
        }
    }

    pub(crate) fn finish(mut self, host: &StageHost<'_>, end: &Moment) -> RankReport {
        self.observer.finish(&mut self.machine, host, end)
    }

    fn on_directive(&mut self, directive: Directive, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        match directive {
            Directive::Prepare(prepare) => self.prepare(prepare, at, out.ranks())?,
            Directive::Switch { epoch } => return self.machine.switch(epoch, at, out),
            Directive::MeasureSpeed => {
                self.is_probed = true;
                self.machine.request(Job::Probe);
            }
            Directive::Finish => self.is_finished = true,
        }
        Ok(())
    }

    fn prepare(&mut self, prepare: Prepare, at: &Moment, ranks: usize) -> Result<()> {
        let Prepare { table, measured_batches, elapsed, measure_every, saved, links } = prepare;
        self.observer.log_events(self.events.as_deref(), elapsed, at);
        self.is_balanced = measure_every.is_some();
        self.observer.metrics.report_every(measure_every, at.now());
        let carries_send_times =
            self.observer.metrics.watch_links(&links, ranks).map_err(|e| e.at_rank(0))?;
        self.machine.prepare(table, measured_batches, carries_send_times, saved);
        Ok(())
    }

    /// Measures the speed of a rank without stages periodically, because only this measurement shows that another program has started or stopped
    /// using its core.
    fn probe_if_parked(&mut self, now: Duration) {
        if !self.machine.is_parked() || self.machine.awaits_result() || now < self.next_probe {
            return;
        }
        if self.next_probe > Duration::ZERO {
            self.machine.request(Job::Probe);
        }
        self.next_probe = now + PROBE_EVERY;
    }
}

impl<'p> Protocol for PipelineWorker<'p> {
    type Code = StageHost<'p>;

    const POLLS_PER_SIMULATED_JOB: u32 = FREQUENT_POLLS;

    fn on_message(&mut self, message: Message, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let from = message.from;
        match Received::decode(message)? {
            Received::StreamMessage(message) => {
                self.observer.arrived(from, &message, at);
                self.machine.on_message(from, message, at, out)
            }
            Received::Directive(directive) => self.on_directive(directive, at, out),
            Received::Report(report) => Err(report.unexpected(from, "a message that is not for rank 0")),
        }
    }

    fn on_done(&mut self, (done, cost): (Done, JobCost), at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        match done {
            Done::SetUp(set_up) => {
                let ready = self.machine.ready(set_up);
                self.observer.ready(&ready, at);
                out.send(0, Report::Ready(ready))
            }
            Done::Probed(speed) => {
                self.machine.answered();
                if std::mem::take(&mut self.is_probed) {
                    return out.send(0, Report::Speed(speed));
                }
                self.observer.metrics.probed(speed);
                Ok(())
            }
            done => {
                self.observer.metrics.add_job(&cost);
                self.machine.on_done(done, at, out)
            }
        }
    }

    fn on_tick(&mut self, now: Duration, at: &Moment, out: &mut Outgoing<'_>) -> Result<bool> {
        self.observer.tick(&mut self.machine, now, at);
        if self.is_balanced {
            self.probe_if_parked(now);
            if self.observer.metrics.is_due(now) {
                let measurements = self.observer.metrics.measurements(self.machine.volumes());
                out.send(0, Report::Measurements(measurements))?;
            }
        }
        Ok(self.machine.has_request())
    }

    fn on_idle(&mut self, at: &Moment) {
        self.observer.on_idle(&self.machine, at);
    }

    fn next(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<Next<JobOf<Self>>> {
        Ok(match self.machine.next_job(at, out)? {
            Some(job) => {
                self.observer.begins(&job, at);
                Next::Job(job)
            }
            None if self.is_finished && !self.machine.awaits_result() => Next::Finished,
            None => Next::Wait,
        })
    }

    fn heartbeat_state(&self) -> HeartbeatState {
        self.observer.heartbeat_state(&self.machine)
    }
}
