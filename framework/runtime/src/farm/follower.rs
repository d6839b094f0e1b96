//! A rank other than 0 while a farm runs: a worker at first, a sub-master when the master says so.

use std::sync::Arc;
use std::time::Duration;

use super::builder::Options;
use super::chunk_result::Activity;
use super::link::Link;
use super::messages::{Received, Status, ToMaster, ToWorker};
use super::submaster::Submaster;
use super::task_runner::{Command, TaskRunner};
use super::trail::TrailLocation;
use super::turns::{BURST, Turns};
use super::worker_role::WorkerRole;
use crate::balance::link_probe;
use crate::comm::Backoff;
use crate::comm::endpoint::Endpoint;
use crate::error::Result;
use crate::rank::executor::Executor;
use crate::session::Config;
use crate::wire::Item;

/// What part of the time of a simulated chunk a worker may keep a message waiting: all of it, as there is little that it
/// answers.
const PATIENCE: u32 = 1;

/// How long a parked rank sleeps before it looks at its messages: it is woken that much later.
const PARKED_SLEEP: Duration = Duration::from_millis(20);

/// What the rank is to the master.
enum Role {
    Worker,
    Submaster(Box<Submaster>),
}

/// See the module's page.
pub(super) struct Follower<'a, 'scope, 'env, 'w, 'f, I: Item, O: Item> {
    link: Link<'a>,
    /// A sub-master finishes the chunks that it had before.
    worker: WorkerRole<'scope, 'env, 'w, 'f, I, O>,
    role: Role,
    join_limit: Duration,
    finished: bool,
    turns: Turns,
}

impl<'a, 'scope, 'env, 'w: 'scope, 'f: 'scope, I: Item, O: Item> Follower<'a, 'scope, 'env, 'w, 'f, I, O> {
    pub(super) fn new(
        endpoint: &'a mut Endpoint,
        executor: Executor<'scope, 'env, TaskRunner<'w, 'f, I, O>>,
        (activity, trail): (Arc<Activity>, Option<TrailLocation>),
        farm: &str,
        options: &Options,
        config: &Config,
    ) -> Self {
        let now = endpoint.clock().now();
        let here = endpoint.look(now);
        Follower {
            turns: Turns::new(endpoint.backoff()),
            link: Link::new(endpoint, trail, farm, options, config),
            worker: WorkerRole::new(executor, activity, options.task_limit, here),
            role: Role::Worker,
            join_limit: config.join_limit,
            finished: false,
        }
    }

    /// Works until the master lets the rank go.
    ///
    /// # Errors
    /// What ends the job: the worker could not be made, tasks or results could not travel, the master is silent.
    pub(super) fn run(mut self) -> Result<()> {
        // From now on the master knows how long it may be silent.
        self.announce()?;
        self.worker.executor.submit(Command::SetUp)?;
        while !self.finished {
            let mut moved = self.receive()?;
            moved |= self.worker.compute(&mut self.link, self.role.holds())?;
            moved |= self.lead()?;
            self.after_turn(moved)?;
        }
        self.worker.clear();
        let Follower { link, worker, .. } = self;
        ToMaster::Report(worker.report).send(link.endpoint, 0)?;
        if worker.timed_out {
            // The task may never end, and its thread cannot be ended otherwise than with the process.
            link.endpoint.leave_with_all(self.join_limit)?;
        }
        worker.executor.finish().map(drop)
    }

    /// Takes in what has come. Returns whether there was anything.
    fn receive(&mut self) -> Result<bool> {
        // A rank that computes inline takes one message at a time: its result can go before the next one is looked at.
        let burst = if self.worker.computes_between_messages() { 1 } else { BURST };
        for taken in 0..burst {
            let Some(message) = self.link.endpoint.poll()? else { return Ok(taken > 0) };
            let from = message.from;
            if let Role::Submaster(submaster) = &mut self.role {
                submaster.heard(from);
            }
            if link_probe::answer(&message, self.link.endpoint)? {
                continue;
            }
            match Received::decode(message).map_err(|e| self.link.here(e))? {
                Received::ToWorker(message) => self.on_order(from, message)?,
                Received::ToMaster(message) => {
                    if let Role::Submaster(submaster) = &mut self.role {
                        submaster.on_message(&mut self.link, from, message)?;
                    }
                }
            }
        }
        Ok(true)
    }

