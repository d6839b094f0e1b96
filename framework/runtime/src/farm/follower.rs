//! Rank other than 0 in a running farm: a worker at first, and a sub-master if the master orders it.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::chunk_result::Activity;
use super::link::Link;
use super::messages::{Received, ToMaster, ToWorker};
use super::options::Options;
use super::submaster::Submaster;
use super::task_runner::{Command, Done, TaskRunner};
use super::worker_role::WorkerRole;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Encode, Message};
use crate::error::Result;
use crate::rank::driver::RankDriver;
use crate::rank::flight_recorder::FlightRecordLocation;
use crate::rank::heartbeat::{HeartbeatState, Silence, Watch};
use crate::rank::protocol::{Moment, Next, Outgoing, Protocol, UserCodeState};
use crate::session::Config;
use crate::wire;

#[derive(Debug)]
enum Role {
    Worker,
    Submaster(Box<Submaster>),
}

pub(super) struct Follower<'w, 'f> {
    link: Link,
    /// Worker part of this rank, which runs tasks. In a rank that has become a sub-master it still finishes the chunks that the rank received as a
    /// worker.
    worker: WorkerRole,
    role: Role,
    join_limit: Duration,
    is_set_up: bool,
    is_parked: bool,
    user_code: UserCodeState,
    finished: bool,
    code: PhantomData<TaskRunner<'w, 'f>>,
}

impl<'w, 'f> Follower<'w, 'f> {
    pub(super) fn new(
        endpoint: &mut Endpoint,
        (activity, flight_recorder): (Arc<Activity>, Option<FlightRecordLocation>),
        farm: &str,
        options: &Options,
        config: &Config,
    ) -> Self {
        let now = endpoint.clock().now();
        let here = endpoint.record_poll(now);
        Follower {
            link: Link::new(endpoint, flight_recorder, farm, options, config),
            worker: WorkerRole::new(activity, options.task_limit, here),
            role: Role::Worker,
            join_limit: config.join_limit,
            is_set_up: false,
            is_parked: false,
            user_code: UserCodeState { is_inline: false, is_fixed: false, is_idle: true },
            finished: false,
            code: PhantomData,
        }
    }

    /// Works until the master dismisses the rank.
    ///
    /// # Errors
    /// Any error that ends the job: the worker could not be created, tasks or results could not be encoded or decoded, the master is
    /// silent.
    pub(super) fn run<'scope>(
        mut self,
        mut driver: RankDriver<'scope, '_, TaskRunner<'w, 'f>>,
        endpoint: &mut Endpoint,
    ) -> Result<()>
    where
        'w: 'scope,
        'f: 'scope,
    {
        driver.run_until_finished(endpoint, &mut self)?;
        let Follower { worker, mut link, .. } = self;
        // The last message of a rank, its report of statistics, also carries the incumbent (best value known so far). The results of the last tasks
        // do not carry it to rank 0 if the sink has ended the run before they were sent.
        let report = ToMaster::Report(worker.report).encode(endpoint.run())?;
        endpoint.send_ready(0, link.incumbent.add(0, report)?)?;
        if worker.timed_out {
            // The rank stays until the end of the job: its task may never end, and the thread of the task ends only with the process.
            endpoint.leave_with_all(self.join_limit)?;
        }
        driver.finish().map(drop)
    }

    fn on_order(&mut self, from: usize, message: ToWorker, out: &mut Outgoing<'_>) -> Result<()> {
        match message {
            ToWorker::Chunk(header, payload) => {
                self.link.detector.record_message(from);
                if from == self.link.superior || from == 0 {
                    self.worker.accept(from, header, payload);
                }
                Ok(())
            }
            ToWorker::Lead(order) => {
                self.role = Role::Submaster(Box::new(Submaster::lead(&mut self.link, order, out)?));
                Ok(())
            }
            ToWorker::Chunks { ahead, most_tasks, chunks } => {
                self.link.detector.record_message(from);
                // A rank that is no longer a sub-master ignores chunks for members: it has returned all its chunks to the master, which requeues
                // them.
                if let Role::Submaster(submaster) = &mut self.role {
                    submaster.take((ahead, most_tasks), chunks);
                }
                Ok(())
            }
            ToWorker::Attach(order) => {
                if !self.link.attach(from, order, out) {
                    return Ok(());
                }
                // Chunks from this rank's former sub-master are dropped: the sub-master is dead, and other ranks run its chunks.
                self.worker.keep_chunks_of(from);
                self.link.join(from, out)
            }
            ToWorker::Dissolve => {
                self.role = Role::Worker;
                Ok(())
            }
            ToWorker::Park(parked) => {
                self.is_parked = parked;
                Ok(())
            }
            ToWorker::Finish => {
                self.finished = true;
                Ok(())
            }
        }
    }

    /// Sends chunks from a sub-master to its members, and results to the master. Without living members the rank becomes a worker
    /// again. Returns true if anything was sent.
    fn lead(&mut self, out: &mut Outgoing<'_>) -> Result<bool> {
        let Role::Submaster(submaster) = &mut self.role else { return Ok(false) };
        let has_progressed = submaster.pass_on(&mut self.link, out)?;
        if !submaster.is_deserted() {
            return Ok(has_progressed);
        }
        if let Role::Submaster(submaster) = std::mem::replace(&mut self.role, Role::Worker) {
            submaster.retire(&mut self.link, out)?;
        }
        self.link.forget_announced();
        self.link.join(0, out)?;
        Ok(true)
    }

    /// Sends an improved incumbent (best value known so far) to the rank from which this rank gets chunks and, as a sub-master, to the members that
    /// hold chunks. Returns true if it was sent.
    fn spread(&mut self, out: &mut Outgoing<'_>) -> Result<bool> {
        if !self.link.incumbent.has_improved() || self.finished {
            return Ok(false);
        }
        let members = match &self.role {
            Role::Worker => None,
            Role::Submaster(submaster) => Some(submaster.workers().holders()),
        };
        let ranks = members.into_iter().flatten().chain([self.link.superior]);
        self.link.incumbent.send_round(ranks, self.link.clock.now(), out)
    }
}

