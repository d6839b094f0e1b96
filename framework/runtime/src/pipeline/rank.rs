//! One rank while a pipeline runs: turns messages into work and work into messages.
//!
//! The state machine says what to do, the engine does it, the post office carries it; this is the loop that
//! brings the three together, and the place where waiting is measured.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use armature_planner::Link;

use super::erased::Codec;
use super::ledger::{Activity, RankReport, StageStats};
use super::links::Arrival;
use super::machine::parcel;
use super::machine::table::Table;
use super::machine::window::WindowPlan;
use super::machine::{Idle, Machine, Note, Source};
use super::meter::{Measures, Meter};
use super::probe;
use super::tasks::{Outcome, Task};
use super::watch::{Status, Watch};
use super::workshop::{SetUp, Workshop};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::monitor::{Event, EventLog, Place};
use crate::session::letter::{Kind, Letter};
use crate::session::post::Post;
use crate::session::{Backoff, Config};
use crate::transport::Part;

/// Messages taken in before the rank looks at its own work again.
const BURST: usize = 16;
/// Jobs of microseconds done inline before the rank looks at its messages: a look costs as much as such a job.
const INLINE_BURST: u32 = 8;
/// What part of the time of a simulated job its rank may keep a message waiting.
const PATIENCE: u32 = 64;
/// How often a parked rank looks at its own speed.
const PROBE_EVERY: Duration = Duration::from_secs(2);
/// Turns between two looks at the clock while there is work.
const TURNS_PER_TICK: u32 = 256;

