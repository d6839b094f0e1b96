//! Rank 0 while a farm runs. What it decides is in [`MasterState`]; here it is carried out.
//!
//! [`MasterRank::stream`] is the page to begin with: receive results, collect those of rank 0, hand out chunks, compute,
//! deliver results, look after what is due now and then.

mod dispatch;
mod losses;
mod replay;
mod results;
mod shutdown;
mod submasters;
mod worker_count;

use std::collections::BTreeMap;
use std::thread::Scope;
use std::time::Duration;

use super::builder::Options;
use super::controller::WorkerController;
use super::delivery::{Deliver, Delivery, NoDelivery, Sink};
use super::failure_detector::FailureDetector;
use super::messages::{ExecutionMode, Join, Status, ToMaster, ToWorker};
use super::result_journal::ResultJournal;
use super::state::{Joined, MasterState, WorkerState};
use super::task_runner::{Codecs, Command, Outcome, Output, TaskRunner};
use super::task_source::TaskSource;
use super::trail::TrailReader;
use super::turns::{BURST, Turns};
use super::user_job;
use crate::comm::Waker;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::Control;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::{Display, EventLog};
use crate::rank::executor::Executor;
use crate::session::{Balance, Config, Driver};
use crate::user_code;
use crate::wire::Item;

/// What part of the time of a simulated chunk rank 0 may keep a message waiting: its own task makes the others wait by
/// less than two hundredths.
const PATIENCE: u32 = 64;

/// See the module's page.
pub(super) struct MasterRank<'a, 'scope, 'env, 'w, 'f, I: Item, O: Item> {
    endpoint: &'a mut Endpoint,
    executor: Executor<'scope, 'env, TaskRunner<'w, 'f, I, O>>,
    codecs: Codecs<I, O>,
    name: String,
    options: Options,
    run: u32,
    /// Where the user's source and sink run.
    driver: Driver,
    pub(super) state: MasterState<I, O>,
    detector: FailureDetector,
    /// The trails of workers on this machine.
    trails: BTreeMap<usize, TrailReader>,
    controller: WorkerController,
    /// Where results are kept.
    journal: Option<ResultJournal>,
    events: EventLog,
    display: Display,
    /// A choice of chunks is in the log.
    choice_recorded: bool,
    /// Whether this is one stream, and not iterations.
    pub(super) streaming: bool,
    /// The rank that answered to a probe.
    echo: Option<usize>,
    /// Where the last probes went.
    probed: usize,
    pub(super) clock: Clock,
    start: Duration,
    turns: Turns,
}

impl<'a, 'scope, 'env, 'w: 'scope, 'f: 'scope, I: Item, O: Item> MasterRank<'a, 'scope, 'env, 'w, 'f, I, O> {
    pub(super) fn new(
        endpoint: &'a mut Endpoint,
        executor: Executor<'scope, 'env, TaskRunner<'w, 'f, I, O>>,
        codecs: Codecs<I, O>,
        (name, run): (&str, u32),
        options: Options,
        config: &Config,
    ) -> Result<Self> {
        let (size, clock) = (endpoint.size(), endpoint.clock());
        // A task of its own that hangs could not be given up.
        let computes = size == 1 || !(options.dedicated || options.task_limit.is_some());
        let state = MasterState::new(
            (size, endpoint.lost()),
            computes,
            &options,
            options.window_bytes.unwrap_or(config.window_bytes),
        );
        let balance = options.balance.or(config.balance).unwrap_or(Balance::Live);
        let mut master = MasterRank {
            driver: user_job::driver(config, endpoint),
            state,
            detector: FailureDetector::new(endpoint, options.silence(config), config),
            trails: BTreeMap::new(),
            controller: WorkerController::new(balance, clock.now())?,
            journal: None,
            events: EventLog::off(),
            display: Display::new(config.progress, clock.now()),
            choice_recorded: false,
            streaming: false,
            echo: None,
            probed: 0,
            clock,
            start: clock.now(),
            turns: Turns::new(endpoint.backoff()),
            name: name.to_string(),
            run,
            endpoint,
            executor,
            codecs,
            options,
        };
        master.log_events(config, &format!("{balance:?}").to_lowercase());
        Ok(master)
    }