impl<'w, 'f> Protocol for Follower<'w, 'f> {
    type Code = TaskRunner<'w, 'f>;

    const ANSWERS_SOON: bool = true;

    fn on_message(&mut self, message: Message, _: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let from = message.from;
        if let Role::Submaster(submaster) = &mut self.role {
            submaster.readmit(from);
        }
        let Some(message) = self.link.incumbent.take(message)? else { return Ok(()) };
        match Received::decode(message)? {
            Received::ToWorker(message) => self.on_order(from, message, out),
            Received::ToMaster(message @ (ToMaster::Join(_) | ToMaster::Result(_))) => match &mut self.role {
                Role::Submaster(submaster) => submaster.on_message(&mut self.link, from, message, out),
                Role::Worker => Ok(()),
            },
            Received::ToMaster(message) => Err(message.unexpected(from, "a message that is not for rank 0")),
        }
    }

    fn on_turn(&mut self, _: &Moment, out: &mut Outgoing<'_>) -> Result<bool> {
        Ok(self.lead(out)? | self.spread(out)?)
    }

    fn on_done(&mut self, done: Done, _: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let is_set_up = matches!(done, Done::SetUp { .. });
        self.worker.on_done(done, &mut self.link, out)?;
        if is_set_up { self.link.join(self.link.superior, out) } else { Ok(()) }
    }

    fn next(&mut self, _: &Moment, _: &mut Outgoing<'_>) -> Result<Next<Command>> {
        if !std::mem::replace(&mut self.is_set_up, true) {
            return Ok(Next::Job(Command::SetUp));
        }
        if self.finished {
            return Ok(Next::Finished);
        }
        Ok(self.worker.next().map_or(Next::Wait, Next::Job))
    }

    fn is_dismissed(&self) -> bool {
        self.finished
    }

    fn is_parked(&self) -> bool {
        self.is_parked
    }

    fn on_tick(&mut self, now: Duration, _: &Moment, out: &mut Outgoing<'_>) -> Result<bool> {
        if out.endpoint().capabilities().real_time {
            let here = out.endpoint().record_poll(now);
            self.worker.check_limit(out, here)?;
        }
        Ok(false)
    }

    fn on_heartbeat(
        &mut self,
        from: usize,
        heartbeat_state: &HeartbeatState,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let here = out.endpoint().record_poll(self.link.clock.now());
        let Role::Submaster(submaster) = &mut self.role else {
            return self.link.detector.on_heartbeat(from, heartbeat_state, 0, here).map(drop);
        };
        submaster.readmit(from);
        let loss =
            self.link.detector.on_heartbeat(from, heartbeat_state, submaster.workers().held(from), here)?;
        loss.map_or(Ok(()), |loss| submaster.lose(&self.link, loss, out))
    }

    fn on_lost(&mut self, silence: Silence, out: &mut Outgoing<'_>) -> Result<()> {
        match &mut self.role {
            Role::Submaster(submaster) if silence.rank != 0 => {
                let state = submaster.workers().state_of(silence.rank);
                let loss = self.link.detector.lose(&silence, state, out.endpoint());
                submaster.lose(&self.link, loss, out)
            }
            _ => self.link.detector.lose_master(&silence),
        }
    }

    /// Returns the maximum silence of `rank`, if this rank monitors it. A sub-master monitors its members; every rank monitors rank 0 and the rank
    /// from which it gets chunks.
    fn watch(&self, rank: usize) -> Watch {
        match &self.role {
            Role::Submaster(submaster) if rank != self.link.superior => {
                self.link.detector.watch_worker(rank, submaster.workers().state_of(rank))
            }
            _ => self.link.detector.watch_master(rank, self.link.superior),
        }
    }

    /// Returns true if the thread on which tasks run has changed. The rank that sends chunks to this rank has to know the thread, because it waits
    /// longer for messages of a rank that cannot send heartbeats while a task runs.
    fn has_urgent_change(&mut self, at: &Moment) -> bool {
        self.user_code = at.user_code;
        self.link.has_urgent_change(WorkerRole::mode(self.role.holds(), self.user_code))
    }

    fn heartbeat_state(&self) -> HeartbeatState {
        let status = self.worker.status(self.role.holds(), self.user_code);
        let details = wire::to_bytes(&status).expect("numbers can be encoded");
        let heartbeat_state = HeartbeatState::new(self.worker.is_computing(), self.worker.describe());
        HeartbeatState { details, ..heartbeat_state.or_rests(self.is_parked) }
    }
}

impl Role {
    /// Returns the number of chunks and results that a sub-master holds for its members; `None` for a worker.
    fn holds(&self) -> Option<usize> {
        match self {
            Role::Worker => None,
            Role::Submaster(submaster) => Some(submaster.holds()),
        }
    }
}
