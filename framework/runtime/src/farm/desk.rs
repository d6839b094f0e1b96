//! Rank 0 while a farm runs: gives chunks away, takes results in, computes itself, and feeds the sink.

use crate::user_code;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use armature_planner::farm::{Chunker, Knowledge, Supply as Left};

use super::budget::Budget;
use super::builder::Options;
use super::leading::Group;
use super::losses::Death;
use super::machine::{Driving, Join, Master, Standing, Status};
use super::order::Order;
use super::outcome::{Answer, FailedTask};
use super::pace::Pace;
use super::parcel::Load;
use super::staff::Staff;
use super::store::Store;
use super::summary::RankReport;
use super::supply::Supply;
use super::trail::Tracks;
use super::watch::Watch;
use super::workbench::{Codecs, Outcome, Output, Task, Workbench};
use crate::comm::Backoff;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Message, Tag};
use crate::error::{Error, ErrorKind, Result};
use crate::observe::{Display, EventLog};
use crate::rank::executor::Executor;
use crate::session::{Balance, Config};
use crate::wire::{self, Item};

/// Messages taken in before anything else is done.
const BURST: usize = 16;
/// Turns between two looks at the clock while there is work.
const TURNS_PER_TICK: u32 = 64;
/// What part of the time of a simulated chunk rank 0 may keep a message waiting.
const PATIENCE: u32 = 64;

/// What is kept of a chunk that was given away.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(super) load: Load,
    /// The worker for which its size was made. Which member of a sub-master does it, the policies cannot know.
    pub(super) sized_for: usize,
}

/// See the module's page.
pub(crate) struct Desk<'a, 'scope, 'env, 'w, 'f, I: Item, O: Item> {
    pub(super) endpoint: &'a mut Endpoint,
    pub(super) engine: Executor<'scope, 'env, Workbench<'w, 'f, I, O>>,
    pub(super) codecs: Codecs<I, O>,
    pub(super) name: String,
    pub(super) options: Options,
    pub(super) run: u32,
    pub(super) master: Master<I, Kept>,
    pub(super) chunker: Chunker,
    pub(super) knowledge: Knowledge,
    pub(super) order: Order<O>,
    pub(super) pace: Pace,
    pub(super) watch: Watch,
    backoff: Backoff,
    pub(super) clock: Clock,
    pub(super) budget: Budget,
    /// Whether rank 0 does tasks, too.
    pub(super) computes: bool,
    pub(super) reports: Vec<RankReport>,
    pub(super) lost: Vec<usize>,
    /// Tasks over one of which a rank has fallen silent.
    pub(super) doubtful: Vec<Range<u64>>,
    /// The trails of workers on this machine.
    pub(super) tracks: BTreeMap<usize, Tracks>,
    /// Ranks that have died over tasks, in this set of tasks.
    pub(super) deaths: Vec<Death>,
    /// Tasks that have failed because ranks died in them.
    pub(super) died_of: Vec<u64>,
    pub(super) start: Duration,
    turns: u32,
    /// The sink wants no more.
    pub(super) stopped: bool,
    pub(super) staff: Staff,
    pub(super) events: EventLog,
    /// The workers have been told to leave.
    pub(super) ending: bool,
    /// A choice of chunks is in the log.
    pub(super) told_choice: bool,
    display: Display,
    /// Ranks that were to do tasks at the start.
    pub(super) started_with: usize,
    /// Orders to work for somebody else that were given so far.
    pub(super) orders: Cell<u32>,
    /// Sub-masters, each with its members.
    pub(super) groups: BTreeMap<usize, Group>,
    /// Whether this is one stream, and not iterations.
    pub(super) streaming: bool,
    /// The rank that answered to a message which only measures.
    pub(super) echo: Option<usize>,
    /// Where the last such messages went.
    pub(super) asked: usize,
    /// Where results are kept.
    pub(super) store: Option<Store>,
    pub(super) known: u64,
}

