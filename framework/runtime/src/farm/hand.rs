//! A worker's rank while a farm runs: takes chunks, has them done, sends results.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::builder::Options;
use super::deputy::Office;
use super::machine::{Driving, Giving, Hung, Join, Status};
use super::parcel::{self, Load};
use super::sheet::Activity;
use super::summary::RankReport;
use super::trail::{Place, Tracks};
use super::watch::Watch;
use super::workbench::{Outcome, Output, Task, Workbench};
use crate::comm::Backoff;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Message, Tag};
use crate::error::{Error, ErrorKind, Result};
use crate::rank::executor::Executor;
use crate::session::Config;
use crate::wire::{self, Item};

/// Messages taken in before the rank looks at its own work again.
const BURST: usize = 16;
/// Turns between two looks at the clock while there is work.
const TURNS_PER_TICK: u32 = 64;
/// What part of the time of a simulated chunk a worker may keep a message waiting: all of it, as there is little that it
/// answers.
const PATIENCE: u32 = 1;

/// How long a parked rank sleeps before it looks at its messages.
const PARKED_SLEEP: Duration = Duration::from_millis(20);

/// See the module's page.
pub(crate) struct Hand<'a, 'scope, 'env, 'w, 'f, I: Item, O: Item> {
    pub(super) endpoint: &'a mut Endpoint,
    engine: Executor<'scope, 'env, Workbench<'w, 'f, I, O>>,
    pub(super) name: String,
    /// Chunks that are not begun, each with the rank that gave it.
    pub(super) inbox: VecDeque<(usize, Giving, Load)>,
    /// Who gave the chunks that the compute side has.
    givers: VecDeque<usize>,
    /// The rank that this one works for.
    pub(super) upper: usize,
    /// The number of the order that said so.
    pub(super) order: u32,
    /// Set while this rank is a sub-master.
    pub(super) deputy: Option<Office>,
    /// What making the worker took, once it is made.
    pub(super) made: Option<Duration>,
    pub(super) watch: Watch,
    backoff: Backoff,
    pub(super) clock: Clock,
    activity: Arc<Activity>,
    trail: Option<Place>,
    /// Of a sub-master: the trails of its members.
    pub(super) tracks: BTreeMap<usize, Tracks>,
    /// What the compute side was seen to do, and since when, as the endpoint counts silence.
    seen: (u64, Duration),
    task_limit: Option<Duration>,
    join_limit: Duration,
    /// The task in hand has exceeded the limit, and the master knows.
    hung: bool,
    /// What the master has been told of the driver.
    pub(super) told: Option<Driving>,
    pub(super) finished: bool,
    report: RankReport,
    turns: u32,
}

impl<'a, 'scope, 'env, 'w: 'scope, 'f: 'scope, I: Item, O: Item> Hand<'a, 'scope, 'env, 'w, 'f, I, O> {
    pub(crate) fn new(
        endpoint: &'a mut Endpoint,
        engine: Executor<'scope, 'env, Workbench<'w, 'f, I, O>>,
        (activity, trail): (Arc<Activity>, Option<Place>),
        name: &str,
        options: &Options,
        config: &Config,
    ) -> Self {
        let clock = endpoint.clock();
        let seen = (0, endpoint.look(clock.now()));
        Hand {
            watch: Watch::new(endpoint, options.silence(config), config),
            backoff: endpoint.backoff(),
            clock,
            endpoint,
            engine,
            name: name.to_string(),
            inbox: VecDeque::new(),
            givers: VecDeque::new(),
            upper: 0,
            order: 0,
            deputy: None,
            made: None,
            activity,
            trail,
            tracks: BTreeMap::new(),
            seen,
            task_limit: options.task_limit,
            join_limit: config.join_limit,
            hung: false,
            told: None,
            finished: false,
            report: RankReport::default(),
            turns: 0,
        }
    }

    /// Works until the master lets the rank go.
    ///
    /// # Errors
    /// What ends the job: the worker could not be made, tasks or results could not travel, the master is silent.
    pub(crate) fn run(mut self) -> Result<()> {
        // From now on the master knows how long it may be silent.
        self.tell_how()?;
        self.engine.submit(Task::SetUp)?;
        while !self.finished {
            let mut moved = self.receive()?;
            moved |= self.work()?;
            moved |= self.pass_on()?;
            self.after_turn(moved)?;
        }
        self.inbox.clear();
        self.endpoint.send(0, Tag::Report, &self.report)?;
        if self.hung {
            // The task may never end, and its thread cannot be ended otherwise than with the process.
            self.endpoint.leave_with_all(self.join_limit)?;
        }
        self.engine.finish().map(drop)
    }

    fn receive(&mut self) -> Result<bool> {
        // A rank that computes inline takes one message at a time: its result can go before the next one is looked at.
        let burst = if self.engine.is_inline() && !self.inbox.is_empty() { 1 } else { BURST };
        for taken in 0..burst {
            let Some(message) = self.endpoint.poll()? else { return Ok(taken > 0) };
            self.hear(message)?;
        }
        Ok(true)
    }