    fn on_order(&mut self, from: usize, message: ToWorker) -> Result<()> {
        match message {
            ToWorker::Chunk(header, payload) => {
                self.link.detector.active(from);
                if from == self.link.superior || from == 0 {
                    self.worker.accept(from, header, payload);
                }
                Ok(())
            }
            ToWorker::Lead(order) => {
                self.role = Role::Submaster(Box::new(Submaster::lead(&mut self.link, order)?));
                // It does no tasks any more, and can always give signs of life.
                self.announce()
            }
            ToWorker::Chunks { ahead, chunks } => {
                self.link.detector.active(from);
                // A rank that was a sub-master has given back what it had.
                if let Role::Submaster(submaster) = &mut self.role {
                    submaster.take(ahead, chunks);
                }
                Ok(())
            }
            ToWorker::Attach(order) => {
                if !self.link.attach(from, order) {
                    return Ok(());
                }
                // What another sub-master has sent is given to others: it is dead.
                self.worker.keep_chunks_of(from);
                self.announce()?;
                self.link.join(from)
            }
            ToWorker::Dissolve => {
                self.role = Role::Worker;
                self.announce()
            }
            ToWorker::Status(status) => {
                self.link.detector.on_status(from, status);
                Ok(())
            }
            ToWorker::Park(parked) => {
                self.turns.wait_by(match parked {
                    true => Backoff::new(Duration::ZERO, PARKED_SLEEP),
                    false => self.link.endpoint.backoff(),
                });
                Ok(())
            }
            ToWorker::Finish => {
                self.finished = true;
                Ok(())
            }
        }
    }

    /// As a sub-master: hands chunks and results on, until nobody is left to lead. Then the rank does tasks itself.
    fn lead(&mut self) -> Result<bool> {
        let Role::Submaster(submaster) = &mut self.role else { return Ok(false) };
        let moved = submaster.pass_on(&mut self.link)?;
        if !submaster.is_deserted() {
            return Ok(moved);
        }
        if let Role::Submaster(submaster) = std::mem::replace(&mut self.role, Role::Worker) {
            submaster.retire(&mut self.link)?;
        }
        self.link.forget_announced();
        self.announce()?;
        self.link.join(0)?;
        Ok(true)
    }

    fn after_turn(&mut self, moved: bool) -> Result<()> {
        if self.turns.end(moved) {
            self.tick()?;
        }
        if moved {
            return Ok(());
        }
        let may_spin = self.worker.executor.leaves_the_core();
        let pause = self.worker.executor.pause(PATIENCE);
        self.turns.wait(self.link.endpoint, self.link.clock, pause, may_spin)
    }

    /// Gives signs of life, and looks after those of others.
    fn tick(&mut self) -> Result<()> {
        if self.link.clock.is_simulated() {
            return Ok(());
        }
        let now = self.link.clock.now();
        let here = self.link.endpoint.look(now);
        self.worker.check_limit(&mut self.link, here)?;
        if self.link.detector.is_due(now) {
            let mine = self.status();
            if let Role::Submaster(submaster) = &mut self.role {
                submaster.check_members(&mut self.link, &mine)?;
            }
            let superior = self.link.superior;
            self.link.detector.over_master(self.link.endpoint, superior, &mine, now)?;
        }
        Ok(())
    }

    fn announce(&mut self) -> Result<()> {
        self.link.announce(self.status())
    }

    fn status(&self) -> Status {
        self.worker.status(self.role.holds())
    }
}

impl Role {
    /// Chunks that a sub-master holds for its members.
    fn holds(&self) -> Option<usize> {
        match self {
            Role::Worker => None,
            Role::Submaster(submaster) => Some(submaster.holds()),
        }
    }
}
