//! Rank 0 while a farm runs: gives chunks away, takes results in, computes itself, and feeds the sink.

use std::time::Duration;

use armature_planner::farm::{Chunker, Chunking, Knowledge, Supply as Left};

use super::builder::Options;
use super::machine::{Giving, Join, Master, Piece, Standing, Status};
use super::order::Order;
use super::outcome::{Answer, FailedTask};
use super::pace::Pace;
use super::parcel::{self, Load};
use super::summary::{RankReport, Summary};
use super::supply::Supply;
use super::watch::Watch;
use super::workbench::{Codecs, Outcome, Output, Task, Workbench, caught};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, Result};
use crate::session::post::{Kind, Letter, Post};
use crate::session::{Backoff, Config};
use crate::wire::{self, Item};

/// Messages taken in before anything else is done.
const BURST: usize = 16;
/// Turns between two looks at the clock while there is work.
const TURNS_PER_TICK: u32 = 64;
/// How often a simulated rank that computes looks at its messages.
const SIMULATED_POLL: Duration = Duration::from_micros(50);

/// See the module's page.
pub(crate) struct Desk<'a, 'scope, 'env, 'w, 'f, I: Item, O: Item> {
    pub(super) post: &'a mut Post,
    engine: Engine<'scope, 'env, Workbench<'w, 'f, I, O>>,
    pub(super) codecs: Codecs<I, O>,
    pub(super) name: String,
    pub(super) options: Options,
    run: u32,
    pub(super) master: Master<I, Load>,
    pub(super) chunker: Chunker,
    knowledge: Knowledge,
    pub(super) order: Order<O>,
    pub(super) pace: Pace,
    pub(super) watch: Watch,
    backoff: Backoff,
    pub(super) clock: Clock,
    window_bytes: usize,
    /// Whether rank 0 does tasks, too.
    pub(super) computes: bool,
    pub(super) reports: Vec<RankReport>,
    pub(super) lost: Vec<usize>,
    start: Duration,
    turns: u32,
    /// The sink wants no more.
    pub(super) stopped: bool,
}

impl<'a, 'scope, 'env, 'w: 'scope, 'f: 'scope, I: Item, O: Item> Desk<'a, 'scope, 'env, 'w, 'f, I, O> {
    pub(crate) fn new(
        post: &'a mut Post,
        engine: Engine<'scope, 'env, Workbench<'w, 'f, I, O>>,
        codecs: Codecs<I, O>,
        (name, run): (&str, u32),
        options: Options,
        config: &Config,
    ) -> Self {
        let (size, clock) = (post.size(), post.clock());
        // A task of its own that hangs could not be given up.
        let computes = size == 1 || !(options.dedicated || options.task_limit.is_some());
        let silence = options.silence(config);
        let mut master = Master::new(size, options.retries);
        for &rank in post.lost() {
            master.crew_mut().set(rank, Standing::Dead);
        }
        Desk {
            watch: Watch::new(post, silence, config),
            backoff: post.backoff(),
            master,
            chunker: Chunker::new(options.chunking),
            knowledge: Knowledge { master: computes.then_some(0), ..Knowledge::default() },
            order: Order::new(options.ordered),
            pace: Pace::new(size_of::<I>(), size_of::<O>()),
            clock,
            window_bytes: config.window_bytes,
            computes,
            reports: vec![RankReport::default(); size],
            lost: Vec::new(),
            start: clock.now(),
            turns: 0,
            stopped: false,
            name: name.to_string(),
            run,
            post,
            engine,
            codecs,
            options,
        }
    }

