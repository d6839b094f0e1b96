//! One rank while a pipeline runs: turns messages into work and work into messages.
//!
//! The state machine says what to do, the engine does it, the post office carries it; this is the loop that
//! brings the three together, and the place where waiting is measured and limited.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::engine::{Engine, Inspection, Outcome, Task};
use super::erased::Codec;
use super::ledger::{Activity, Doing, RankReport, StageStats};
use super::machine::table::Table;
use super::machine::window::WindowPlan;
use super::machine::{Idle, Machine, Source, epoch_of};
use super::workshop::SavedState;
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::session::post::{Kind, Letter, Post};
use crate::session::{Backoff, Config};
use crate::wire;

/// Messages taken in before the rank looks at its own work again.
const BURST: usize = 16;
/// Jobs of microseconds done inline before the rank looks at its messages: a look costs as much as such a job.
const INLINE_BURST: u32 = 8;
/// Turns between two looks at the clock while there is work.
const TURNS_PER_TICK: u32 = 256;
/// How often ranks tell each other that they are alive.
const PING: Duration = Duration::from_secs(1);

/// A sign of life, with what the rank is doing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Status {
    pub(crate) doing: Doing,
    pub(crate) state: String,
}

/// See the module's page.
pub(crate) struct Rank<'a, 'scope, 'env, 'p> {
    post: &'a mut Post,
    engine: Engine<'scope, 'env, 'p>,
    machine: Option<Machine>,
    run: u32,
    codecs: Vec<Arc<dyn Codec>>,
    activity: Arc<Activity>,
    stage_names: Vec<String>,
    clock: Clock,
    backoff: Backoff,
    /// Letters of an epoch that has not begun here.
    early: Vec<Letter>,
    /// Letters for whoever runs the rank: the conductor or the follower.
    control: VecDeque<Letter>,
    answers: VecDeque<Outcome>,
    /// Since when the rank has had nothing to compute, and why.
    idle: Option<(Duration, Idle)>,
    report: RankReport,
    turns: u32,
    next_ping: Duration,
    peer_limit: Duration,
    join_limit: Duration,
    /// Rank 0: what each rank last said of itself.
    words: Vec<Option<Status>>,
    /// Rank 0: since when no rank has had anything to compute although items are in flight.
    standstill: Option<Duration>,
}

