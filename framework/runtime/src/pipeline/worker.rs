//! Worker: the protocol of every rank except rank 0.

use std::path::PathBuf;
use std::time::Duration;

use super::job_cost::JobCost;
use super::machine::Done;
use super::messages::{Directive, Prepare, Received, Switch, Tag, frame};
use super::participant::Participant;
use super::stage_host::StageHost;
use super::stats::RankReport;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::Message;
use crate::error::{Error, ErrorKind, Result};
use crate::rank::driver::Driver;
use crate::rank::heartbeat::Sign;
use crate::rank::protocol::{FREQUENT_LOOKS, Moment, Next, Outgoing, Protocol, Task};

/// Interval at which a rank without stages measures its own speed: a hundred times the duration of the measurement.
const PROBE_EVERY: Duration = Duration::from_secs(2);

/// Protocol of a rank that follows the coordinator.
pub(crate) struct Worker<'p> {
    participant: Participant,
    /// Directory of the event log.
    events: Option<PathBuf>,
    /// True if rank 0 uses measurements of this rank for decisions.
    is_balanced: bool,
    /// Time of the next measurement of the speed while the rank is parked.
    next_probe: Duration,
    /// True if rank 0 has requested the speed.
    is_probed: bool,
    is_finished: bool,
    code: std::marker::PhantomData<StageHost<'p>>,
}

impl<'p> Worker<'p> {
    pub(crate) fn new(participant: Participant, events: Option<PathBuf>) -> Self {
        Worker {
            participant,
            events,
            is_balanced: false,
            next_probe: Duration::ZERO,
            is_probed: false,
            is_finished: false,
            code: std::marker::PhantomData,
        }
    }

    /// Runs this rank until rank 0 ends the stream. Returns the report of the rank.
    pub(crate) fn run<'scope>(
        mut self,
        driver: Driver<'scope, '_, StageHost<'p>>,
        endpoint: &mut Endpoint,
    ) -> Result<RankReport>
    where
        'p: 'scope,
    {
        let (host, end) = driver.run(endpoint, &mut self)?;
        Ok(self.participant.finish(&host, &end))
    }

    fn on_directive(&mut self, directive: Directive, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        match directive {
            Directive::Prepare(prepare) => self.prepare(prepare, at),
            Directive::Switch(Switch { epoch }) => return self.participant.switch(epoch, at, out),
            Directive::MeasureSpeed => {
                self.is_probed = true;
                self.participant.probe();
            }
            Directive::Finish => self.is_finished = true,
        }
        Ok(())
    }

    /// Starts the preparation of a mapping.
    fn prepare(&mut self, prepare: Prepare, at: &Moment) {
        let Prepare { table, weigh, elapsed, measure_every, links } = prepare;
        self.participant.log_events(self.events.as_deref(), elapsed, at);
        self.is_balanced = measure_every.is_some();
        self.participant.measure(weigh, measure_every, at);
        self.participant.watch_links(&links);
        self.participant.prepare(table);
    }

    /// Measures the speed of a rank without stages periodically: nothing else shows that a competing load has started or ended.
    fn probe_if_parked(&mut self, now: Duration) {
        if !self.participant.is_parked() || self.participant.is_asked() || now < self.next_probe {
            return;
        }
        if self.next_probe > Duration::ZERO {
            self.participant.probe();
        }
        self.next_probe = now + PROBE_EVERY;
    }
}

impl<'p> Protocol for Worker<'p> {
    type Code = StageHost<'p>;

    const LOOKS_PER_SIMULATED_JOB: u32 = FREQUENT_LOOKS;

    fn on_message(&mut self, message: Message, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let (from, tag) = (message.from, message.tag::<Tag>()?);
        match Received::decode(tag, message)? {
            Received::Stream(message) => self.participant.on_message(from, message, at, out),
            Received::Directive(directive) => self.on_directive(directive, at, out),
            Received::Report(_) => {
                let text = format!("rank {from} sent {tag:?}, which only rank 0 understands");
                Err(Error::new(ErrorKind::Wire, text))
            }
        }
    }

    fn on_done(&mut self, (done, cost): (Done, JobCost), at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        match done {
            Done::SetUp(set_up) => {
                let ready = self.participant.set_up(set_up, at);
                out.send(0, frame(out.run(), &ready)?)
            }
            Done::Probed(speed) => {
                self.participant.probed();
                if std::mem::take(&mut self.is_probed) {
                    return out.send(0, frame(out.run(), &speed)?);
                }
                self.participant.take_speed(speed);
                Ok(())
            }
            done => self.participant.on_done(done, &cost, at, out),
        }
    }

    fn on_tick(&mut self, now: Duration, at: &Moment, out: &mut Outgoing<'_>) -> Result<bool> {
        self.participant.on_tick(now, at);
        if self.is_balanced {
            self.probe_if_parked(now);
            if let Some(measurements) = self.participant.measurements_due(now) {
                out.send(0, frame(out.run(), &measurements)?)?;
            }
        }
        Ok(self.participant.has_task())
    }

    fn on_idle(&mut self, at: &Moment) {
        self.participant.on_idle(at);
    }

    fn next(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<Next<Task<Self>>> {
        Ok(match self.participant.next(at, out)? {
            Some(task) => Next::Task(task),
            None if self.is_finished && !self.participant.is_asked() => Next::Finished,
            None => Next::Wait,
        })
    }

    fn sign(&self) -> Sign {
        self.participant.sign()
    }
}