    /// The farm's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Adds the farm and rank 0 to an error.
    fn here(&self, error: Error) -> Error {
        error.in_farm(&self.name).at_rank(0)
    }

    /// Has rank 0's own worker made, if it computes.
    pub(super) fn open(&mut self) -> Result<()> {
        if let Some(count) = self.options.sub_masters {
            self.split(count, "so many were asked for")?;
        }
        if self.state.computes { self.executor.submit(Command::SetUp) } else { Ok(()) }
    }

    /// What the executors of source and sink need to know.
    fn user_side(&mut self) -> (Waker, Clock) {
        (self.endpoint.transport().waker(), self.clock)
    }

    /// A source with these tasks: at an executor as the farm has one, or here if they are the framework's own (`plain`).
    pub(super) fn source<T: Iterator<Item = I> + Send + 'scope>(
        &mut self,
        scope: &'scope Scope<'scope, 'env>,
        tasks: T,
        plain: bool,
    ) -> Result<TaskSource<'scope, 'env, T>> {
        let driver = if plain { Driver::Inline } else { self.driver };
        TaskSource::new(scope, driver, self.user_side(), &self.name.clone(), tasks)
    }

    /// A delivery to this sink; `plain` as in [`source`](MasterRank::source).
    pub(super) fn delivery<S: Sink<O> + 'scope>(
        &mut self,
        scope: &'scope Scope<'scope, 'env>,
        sink: S,
        plain: bool,
    ) -> Result<Delivery<'scope, 'env, O, S>> {
        let driver = if plain { Driver::Inline } else { self.driver };
        Delivery::new(scope, driver, self.user_side(), &self.name.clone(), sink)
    }

    /// Sees a stream of tasks through: every result, or failed task, goes to the sink once.
    ///
    /// # Errors
    /// What ends the job: the sink's error, a task that failed where that is to end it, nobody left to compute.
    pub(super) fn stream<T: Iterator<Item = I> + Send + 'scope, S: Sink<O> + 'scope>(
        &mut self,
        source: &mut TaskSource<'scope, 'env, T>,
        delivery: &mut Delivery<'scope, 'env, O, S>,
    ) -> Result<()> {
        self.state.begin(source.left(), self.clock.now());
        loop {
            // Receive: results, and requests with them.
            let mut moved = self.receive(delivery)?;
            moved |= self.collect_own(delivery)?;
            // Deliver what is due.
            moved |= delivery.advance()?;
            self.note_progress(delivery);
            if self.state.stopped {
                source.end();
                self.state.tasks.drop_waiting();
                return Ok(());
            }
            // Take tasks, and find workers for them.
            moved |= source.advance()?;
            self.replay(source, delivery)?;
            self.give_up(delivery)?;
            let served = self.serve(source)?;
            moved |= served;
            self.replay(source, delivery)?;
            // The others come first, after a look at what has come.
            if !(served && self.somebody_asks(source)) {
                moved |= self.compute(source)?;
            }
            if let Some(journal) = &mut self.journal {
                journal.tick()?;
            }
            if source.has_ended() && self.state.tasks.is_empty() && delivery.is_idle() {
                return Ok(());
            }
            let others_rest = source.leaves_the_core() && delivery.leaves_the_core();
            self.after_turn(moved, others_rest)?;
        }
    }

    /// Ends a turn: waits if nothing was done in it, and looks after what is due now and then.
    fn after_turn(&mut self, moved: bool, others_rest: bool) -> Result<()> {
        if self.turns.end(moved) {
            self.tick()?;
        }
        if moved {
            return Ok(());
        }
        let may_spin = others_rest && self.executor.leaves_the_core();
        self.turns.wait(self.endpoint, self.clock, self.executor.pause(PATIENCE), may_spin)
    }

    /// Takes in what has come. Returns whether there was anything.
    fn receive(&mut self, delivery: &mut dyn Deliver<O>) -> Result<bool> {
        for taken in 0..BURST {
            let Some(message) = self.endpoint.poll()? else { return Ok(taken > 0) };
            let from = message.from;
            self.readmit(from)?;
            if message.is(Control::Echo) {
                self.echo = Some(from);
                continue;
            }
            match ToMaster::decode(message)? {
                ToMaster::Result(entry) => self.on_result(from, entry, delivery)?,
                ToMaster::Results(entries) => self.on_results(from, entries, delivery)?,
                ToMaster::Join(join) => self.on_join(from, &join)?,
                ToMaster::Status(status) => self.detector.on_status(from, status),
                ToMaster::TimedOut { task } => self.on_timeout(from, task, delivery)?,
                ToMaster::Lost(lost) => self.on_member_lost(from, lost)?,
                ToMaster::Retired => self.on_retired(from)?,
                ToMaster::Report(_) => {
                    let text = format!("rank {from} has left in the middle of a farm's run");
                    return Err(Error::new(ErrorKind::Wire, text).at_rank(0));
                }
            }
            if self.state.stopped {
                break;
            }
        }
        Ok(true)
    }

    fn on_join(&mut self, from: usize, join: &Join) -> Result<()> {
        self.detector.active(from);
        let trail = join.trail.as_ref().and_then(TrailReader::open);
        self.trails.extend(trail.map(|reader| (from, reader)));
        match self.state.join(from, join.warm_up) {
            Joined::Parked => ToWorker::Park(true).send(self.endpoint, from),
            Joined::Works | Joined::Again => Ok(()),
        }
    }

    /// Takes in what rank 0 has done itself. Returns whether there was anything.
    fn collect_own(&mut self, delivery: &mut dyn Deliver<O>) -> Result<bool> {
        let mut moved = false;
        while let Some(outcome) = self.executor.fetch()? {
            moved = true;
            match outcome {
                Outcome::SetUp { took } => {
                    self.state.reports[0].warm_up = took;
                    self.state.tasks.workers_mut().set(0, WorkerState::Active);
                    self.adjust_workers()?;
                }
                Outcome::Chunk { header, times, result: Output::Local(result) } => {
                    self.state.traffic.own(header.count.into(), times.took);
                    self.controller.own(header.count, times.sum);
                    self.on_own_result(header, times, result, delivery)?;
                }
                Outcome::Chunk { .. } => {
                    let text = "rank 0 did a chunk for another rank";
                    return Err(Error::new(ErrorKind::Wire, text).at_rank(0));
                }
            }
        }
        Ok(moved)
    }

    /// What has to happen now and then: signs of life, and a look at who gives none.
    fn tick(&mut self) -> Result<()> {
        let now = self.clock.now();
        self.look_at_stream(now)?;
        // The simulator finds its own deadlocks.
        if !self.endpoint.capabilities().real_time {
            return Ok(());
        }
        if self.display.is_due(now) {
            let (workers, done) = (self.state.workers(), self.state.tasks.counts().ended);
            let out = self.state.tasks.out();
            let rest = format!("{} workers  {out} tasks handed out", workers.working());
            self.display.show(now, (done, "tasks"), &rest);
        }
        self.events.tick(now);
        self.endpoint.look(now);
        if !self.detector.is_due(now) {
            return Ok(());
        }
        // The workers wait for rank 0 the same time in any case.
        let mine = Status { task: None, waiting: 0, mode: ExecutionMode::OnThread };
        self.endpoint.note_done(self.state.tasks.counts().ended);
        for loss in self.detector.over_workers(self.endpoint, self.state.workers(), &mine, now)? {
            self.lose(&loss)?;
        }
        Ok(())
    }

    /// Does `work` of the caller's beside the communication, so that the workers hear of this rank meanwhile.
    pub(super) fn beside<R: Send>(&mut self, work: impl FnOnce() -> R + Send) -> Result<R> {
        if !self.endpoint.capabilities().threads || self.endpoint.size() == 1 {
            return Ok(work());
        }
        std::thread::scope(|scope| {
            let waker = self.endpoint.transport().waker();
            let thread = scope.spawn(move || {
                let result = user_code::call(|| Ok::<_, Error>(work()));
                waker.wake();
                result
            });
            while !thread.is_finished() {
                let moved = self.receive(&mut NoDelivery)?;
                self.after_turn(moved, true)?;
            }
            let result = thread.join().unwrap_or_else(|payload| Err(user_code::in_framework(&*payload)));
            result.map_err(|e| self.here(e))
        })
    }
}