impl<'a, 'scope, 'env, 'w: 'scope, 'f: 'scope, I: Item, O: Item> Desk<'a, 'scope, 'env, 'w, 'f, I, O> {
    pub(crate) fn new(
        endpoint: &'a mut Endpoint,
        engine: Executor<'scope, 'env, Workbench<'w, 'f, I, O>>,
        codecs: Codecs<I, O>,
        (name, run): (&str, u32),
        options: Options,
        config: &Config,
    ) -> Result<Self> {
        let (size, clock) = (endpoint.size(), endpoint.clock());
        // A task of its own that hangs could not be given up.
        let computes = size == 1 || !(options.dedicated || options.task_limit.is_some());
        let silence = options.silence(config);
        let mut master = Master::new(size, options.retries);
        for &rank in endpoint.lost() {
            master.crew_mut().set(rank, Standing::Dead);
        }
        let balance = config.balance.unwrap_or(Balance::Live);
        let mut desk = Desk {
            staff: Staff::new(balance, clock.now())?,
            events: EventLog::off(),
            ending: false,
            told_choice: false,
            display: Display::new(config.progress, clock.now()),
            started_with: 0,
            orders: Cell::new(0),
            groups: BTreeMap::new(),
            streaming: false,
            echo: None,
            asked: 0,
            watch: Watch::new(endpoint, silence, config),
            backoff: endpoint.backoff(),
            master,
            chunker: Chunker::new(options.chunking),
            knowledge: Knowledge { master: computes.then_some(0), ..Knowledge::default() },
            order: Order::new(options.ordered),
            pace: Pace::new(size_of::<I>(), size_of::<O>()),
            clock,
            budget: Budget::new::<I, O>(config.window_bytes),
            computes,
            reports: vec![RankReport::default(); size],
            lost: Vec::new(),
            doubtful: Vec::new(),
            tracks: BTreeMap::new(),
            deaths: Vec::new(),
            died_of: Vec::new(),
            start: clock.now(),
            turns: 0,
            stopped: false,
            store: None,
            known: 0,
            name: name.to_string(),
            run,
            endpoint,
            engine,
            codecs,
            options,
        };
        desk.log_events(config, &format!("{balance:?}").to_lowercase());
        Ok(desk)
    }

    /// The farm's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Has rank 0's own worker made, if it computes.
    pub(crate) fn open(&mut self) -> Result<()> {
        if let Some(count) = self.options.sub_masters {
            self.split(count, "so many were asked for")?;
        }
        if self.computes { self.engine.submit(Task::SetUp) } else { Ok(()) }
    }

    /// Sees a stream of tasks through: every result, or failed task, goes to `sink` once.
    ///
    /// # Errors
    /// What ends the job: the sink's error, a task that failed where that is to end it, nobody left to compute.
    pub(crate) fn stream<T: Iterator<Item = I>>(
        &mut self,
        supply: &mut Supply<T>,
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        self.begin(supply);
        loop {
            let mut moved = self.receive(sink)?;
            moved |= self.collect_own(sink)?;
            if self.stopped {
                supply.end();
                self.master.drop_waiting();
                return Ok(());
            }
            self.skip_known(supply, sink)?;
            self.give_up(sink)?;
            let served = self.serve(supply)?;
            moved |= served;
            self.skip_known(supply, sink)?;
            // The others come first, after a look at what has come.
            if !(served && self.somebody_asks(supply)) {
                moved |= self.compute(supply)?;
            }
            if let Some(store) = &mut self.store {
                store.tick()?;
            }
            if supply.has_ended() && self.master.is_empty() {
                return Ok(());
            }
            self.after_turn(moved)?;
        }
    }

    fn begin<T: Iterator<Item = I>>(&mut self, supply: &Supply<T>) {
        self.order.restart();
        self.doubtful.clear();
        self.deaths.clear();
        let crew = self.master.crew();
        let standings = [Standing::Working, Standing::Away, Standing::Led];
        let takes_part = |r: &usize| standings.contains(&crew.standing(*r)) && !self.groups.contains_key(r);
        let first = usize::from(!self.computes);
        let all = (first..self.endpoint.size()).filter(takes_part);
        let workers: Vec<usize> = all.take(self.master.target()).collect();
        let left = match supply.left() {
            (left, true) => Left::Exactly(left),
            (least, false) => Left::AtLeast(least),
        };
        self.know(None);
        self.chunker.begin(left, &workers, &self.knowledge);
    }