    /// The farm's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Has rank 0's own worker made, if it computes.
    pub(crate) fn open(&mut self) -> Result<()> {
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
            moved |= self.serve(supply)?;
            moved |= self.compute(supply)?;
            if supply.has_ended() && self.master.is_empty() {
                return Ok(());
            }
            self.after_turn(moved)?;
        }
    }

    fn begin<T: Iterator<Item = I>>(&mut self, supply: &Supply<T>) {
        self.order.restart();
        let crew = self.master.crew();
        let takes_part = |&r: &usize| matches!(crew.standing(r), Standing::Working | Standing::Away);
        let first = usize::from(!self.computes);
        let workers: Vec<usize> = (first..self.post.size()).filter(takes_part).collect();
        let left = match supply.left() {
            (left, true) => Left::Exactly(left),
            (least, false) => Left::AtLeast(least),
        };
        self.know(None);
        self.chunker.begin(left, &workers, &self.knowledge);
    }

    /// Brings what the policies are told up to date.
    fn know(&mut self, left: Option<u64>) {
        self.knowledge.now = self.clock.now().as_secs_f64();
        self.knowledge.task_bytes = self.pace.task_bytes();
        self.knowledge.result_bytes = self.pace.result_bytes();
        self.knowledge.ahead = self.ahead(left);
    }

    /// Tasks that a chunk should have at most. A policy that was asked for is followed to the letter.
    fn enough(&self) -> u64 {
        if self.options.chunking == Chunking::Auto { self.pace.enough() } else { u64::MAX }
    }

    fn ahead(&self, left: Option<u64>) -> u32 {
        self.options.ahead.unwrap_or_else(|| self.pace.ahead(left, self.master.crew().working()))
    }

    /// Ends a turn: waits if nothing was done in it, and looks after what is due now and then.
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
        self.backoff.may_spin(self.engine.is_inline());
        if let Some(left) = self.engine.remaining() {
            return self.post.transport().wait(Some(left.min(SIMULATED_POLL)));
        }
        self.backoff.wait(self.post.transport(), self.clock)
    }

    /// Takes in what has come. Returns whether there was anything.
    fn receive(&mut self, sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer) -> Result<bool> {
        for taken in 0..BURST {
            let Some(letter) = self.post.poll()? else { return Ok(taken > 0) };
            self.hear(letter, sink)?;
            if self.stopped {
                break;
            }
        }
        Ok(true)
    }

    fn hear(
        &mut self,
        letter: Letter,
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        match letter.kind {
            Kind::Done => self.result_from(letter, sink),
            Kind::Join => self.joined(&letter),
            Kind::Status => self.watch.hear(&letter),
            Kind::Hung => self.hung(&letter, sink),
            other => {
                let text = format!("rank {} sent {other:?} in the middle of a farm's run", letter.from);
                Err(Error::new(ErrorKind::Wire, text).at_rank(0))
            }
        }
    }

    fn joined(&mut self, letter: &Letter) -> Result<()> {
        let join: Join = wire::from_bytes(&letter.body)?;
        if join.farm != self.name {
            let text = format!(
                "built the farm {:?}, rank 0 the farm {:?}: every rank must build the same",
                join.farm, self.name
            );
            return Err(Error::new(ErrorKind::Config, text).at_rank(letter.from));
        }
        self.watch.active(letter.from);
        self.reports[letter.from].warm_up = join.warm_up;
        if self.master.crew().standing(letter.from) == Standing::Away {
            self.master.crew_mut().set(letter.from, Standing::Working);
            self.chunker.join(letter.from);
        }
        Ok(())
    }

    /// Gives chunks to all workers that ask. Returns whether any was given.
    fn serve<T: Iterator<Item = I>>(&mut self, supply: &mut Supply<T>) -> Result<bool> {
        let mut moved = false;
        loop {
            let waiting = self.master.waiting();
            if waiting == 0 && supply.has_ended() {
                return Ok(moved);
            }
            let left = supply.left();
            let left = left.1.then_some(left.0 + waiting);
            let ahead = self.ahead(left);
            if self.master.crew().neediest(ahead).is_none() {
                return Ok(moved);
            }
            self.know(left);
            let askers: Vec<usize> = self.master.crew().askers(ahead).collect();
            let most = self.enough();
            // The neediest one takes what there is, except for tasks that it has failed in.
            let mut piece = None;
            for worker in askers {
                piece = self.next_piece(supply, worker, most)?.map(|piece| (worker, piece));
                if piece.is_some() || self.master.waiting() == 0 {
                    break;
                }
            }
            let Some((worker, piece)) = piece else { return Ok(moved) };
            let (giving, message, load) = self.pack(worker, piece)?;
            self.pace.gave(giving.count.into(), load.len());
            self.note(worker, giving, load);
            self.post.send_ready(worker, message)?;
            moved = true;
        }
    }

    /// Does a chunk on rank 0 if it has nothing else to do. Returns whether one was begun.
    fn compute<T: Iterator<Item = I>>(&mut self, supply: &mut Supply<T>) -> Result<bool> {
        let mut moved = false;
        while self.master.crew().standing(0) == Standing::Working
            && self.engine.has_room()
            && !self.engine.wants_pause()
            && (self.master.waiting() > 0 || !supply.has_ended())
        {
            let left = supply.left();
            self.know(left.1.then_some(left.0 + self.master.waiting()));
            let grain = if self.engine.is_inline() { self.pace.own_grain() } else { u64::MAX };
            let most = grain.min(self.enough());
            let Some(piece) = self.next_piece(supply, 0, most)? else { break };
            let (giving, _, load) = self.pack(0, piece)?;
            self.note(0, giving, load.clone());
            self.engine.submit(Task::Chunk { giving, load, away: false })?;
            moved = true;
            if self.engine.is_inline() {
                break;
            }
        }
        Ok(moved)
    }

    /// The tasks of the next chunk for `worker`, at most `most`: some that came back, or new ones.
    fn next_piece<T: Iterator<Item = I>>(
        &mut self,
        supply: &mut Supply<T>,
        worker: usize,
        most: u64,
    ) -> Result<Option<Piece<I>>> {
        let flying = supply.drawn() - self.order.fed();
        let window = self.pace.window(self.window_bytes);
        let room = if flying == 0 { window.max(1) } else { window.saturating_sub(flying) };
        let most = most.min(u32::MAX.into());
        if self.master.waiting() > 0 {
            let size = self.chunker.next_up_to(worker, most, &self.knowledge).unwrap_or(1);
            if let Some(piece) = self.master.take_back(worker, size) {
                self.chunker.give_back(size - piece.tasks.len() as u64);
                return Ok(Some(piece));
            }
            self.chunker.give_back(size);
        }
        if room == 0 || supply.has_ended() {
            return Ok(None);
        }
        let size = self.chunker.next_up_to(worker, most.min(room), &self.knowledge).unwrap_or(1);
        let first = supply.drawn();
        let tasks = supply.draw(size).map_err(|e| e.in_stage(&self.name))?;
        let drawn = tasks.len() as u64;
        if drawn < size {
            self.chunker.give_back(size - drawn);
        }
        if supply.has_ended() {
            self.chunker.set_supply(Left::Exactly(self.master.waiting()), &self.knowledge);
        }
        Ok((drawn > 0).then_some(Piece { first, tasks, attempt: 0, avoid: None }))
    }

    /// A chunk as a message, and what is kept of it.
    fn pack(&mut self, worker: usize, piece: Piece<I>) -> Result<(Giving, crate::transport::Message, Load)> {
        let Piece { first, tasks, attempt, .. } = piece;
        let giving = Giving { id: self.master.next_id(), first, count: tasks.len() as u32, attempt };
        let packed = caught(|| parcel::give(self.run, giving, &self.codecs.tasks, tasks));
        let (message, load) = packed.map_err(|e| {
            let text = format!("{} (in a chunk of {} for rank {worker})", e.message(), giving.count);
            Error::new(e.kind(), text).on_item(first).in_stage(&self.name).at_rank(0)
        })?;
        Ok((giving, message, load))
    }

    fn note(&mut self, worker: usize, giving: Giving, load: Load) {
        let Giving { first, count, attempt, .. } = giving;
        self.master.give(worker, (first, count), attempt, load, self.clock.now());
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
                }
                Outcome::Chunk { giving, times, result: Output::Sheet(sheet) } => {
                    self.pace.own(giving.count.into(), times.took);
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
        // The simulator finds its own deadlocks.
        if self.clock.is_simulated() {
            return Ok(());
        }
        let now = self.clock.now();
        if !self.watch.is_due(now) {
            return Ok(());
        }
        let mine = Status { task: None, waiting: 0, inline: self.engine.is_inline() };
        self.post.note_done(self.master.tally().ended);
        for loss in self.watch.over_workers(self.post, self.master.crew(), &mine, now)? {
            self.lose(&loss)?;
        }
        Ok(())
    }

    /// Does `work` of the caller's beside the communication, so that the workers hear of this rank meanwhile.
    pub(crate) fn beside<R: Send>(&mut self, work: impl FnOnce() -> R + Send) -> Result<R> {
        if self.clock.is_simulated() || self.post.size() == 1 {
            return Ok(work());
        }
        std::thread::scope(|scope| {
            let waker = self.post.transport().waker();
            let thread = scope.spawn(move || {
                let result = work();
                waker.wake();
                result
            });
            while !thread.is_finished() {
                let moved = self.receive(&mut |_, _| Answer::Continue(()))?;
                self.after_turn(moved)?;
            }
            thread.join().map_err(|payload| {
                Error::new(ErrorKind::Panic, crate::session::panic_text(&*payload))
                    .in_stage(&self.name)
                    .at_rank(0)
            })
        })
    }

    /// A worker has reported. One that hangs in a task does not come back from the run if it is a process.
    fn left(&mut self, rank: usize) {
        match self.master.crew().standing(rank) {
            Standing::Dead => return,
            Standing::Hung if self.post.is_process() => self.post.lose(rank, "it hangs in a task"),
            _ => {}
        }
        self.master.crew_mut().set(rank, Standing::Left);
    }

    /// Lets the workers go and tells what the run was like.
    pub(crate) fn finish(mut self, iterations: usize) -> Result<Summary> {
        let elapsed = self.clock.now().saturating_sub(self.start);
        for rank in 1..self.post.size() {
            // Also to one that is taken for dead: it may only have been slow.
            self.post.send(rank, Kind::Finish, &())?;
        }
        loop {
            let here =
                |&r: &usize| !matches!(self.master.crew().standing(r), Standing::Dead | Standing::Left);
            if !(1..self.post.size()).any(|r| here(&r)) {
                break;
            }
            let mut moved = false;
            while let Some(letter) = self.post.poll()? {
                moved = true;
                match letter.kind {
                    Kind::Report => self.left(letter.from),
                    Kind::Join => self.joined(&letter)?,
                    Kind::Status => self.watch.hear(&letter)?,
                    // Results of a stream that was stopped, and what lost ranks still say.
                    _ => {}
                }
            }
            self.after_turn(moved)?;
        }
        let tally = self.master.tally();
        self.post.note_done(tally.ended);
        self.engine.finish()?;
        Ok(Summary {
            farm: self.name,
            tasks: tally.ended,
            failed: tally.failed,
            retried: tally.retried,
            again: tally.again,
            lost: self.lost,
            chunks: tally.chunks,
            chunking: self.options.chunking.to_string(),
            iterations,
            elapsed,
            ranks: self.reports,
        })
    }
}