/// See the module's page.
pub(crate) struct Rank<'a, 'scope, 'env, 'p> {
    post: &'a mut Post,
    engine: Engine<'scope, 'env, Workshop<'p>>,
    machine: Machine,
    /// The mapping that this rank has set its stages up for and has not been told to use yet.
    prepared: Option<Table>,
    activity: Arc<Activity>,
    clock: Clock,
    backoff: Backoff,
    watch: Watch,
    /// Letters for whoever runs the rank: the conductor or the follower.
    control: VecDeque<Letter>,
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
        post: &'a mut Post,
        engine: Engine<'scope, 'env, Workshop<'p>>,
        run: u32,
        codecs: Vec<Arc<dyn Codec>>,
        activity: Arc<Activity>,
        stage_names: &[String],
        config: &Config,
    ) -> Self {
        let machine = Machine::new(post.rank(), run, codecs, config.request_ahead).with_names(stage_names);
        let report =
            RankReport { stages: vec![StageStats::default(); stage_names.len()], ..RankReport::default() };
        Rank {
            watch: Watch::new(post, stage_names.to_vec(), config),
            clock: post.clock(),
            backoff: post.backoff(),
            post,
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
        self.post.rank()
    }

    pub(crate) fn size(&self) -> usize {
        self.post.size()
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn post(&mut self) -> &mut Post {
        self.post
    }

    /// The mapping in force here; 0 before the first.
    pub(crate) fn epoch(&self) -> u32 {
        self.machine.epoch()
    }

    /// Begins the log of events, if there is to be one; `elapsed` is the time since the run began.
    pub(crate) fn log_events(&mut self, dir: Option<&Path>, elapsed: Duration) {
        let Some(dir) = dir.filter(|_| !self.events.is_on()) else { return };
        let offset = elapsed.as_secs_f64() - self.clock.now().as_secs_f64();
        let place =
            Place { rank: self.number(), size: self.size(), run: self.post.run().saturating_sub(1), offset };
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

    /// The next letter that is not about items.
    pub(crate) fn control(&mut self) -> Option<Letter> {
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

    /// Ends the rank's part; returns what it has counted, and the post office.
    pub(crate) fn finish(mut self) -> Result<(RankReport, &'a mut Post)> {
        self.end_idle();
        self.tell_notes();
        self.report.add_traffic(self.machine.traffic());
        let workshop = self.engine.finish()?;
        let queues = self.machine.longest_queues();
        for ((slot, fresh), &longest_queue) in self.report.stages.iter_mut().zip(workshop.stats()).zip(queues)
        {
            *slot = StageStats { longest_queue, ..fresh.clone() };
        }
        Ok((self.report, self.post))
    }

    /// One turn; waits when there was nothing to do.
    pub(crate) fn turn_or_wait(&mut self) -> Result<()> {
        if self.turn()? {
            self.backoff.reset();
            self.turns += 1;
            if self.turns >= TURNS_PER_TICK {
                self.turns = 0;
                self.tick()?;
            }
            return Ok(());
        }
        if self.idle.is_none() && self.engine.is_idle() {
            self.idle = Some((self.clock.now(), self.machine.idle_reason()));
        }
        self.tick()?;
        // A thread that only communicates leaves the core to the one that computes.
        self.backoff.may_spin(self.engine.is_inline());
        if let Some(pause) = self.engine.pause(PATIENCE) {
            return self.post.transport().wait(Some(pause));
        }
        self.backoff.wait(self.post.transport(), self.clock)
    }

    /// Takes in what has come, starts what can be started, sends what is to be sent. Returns whether there was
    /// anything.
    fn turn(&mut self) -> Result<bool> {
        let mut moved = false;
        // A rank that computes inline takes one message at a time: the others can go on as soon as it has answered.
        let burst = if self.engine.is_inline() { 1 } else { BURST };
        for _ in 0..burst {
            let Some(letter) = self.post.poll()? else {
                self.looks_late = false;
                break;
            };
            self.take_in(letter)?;
            moved = true;
        }
        moved |= self.work()?;
        self.send_mail()?;
        Ok(moved)
    }

    fn send_mail(&mut self) -> Result<()> {
        let watched = self.machine.has_mail() && self.meter.watches_links();
        // A thread that goes on to compute does not look after a large message, which MPI may carry on only then.
        let sent =
            (watched && (!self.engine.is_inline() || self.clock.is_simulated())).then(|| self.clock.now());
        for (to, message) in self.machine.take_mail(sent) {
            self.post.send_ready(to, message)?;
        }
        Ok(())
    }

    /// Puts into the log what the machine has done that is worth it.
    fn tell_notes(&mut self) {
        for note in self.machine.take_notes() {
            let name = |stage: usize| self.stage_names.get(stage).cloned().unwrap_or_default();
            let event = match note {
                Note::HandOver { stage, to, next, bytes } => {
                    Event::HandOver { stage: name(stage), to, next_batch: next, bytes: bytes as u64 }
                }
                Note::TakeOver { stage, from, next } => {
                    Event::TakeOver { stage: name(stage), from, next_batch: next }
                }
                Note::Forwarded { epoch, batches } => Event::Forwarded { epoch, batches },
            };
            self.tell(|| event);
        }
    }

    /// Fetches what is done and hands over what comes next.
    fn work(&mut self) -> Result<bool> {
        let mut moved = false;
        let mut inline_jobs = 0;
        loop {
            while let Some(outcome) = self.engine.fetch()? {
                moved = true;
                match outcome {
                    Outcome::Job(done, work) => {
                        self.meter.note(&work);
                        let now =
                            if self.machine.needs_time(&done) { self.clock.now() } else { Duration::ZERO };
                        let taken = self.machine.on_done(done, now);
                        taken.map_err(|e| self.here(e))?;
                        // At once: somebody may be waiting for it while this rank goes on.
                        self.send_mail()?;
                    }
                    Outcome::SetUp(answer) => self.answers.push_back(answer),
                }
            }
            if !self.engine.has_room() || self.engine.wants_pause() || inline_jobs == INLINE_BURST {
                return Ok(moved);
            }
            if let Some(task) = self.first.take() {
                self.engine.submit(task)?;
                self.looks_late |= self.engine.is_inline();
                continue;
            }
            let Some(job) = self.machine.next_job()? else { return Ok(moved) };
            self.end_idle();
            self.engine.submit(Task::Job(job))?;
            self.looks_late |= self.engine.is_inline();
            moved = true;
            if self.engine.is_brisk() {
                inline_jobs += 1;
            } else if self.engine.is_inline() {
                // Nobody knows how long it took, so that the others may have waited for a sign of life.
                self.turns = TURNS_PER_TICK;
                // Its result is fetched in the next turn, after a look at the messages.
                return Ok(moved);
            }
        }
    }

    /// Sorts a letter: items and their book-keeping to the machine, the rest to who runs this rank.
    fn take_in(&mut self, letter: Letter) -> Result<()> {
        if letter.kind == Kind::Data && self.meter.watches_links() {
            self.meter.arrived(Arrival {
                from: letter.from,
                bytes: letter.body.len() + letter.parts.iter().map(Part::len).sum::<usize>(),
                sent: parcel::sent(&letter.body),
                now: self.clock.now(),
                late: self.looks_late,
            });
        }
        match letter.kind {
            Kind::Data | Kind::Request | Kind::Offer | Kind::Assign | Kind::Early | Kind::Token => {
                let taken = self.machine.on_letter(letter);
                taken.map_err(|e| self.here(e))
            }
            Kind::Status => self.watch.hear(&letter),
            _ => {
                self.control.push_back(letter);
                Ok(())
            }
        }
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

    /// What has to happen now and then: a sign of life, and a look at who gives none.
    fn tick(&mut self) -> Result<()> {
        self.tell_notes();
        // The simulator finds its own deadlocks.
        if self.clock.is_simulated() {
            return Ok(());
        }
        let now = self.clock.now();
        self.events.tick(now);
        if !self.watch.is_due(now) {
            return Ok(());
        }
        let mine = Status { doing: self.activity.get(), state: self.machine.describe() };
        let flying = self.machine.source().is_some_and(|s| s.flow().in_flight > 0);
        self.watch.round(self.post, mine, self.idle.is_some() && flying, now)
    }
}