    /// Ends a turn: waits if nothing was done in it, and looks after what is due now and then.
    pub(super) fn after_turn(&mut self, moved: bool) -> Result<()> {
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

    /// Takes in what has come. Returns whether there was anything.
    pub(super) fn receive(
        &mut self,
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<bool> {
        for taken in 0..BURST {
            let Some(message) = self.endpoint.poll()? else { return Ok(taken > 0) };
            self.hear(message, sink)?;
            if self.stopped {
                break;
            }
        }
        Ok(true)
    }

    fn hear(
        &mut self,
        message: Message,
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        self.hear_again(message.from)?;
        match message.tag::<Tag>()? {
            Tag::Done => self.result_from(message, sink),
            Tag::Join => self.joined(&message),
            Tag::Status => self.watch.hear(&message),
            Tag::Hung => self.hung(&message, sink),
            Tag::Bundle => self.bundle_from(message, sink),
            Tag::Lost => self.lost_member(&message),
            Tag::Retire => self.retired(message.from),
            Tag::Echo => {
                self.echo = Some(message.from);
                Ok(())
            }
            other => {
                let text = format!("rank {} sent {other:?} in the middle of a farm's run", message.from);
                Err(Error::new(ErrorKind::Wire, text).at_rank(0))
            }
        }
    }

    pub(super) fn joined(&mut self, message: &Message) -> Result<()> {
        let join: Join = wire::from_bytes(&message.body)?;
        self.watch.active(message.from);
        self.reports[message.from].warm_up = join.warm_up;
        let tracks = join.trail.as_ref().and_then(Tracks::open);
        self.tracks.extend(tracks.map(|tracks| (message.from, tracks)));
        if self.master.crew().standing(message.from) == Standing::Away {
            // Rank 0 is counted before its own worker is made.
            let expected = self.computes && self.master.crew().standing(0) == Standing::Away;
            if self.master.join(message.from, expected.into()) {
                // A sub-master does no tasks.
                if !self.groups.contains_key(&message.from) {
                    self.chunker.join(message.from);
                }
            } else {
                self.chunker.leave(message.from);
                self.endpoint.send(message.from, Tag::Park, &true)?;
            }
        }
        Ok(())
    }

    /// Takes in what rank 0 has done itself. Returns whether there was anything.
    fn collect_own(&mut self, sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer) -> Result<bool> {
        let mut moved = false;
        while let Some(outcome) = self.engine.fetch()? {
            moved = true;
            match outcome {
                Outcome::SetUp { took } => {
                    self.reports[0].warm_up = took;
                    self.master.crew_mut().set(0, Standing::Working);
                    self.restaff()?;
                }
                Outcome::Chunk { giving, times, result: Output::Sheet(sheet) } => {
                    self.pace.own(giving.count.into(), times.took);
                    self.staff.own(giving.count, times.sum);
                    self.result_of_own(giving, times, sheet, sink)?;
                }
                Outcome::Chunk { .. } => {
                    return Err(Error::new(ErrorKind::Wire, "rank 0 did a chunk for another rank").at_rank(0));
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
        if self.clock.is_simulated() {
            return Ok(());
        }
        if self.display.is_due(now) {
            let (crew, done) = (self.master.crew(), self.master.tally().ended);
            let rest = format!("{} workers  {} tasks handed out", crew.working(), self.master.out());
            self.display.show(now, (done, "tasks"), &rest);
        }
        self.events.tick(now);
        self.endpoint.look(now);
        if !self.watch.is_due(now) {
            return Ok(());
        }
        // The workers wait for rank 0 the same time in any case.
        let mine = Status { task: None, waiting: 0, driving: Driving::Beside };
        self.endpoint.note_done(self.master.tally().ended);
        for loss in self.watch.over_workers(self.endpoint, self.master.crew(), &mine, now)? {
            self.lose(&loss)?;
        }
        Ok(())
    }

    /// Does `work` of the caller's beside the communication, so that the workers hear of this rank meanwhile.
    pub(crate) fn beside<R: Send>(&mut self, work: impl FnOnce() -> R + Send) -> Result<R> {
        if self.clock.is_simulated() || self.endpoint.size() == 1 {
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
                let moved = self.receive(&mut |_, _| Answer::Continue(()))?;
                self.after_turn(moved)?;
            }
            let result = thread.join().unwrap_or_else(|payload| Err(user_code::in_framework(&*payload)));
            result.map_err(|e| e.in_farm(&self.name).at_rank(0))
        })
    }
}