    fn hear(&mut self, message: Message) -> Result<()> {
        let Some(message) = self.member_says(message)? else { return Ok(()) };
        let from = message.from;
        match message.tag::<Tag>()? {
            Tag::Chunk => {
                let (giving, load) = parcel::given(message.body, message.parts).map_err(|e| self.here(e))?;
                self.watch.active(from);
                if from == self.upper || from == 0 {
                    self.inbox.push_back((from, giving, load));
                }
                Ok(())
            }
            Tag::Lead => self.lead(&message),
            Tag::Attach => self.attach(&message),
            Tag::Bulk => self.bulk(message),
            // Those of ranks that were its members.
            Tag::Done | Tag::Join => Ok(()),
            Tag::Retire => {
                self.deputy = None;
                self.tell_how()
            }
            Tag::Status => self.watch.hear(&message),
            Tag::Park => {
                self.backoff = match wire::from_bytes(&message.body)? {
                    true => Backoff::new(Duration::ZERO, PARKED_SLEEP),
                    false => self.endpoint.backoff(),
                };
                Ok(())
            }
            Tag::Probe => self.endpoint.send(message.from, Tag::Echo, &()),
            Tag::Finish => {
                self.finished = true;
                Ok(())
            }
            other => {
                let text =
                    format!("rank {} sent {other:?}, which a farm's worker does not expect", message.from);
                Err(self.here(Error::new(ErrorKind::Wire, text)))
            }
        }
    }

    /// Tells a master that the worker is made.
    pub(super) fn join(&mut self, master: usize, warm_up: Duration) -> Result<()> {
        let join = Join { warm_up, trail: self.trail.clone() };
        self.endpoint.send(master, Tag::Join, &join)
    }

    pub(super) fn here(&self, error: Error) -> Error {
        error.at_rank(self.endpoint.rank())
    }

    /// Sends what is done and hands over what comes next.
    fn work(&mut self) -> Result<bool> {
        let mut moved = false;
        while let Some(outcome) = self.engine.fetch()? {
            moved = true;
            match outcome {
                Outcome::SetUp { took } => {
                    self.report.warm_up = took;
                    self.tell_how()?;
                    self.made = Some(took);
                    self.join(self.upper, took)?;
                }
                Outcome::Chunk { giving, times, result: Output::Frame(message) } => {
                    self.report.tasks += u64::from(giving.count);
                    self.report.chunks += 1;
                    self.report.busy += Duration::from_secs_f64(times.sum.max(0.0));
                    let giver = self.givers.pop_front().unwrap_or(0);
                    // A sub-master that was given up is not told.
                    if !self.hung && (giver == self.upper || giver == 0) {
                        self.endpoint.send_ready(giver, message)?;
                    }
                }
                Outcome::Chunk { .. } => {
                    return Err(self.here(Error::new(ErrorKind::Wire, "a result has nowhere to go")));
                }
            }
        }
        if moved {
            self.tell_how()?;
        }
        while !self.hung && self.engine.has_room() && !self.engine.wants_pause() {
            let Some((from, giving, load)) = self.inbox.pop_front() else { break };
            self.givers.push_back(from);
            self.engine.submit(Task::Chunk { giving, load, away: true })?;
            moved = true;
            if self.engine.is_inline() {
                break;
            }
        }
        Ok(moved)
    }

    fn after_turn(&mut self, moved: bool) -> Result<()> {
        if moved {
            self.backoff.reset();
            self.turns += 1;
            if self.turns < TURNS_PER_TICK {
                return Ok(());
            }
            self.turns = 0;
            return self.tick();
        }
        self.tick()?;
        self.backoff.may_spin(self.engine.leaves_the_core());
        if let Some(pause) = self.engine.pause(PATIENCE) {
            return self.endpoint.transport().wait(Some(pause));
        }
        self.backoff.wait(self.endpoint.transport(), self.clock)
    }

    fn tick(&mut self) -> Result<()> {
        if self.clock.is_simulated() {
            return Ok(());
        }
        let now = self.clock.now();
        let here = self.endpoint.look(now);
        let (beat, task) = self.activity.get();
        if beat != self.seen.0 {
            self.seen = (beat, here);
        }
        if let (Some(limit), Some(task), false) = (self.task_limit, task, self.hung)
            && here.saturating_sub(self.seen.1) > limit
        {
            self.hung = true;
            self.inbox.clear();
            self.endpoint.send(0, Tag::Hung, &Hung { task })?;
        }
        if self.watch.is_due(now) {
            let mine = self.status();
            self.over_members(&mine)?;
            self.watch.over_master(self.endpoint, self.upper, &mine, now)?;
        }
        Ok(())
    }

    /// Tells the master on which thread user code runs, if it does not know: it waits longer for one that cannot give
    /// signs of life meanwhile.
    pub(super) fn tell_how(&mut self) -> Result<()> {
        let driving = self.driving();
        if self.told != Some(driving) {
            self.told = Some(driving);
            self.endpoint.send(self.upper, Tag::Status, &self.status())?;
        }
        Ok(())
    }

    fn status(&self) -> Status {
        let led = self.deputy.as_ref().map_or(0, Office::holds);
        let waiting = u32::try_from(self.inbox.len() + led).unwrap_or(u32::MAX);
        // What waits at the compute side is here, too.
        let task = self.activity.get().1.or_else(|| (!self.engine.is_idle()).then_some(u64::MAX));
        Status { task, waiting, driving: self.driving() }
    }

    fn driving(&self) -> Driving {
        if self.deputy.is_some() && self.engine.is_idle() {
            return Driving::Beside;
        }
        match (self.engine.is_inline(), self.engine.is_fixed()) {
            (false, _) => Driving::Beside,
            (true, false) => Driving::Between,
            (true, true) => Driving::Inline,
        }
    }
}
