//! Phases of a farm's run on rank 0, such as the stream of tasks or the wait for the dismissed workers. One phase runs after the other; all of them
//! share the state in [`MasterRank`].

use std::marker::PhantomData;
use std::time::Duration;

use super::super::delivery::{Deliver, Delivery, NoDelivery};
use super::super::task_runner::{Command, Done, TaskRunner};
use super::super::task_source::Source;
use super::MasterRank;
use crate::comm::message::Message;
use crate::error::Result;
use crate::observe::Progress;
use crate::rank::driver::BURST;
use crate::rank::heartbeat::{HeartbeatState, Silence, Watch};
use crate::rank::protocol::{FREQUENT_POLLS, Moment, Next, Outgoing, Protocol};

pub(super) trait MasterPhase {
    fn delivery(&mut self) -> &mut dyn Deliver;

    fn on_turn(&mut self, master: &mut MasterRank, out: &mut Outgoing<'_>) -> Result<bool>;

    fn next(&mut self, _master: &mut MasterRank, _at: &Moment) -> Result<Option<Command>> {
        Ok(None)
    }

    fn has_finished(&self) -> bool;

    /// Returns true while no thread of rank 0 calls the source or the sink, so that the communicating thread may poll without
    /// sleeping.
    fn leaves_the_core(&self) -> bool {
        true
    }

    /// Returns true while the source or the sink runs on the communicating thread of rank 0, because its calls have been short so
    /// far.
    fn is_interleaved(&self) -> bool {
        false
    }

    /// Describes the program's code that currently runs for the farm. The text follows "rank 0: " in a message.
    fn busy(&self) -> Option<&'static str> {
        None
    }

    /// Returns the total number of tasks of the run; `None` unless it is certain.
    fn total(&self) -> Option<u64> {
        None
    }
}

/// Adapter by which the driver of a rank, which receives messages and calls user code, executes a phase of the farm's run.
pub(super) struct PhaseProtocol<'m, 'w, 'f, S> {
    pub(super) master: &'m mut MasterRank,
    pub(super) phase: S,
    pub(super) code: PhantomData<TaskRunner<'w, 'f>>,
}

impl<'w, 'f, S: MasterPhase> Protocol for PhaseProtocol<'_, 'w, 'f, S> {
    type Code = TaskRunner<'w, 'f>;

    const POLLS_PER_SIMULATED_JOB: u32 = FREQUENT_POLLS;

    /// Maximum number of messages that rank 0 receives between two commands (such as to run a chunk) on its communicating thread. Rank 0 answers all
    /// requests for chunks in these messages before the next command.
    const MESSAGES_BETWEEN_JOBS: usize = BURST;

    /// Number of turns of rank 0's message loop between two calls of `on_tick`, with which rank 0 also sends heartbeats. The number is small because
    /// source and sink may take some milliseconds of a turn each, and heartbeats are due within a second.
    const TURNS_PER_TICK: u32 = 64;

    const ANSWERS_SOON: bool = true;

    fn on_message(&mut self, message: Message, _: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        self.master.on_message(message, self.phase.delivery(), out)
    }

    fn on_done(&mut self, done: Done, _: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        self.master.on_done(done, self.phase.delivery(), out)
    }

    fn on_turn(&mut self, _: &Moment, out: &mut Outgoing<'_>) -> Result<bool> {
        Ok(self.phase.on_turn(self.master, out)? | self.master.spread(out)?)
    }

    fn next(&mut self, at: &Moment, _: &mut Outgoing<'_>) -> Result<Next<Command>> {
        let command = self.phase.next(self.master, at)?;
        Ok(match command {
            Some(command) => Next::Job(command),
            None if self.phase.has_finished() => Next::Finished,
            None => Next::Wait,
        })
    }

    fn is_dismissed(&self) -> bool {
        self.phase.has_finished()
    }

    fn leaves_the_core(&self) -> bool {
        self.phase.leaves_the_core()
    }

    fn is_interleaved(&self) -> bool {
        self.phase.is_interleaved()
    }

    fn on_stop(&mut self, _: &Moment, _: &mut Outgoing<'_>) -> Result<()> {
        self.master.stop_requested = true;
        Ok(())
    }

    fn on_tick(&mut self, now: Duration, _: &Moment, out: &mut Outgoing<'_>) -> Result<bool> {
        self.master.on_tick(now, out).map(|()| false)
    }

    fn on_heartbeat(
        &mut self,
        from: usize,
        heartbeat_state: &HeartbeatState,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        self.master.on_heartbeat(from, heartbeat_state, out)
    }

    fn on_lost(&mut self, silence: Silence, out: &mut Outgoing<'_>) -> Result<()> {
        self.master.on_silence(&silence, out)
    }

    fn watch(&self, rank: usize) -> Watch {
        self.master.watch(rank)
    }

    fn heartbeat_state(&self) -> HeartbeatState {
        self.master.heartbeat_state(self.phase.busy())
    }

    fn progress(&mut self) -> Option<Progress> {
        Some(self.master.progress(self.phase.total()))
    }
}