impl<'a, 'scope, 'env, 'p: 'scope> Rank<'a, 'scope, 'env, 'p> {
    pub(crate) fn new(
        post: &'a mut Post,
        engine: Engine<'scope, 'env, 'p>,
        run: u32,
        codecs: Vec<Arc<dyn Codec>>,
        activity: Arc<Activity>,
        stage_names: Vec<String>,
        config: &Config,
    ) -> Self {
        let clock = post.clock();
        let (backoff, now, size) = (post.backoff(), clock.now(), post.size());
        for rank in 0..size {
            // What was heard before this run says nothing about it.
            post.heard_now(rank, now);
        }
        Rank {
            post,
            engine,
            machine: None,
            run,
            codecs,
            activity,
            stage_names,
            clock,
            backoff,
            early: Vec::new(),
            control: VecDeque::new(),
            answers: VecDeque::new(),
            idle: None,
            report: RankReport::default(),
            turns: 0,
            next_ping: now + PING.min(config.peer_limit / 4),
            peer_limit: config.peer_limit,
            join_limit: config.join_limit,
            words: vec![None; size],
            standstill: None,
        }
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

    /// Rank 0's end of the stream, while an epoch runs.
    pub(crate) fn source(&mut self) -> Option<&mut Source> {
        self.machine.as_mut().and_then(Machine::source_mut)
    }

    /// The next letter that is not about items.
    pub(crate) fn control(&mut self) -> Option<Letter> {
        self.control.pop_front()
    }

    /// Sets the stages up that `table` puts here; returns when their factories are done.
    pub(crate) fn host(&mut self, table: &Table, states: Vec<SavedState>) -> Result<()> {
        let me = self.number();
        let blocks: Vec<_> = table.blocks().iter().map(|b| b.stages.clone()).collect();
        let here = table.blocks().iter().filter(|b| b.hosts.contains(&me));
        let hosted: Vec<usize> = here.flat_map(|b| b.stages.clone()).collect();
        self.close_epoch();
        match self.ask(Task::SetUp { blocks, hosted, states })? {
            Outcome::SetUp => Ok(()),
            _ => Err(self.confused()),
        }
    }

    /// Takes up the work of an epoch whose stages have been set up.
    pub(crate) fn begin(
        &mut self,
        table: Table,
        ahead: usize,
        source: Option<(WindowPlan, u64)>,
    ) -> Result<()> {
        let mut machine = Machine::new(self.number(), self.run, table, self.codecs.clone(), ahead)
            .with_names(&self.stage_names);
        if let Some((plan, start)) = source {
            machine = machine.with_source(plan, start, self.clock.now());
        }
        machine.start()?;
        self.machine = Some(machine);
        for letter in std::mem::take(&mut self.early) {
            self.take_in(letter)?;
        }
        Ok(())
    }

    /// From now on, take the sizes of items on `batches` batches.
    pub(crate) fn measure_sizes(&mut self, batches: usize) -> Result<()> {
        self.engine.submit(Task::Measure { batches })
    }

    /// What there is to tell of the stages; call it when nothing is in flight.
    pub(crate) fn inspect(&mut self) -> Result<Inspection> {
        match self.ask(Task::Inspect)? {
            Outcome::Inspection(i) => Ok(i),
            _ => Err(self.confused()),
        }
    }

    /// Ends the rank's part; returns what it has counted, and the post office.
    pub(crate) fn finish(mut self) -> Result<(RankReport, &'a mut Post)> {
        self.close_epoch();
        let workshop = self.engine.finish()?;
        for (slot, fresh) in self.report.stages.iter_mut().zip(workshop.stats()) {
            *slot = StageStats { longest_queue: slot.longest_queue, ..fresh.clone() };
        }
        Ok((self.report, self.post))
    }

    /// Takes over the counters of the epoch that ends.
    fn close_epoch(&mut self) {
        self.end_idle();
        self.report.stages.resize(self.stage_names.len(), Default::default());
        if let Some(machine) = self.machine.take() {
            self.report.add_traffic(machine.traffic());
            for (stage, most) in machine.longest_queues() {
                let longest = &mut self.report.stages[stage].longest_queue;
                *longest = most.max(*longest);
            }
        }
    }

    /// Hands a task over that has an answer, and goes on with the protocol until the answer is there.
    fn ask(&mut self, task: Task) -> Result<Outcome> {
        while !self.engine.has_room() {
            self.turn_or_wait()?;
        }
        self.engine.submit(task)?;
        loop {
            if let Some(outcome) = self.answers.pop_front() {
                return Ok(outcome);
            }
            self.turn_or_wait()?;
        }
    }

    fn confused(&self) -> Error {
        Error::new(ErrorKind::Panic, "in the framework itself: an answer to another question")
            .at_rank(self.number())
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
            let reason = self.machine.as_ref().map_or(Idle::Input, Machine::idle_reason);
            self.idle = Some((self.clock.now(), reason));
        }
        self.tick()?;
        // A thread that only communicates leaves the core to the one that computes.
        self.backoff.may_spin(self.engine.is_inline());
        self.backoff.wait(self.post.transport(), self.clock)
    }

    /// Takes in what has come, starts what can be started, sends what is to be sent. Returns whether there was
    /// anything.
    fn turn(&mut self) -> Result<bool> {
        let mut moved = false;
        // A rank that computes inline takes one message at a time: the others can go on as soon as it has answered.
        let burst = if self.engine.is_inline() { 1 } else { BURST };
        for _ in 0..burst {
            let Some(letter) = self.post.poll()? else { break };
            self.take_in(letter)?;
            moved = true;
        }
        moved |= self.work()?;
        self.send_mail()?;
        Ok(moved)
    }

    fn send_mail(&mut self) -> Result<()> {
        if let Some(machine) = &mut self.machine {
            for (to, message) in machine.take_mail() {
                self.post.send_ready(to, message)?;
            }
        }
        Ok(())
    }

    /// Fetches what is done and hands over what comes next.
    fn work(&mut self) -> Result<bool> {
        let mut moved = false;
        let mut inline_jobs = 0;
        loop {
            while let Some(outcome) = self.engine.fetch()? {
                moved = true;
                match (outcome, &mut self.machine) {
                    (Outcome::Job(done, _), Some(machine)) => {
                        let now = if machine.needs_time(&done) { self.clock.now() } else { Duration::ZERO };
                        machine.on_done(done, now).map_err(|e| self.here(e))?;
                        // At once: somebody may be waiting for it while this rank goes on.
                        self.send_mail()?;
                    }
                    (Outcome::Job(..), None) => return Err(self.confused()),
                    (answer, _) => self.answers.push_back(answer),
                }
            }
            let Some(machine) = &mut self.machine else { return Ok(moved) };
            if !self.engine.has_room() || self.engine.wants_pause() || inline_jobs == INLINE_BURST {
                return Ok(moved);
            }
            let Some(job) = machine.next_job()? else { return Ok(moved) };
            self.end_idle();
            self.engine.submit(Task::Job(job))?;
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
        match letter.kind {
            Kind::Data | Kind::Request | Kind::Offer | Kind::Assign => {
                let epoch = epoch_of(&letter).map_err(|e| self.here(e))?;
                match &mut self.machine {
                    Some(machine) if machine.epoch() == epoch => {
                        machine.on_letter(letter).map_err(|e| self.here(e))
                    }
                    Some(machine) if machine.epoch() > epoch => Ok(()),
                    _ => {
                        self.early.push(letter);
                        Ok(())
                    }
                }
            }
            Kind::Status => {
                let status: Status = wire::from_bytes(&letter.body)?;
                self.words[letter.from] = Some(status);
                Ok(())
            }
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

    /// What has to happen now and then: signs of life, and a look at who gives none.
    fn tick(&mut self) -> Result<()> {
        if self.size() == 1 || self.clock.is_simulated() {
            return Ok(());
        }
        let now = self.clock.now();
        if now < self.next_ping {
            return Ok(());
        }
        self.next_ping = now + PING.min(self.peer_limit / 4);
        let status = Status { doing: self.activity.get(), state: self.describe() };
        if self.number() == 0 {
            for to in 1..self.size() {
                self.post.send(to, Kind::Status, &status)?;
            }
        } else {
            self.post.send(0, Kind::Status, &status)?;
        }
        let watched = if self.number() == 0 { 1..self.size() } else { 0..1 };
        for other in watched {
            let silent = now.saturating_sub(self.post.heard(other, now));
            // One that has said nothing yet may still be busy with the caller's own work before its `run`.
            let limit = if self.words[other].is_some() { self.peer_limit } else { self.join_limit };
            if silent > limit {
                let last = self.words[other].as_ref().map_or("it has not said anything".to_string(), |s| {
                    format!("last it said: {}", self.in_words(s))
                });
                let mut text = format!(
                    "has waited {:.0} s for a sign of life from rank {other}; {last}",
                    silent.as_secs_f64()
                );
                if self.number() == 0 {
                    text += &format!("\n{}", self.dump());
                }
                return Err(self.here(Error::new(ErrorKind::Timeout, text)));
            }
        }
        // Only now: what a silent rank said last is no longer true.
        if self.number() == 0 { self.check_standstill(&status, now) } else { Ok(()) }
    }

    /// Rank 0: if items are in flight and no rank computes, nothing will ever come. That is a fault of the
    /// framework; it is reported with every rank's state instead of waiting for ever.
    fn check_standstill(&mut self, mine: &Status, now: Duration) -> Result<()> {
        let flying = self.machine.as_ref().and_then(Machine::source).is_some_and(|s| s.flow().in_flight > 0);
        let others = self.words.iter().skip(1).flatten();
        let quiet = mine.doing == Doing::Nothing && others.clone().all(|s| s.doing == Doing::Nothing);
        // Any item that arrived here would have ended rank 0's idleness. It counts from now, not from when that
        // began: until the last look another rank may have computed, for longer than the limit.
        if self.idle.is_none() || !flying || !quiet {
            self.standstill = None;
            return Ok(());
        }
        let since = *self.standstill.get_or_insert(now);
        let stood = now.saturating_sub(since);
        if stood <= self.peer_limit {
            return Ok(());
        }
        let text = format!(
            "nothing has moved for {:.0} s although items are in flight\n{}",
            stood.as_secs_f64(),
            self.dump()
        );
        Err(self.here(Error::new(ErrorKind::Timeout, text)))
    }

    /// Rank 0: every rank's state in words, a line each.
    fn dump(&self) -> String {
        let mut lines = vec![format!("  rank 0: {}", self.describe())];
        for (rank, status) in self.words.iter().enumerate().skip(1) {
            let words = status.as_ref().map_or("silent so far".to_string(), |s| self.in_words(s));
            lines.push(format!("  rank {rank}: {words}"));
        }
        lines.join("\n")
    }

    fn describe(&self) -> String {
        self.machine.as_ref().map_or("between two mappings".to_string(), Machine::describe)
    }

    fn in_words(&self, status: &Status) -> String {
        let doing = match status.doing {
            Doing::Nothing => "computing nothing".to_string(),
            Doing::Drawing { item } => format!("drawing item {item} from the source"),
            Doing::Feeding { item } => format!("feeding item {item} to the sink"),
            Doing::Stage { stage, item } => {
                let name = self.stage_names.get(stage).map_or("?", String::as_str);
                format!("in stage {name}, items from {item} on")
            }
        };
        format!("{doing}; {}", status.state)
    }
}