pub(super) struct TaskStream<'s, 'scope, 'env> {
    source: &'s mut dyn Source,
    delivery: &'s mut Delivery<'scope, 'env>,
    /// True if workers request chunks: rank 0 then sends them chunks before it takes one for itself.
    others_first: bool,
    has_finished: bool,
}

impl<'s, 'scope, 'env> TaskStream<'s, 'scope, 'env> {
    pub(super) fn new(source: &'s mut dyn Source, delivery: &'s mut Delivery<'scope, 'env>) -> Self {
        TaskStream { source, delivery, others_first: false, has_finished: false }
    }
}

impl MasterPhase for TaskStream<'_, '_, '_> {
    fn delivery(&mut self) -> &mut dyn Deliver {
        self.delivery
    }

    fn on_turn(&mut self, master: &mut MasterRank, out: &mut Outgoing<'_>) -> Result<bool> {
        let mut has_progressed = self.delivery.advance()?;
        master.update_progress(self.delivery);
        if master.state.stopped {
            self.source.end();
            master.state.tasks.drop_waiting();
            self.has_finished = true;
            return Ok(true);
        }
        has_progressed |= self.source.advance()?;
        master.stop_if_out_of_time(self.source, out);
        has_progressed |= master.stop_if_requested(self.source);
        master.replay(self.source, self.delivery)?;
        master.fail_abandoned(self.delivery)?;
        let served = master.serve(self.source, out)? | master.send_second_copies(self.source, out)?;
        master.replay(self.source, self.delivery)?;
        if let Some(journal) = &mut master.journal {
            journal.tick()?;
        }
        self.others_first = served && master.has_request(self.source);
        self.has_finished = self.has_ended(master);
        Ok(has_progressed || served)
    }

    fn next(&mut self, master: &mut MasterRank, at: &Moment) -> Result<Option<Command>> {
        if self.has_finished || self.others_first {
            return Ok(None);
        }
        let command = master.compute(self.source, at.user_code.is_inline)?;
        self.has_finished = self.has_ended(master);
        Ok(command)
    }

    fn has_finished(&self) -> bool {
        self.has_finished
    }

    fn leaves_the_core(&self) -> bool {
        self.source.leaves_the_core() && self.delivery.leaves_the_core()
    }

    fn is_interleaved(&self) -> bool {
        self.source.is_interleaved() || self.delivery.is_interleaved()
    }

    fn busy(&self) -> Option<&'static str> {
        match (self.source.leaves_the_core(), self.delivery.leaves_the_core()) {
            (false, _) => Some("drawing tasks from the caller's iterator"),
            (_, false) => Some("handing results to the caller's sink"),
            _ => None,
        }
    }

    fn total(&self) -> Option<u64> {
        let (left, is_certain) = self.source.left();
        is_certain.then(|| self.source.taken() + left)
    }
}

impl TaskStream<'_, '_, '_> {
    fn has_ended(&self, master: &MasterRank) -> bool {
        self.source.has_ended() && master.state.tasks.is_empty() && self.delivery.is_idle()
    }
}

pub(super) struct Waiting<U> {
    until: U,
    busy: Option<&'static str>,
    has_finished: bool,
    nothing: NoDelivery,
}

impl<U> Waiting<U> {
    pub(super) fn until(until: U, busy: Option<&'static str>) -> Self {
        Waiting { until, busy, has_finished: false, nothing: NoDelivery }
    }
}

impl<U> MasterPhase for Waiting<U>
where
    U: FnMut(&mut MasterRank, &mut Outgoing<'_>) -> Result<bool>,
{
    fn delivery(&mut self) -> &mut dyn Deliver {
        &mut self.nothing
    }

    fn on_turn(&mut self, master: &mut MasterRank, out: &mut Outgoing<'_>) -> Result<bool> {
        self.has_finished = (self.until)(master, out)?;
        Ok(self.has_finished)
    }

    fn has_finished(&self) -> bool {
        self.has_finished
    }

    fn busy(&self) -> Option<&'static str> {
        self.busy
    }
}
