//! A skeleton's protocol on one rank, as the [driver](super::driver) runs it. Its inputs are messages, finished jobs of user code, and time; its
//! outputs are messages, and jobs for user code.

use std::time::Duration;

use super::executor::Executor;
use super::heartbeat::{HeartbeatState, Silence, Watch};
use super::user_code::UserCode;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Encode, Message};
use crate::error::Result;
use crate::observe::{Progress, Tally};

pub(crate) type JobOf<P> = <<P as Protocol>::Code as UserCode>::Job;
pub(crate) type DoneOf<P> = <<P as Protocol>::Code as UserCode>::Done;

/// Value of [`Protocol::POLLS_PER_SIMULATED_JOB`] for protocols in which other ranks wait for replies to their messages: a reply is delayed by less
/// than 2 % of the duration of a call of user code.
pub(crate) const FREQUENT_POLLS: u32 = 64;

/// Protocol of a skeleton on one rank. A protocol has no thread and no transport, and its events carry their time.
///
/// A method sends its messages before it returns. An error ends the job; the driver adds the rank to the error.
pub(crate) trait Protocol: Sized {
    type Code: UserCode;

    /// Frequency of polls for messages during a job of user code in a simulator: with the value n, a message waits for at most one n-th of the time
    /// that the job has run. The value is 1 if no message needs a reply before the job ends; more polls only slow down the simulation.
    const POLLS_PER_SIMULATED_JOB: u32 = 1;

    /// Maximum number of messages that are received between two jobs of user code on the communicating thread. With the default of one, the reply to
    /// a message does not wait until further messages have been handled. The number is higher for protocols whose decisions need messages of many
    /// ranks.
    const MESSAGES_BETWEEN_JOBS: usize = 1;

    /// Number of turns of the driver's loop between two calls of [`on_tick`](Protocol::on_tick) while there is work. With calls of user code of a
    /// few microseconds, 256 turns take about a millisecond, and reading the clock in each turn would cost a part of it. The number is lower for
    /// protocols with long turns.
    const TURNS_PER_TICK: u32 = 256;

    /// True if finished jobs of user code are fetched before messages are received, for a protocol whose messages need the data that such
    /// a job returns.
    const DONE_BEFORE_MESSAGES: bool = false;

    /// True if other ranks wait for replies of this rank while it has nothing to compute. The rank then spins before it sleeps even if user code
    /// has a separate thread, and its sleeps during calls of user code are short.
    const ANSWERS_SOON: bool = false;

    fn start(&mut self, _at: &Moment, _out: &mut Outgoing<'_>) -> Result<()> {
        Ok(())
    }

    fn on_message(&mut self, message: Message, at: &Moment, out: &mut Outgoing<'_>) -> Result<()>;

    fn on_done(&mut self, done: DoneOf<Self>, at: &Moment, out: &mut Outgoing<'_>) -> Result<()>;

    /// Does periodic work that is due at `now`. Called before each wait, and periodically while there is work. Returns true if
    /// [`next`](Protocol::next) should be called at once instead of after the wait, provided that user code has room for a job.
    fn on_tick(&mut self, _now: Duration, _at: &Moment, _out: &mut Outgoing<'_>) -> Result<bool> {
        Ok(false)
    }

    /// Ends the run before its work is done, because the job was asked to stop. From the request on, rank 0 calls this together with
    /// [`on_tick`](Protocol::on_tick). A skeleton that ends before its work is done calls [`Endpoint::stop_run`].
    fn on_stop(&mut self, _at: &Moment, _out: &mut Outgoing<'_>) -> Result<()> {
        Ok(())
    }

    /// Notifies the protocol before each wait that user code is idle and has no further job.
    fn on_idle(&mut self, _at: &Moment) {}

    fn on_heartbeat(
        &mut self,
        _from: usize,
        _heartbeat_state: &HeartbeatState,
        _out: &mut Outgoing<'_>,
    ) -> Result<()> {
        Ok(())
    }

    /// Handles the death or the silence of a rank. Returns an error if the job cannot continue without the rank. The rank is reported again
    /// unless [`watch`](Protocol::watch) returns [`Watch::No`] for it or the endpoint has recorded its death.
    fn on_lost(&mut self, silence: Silence, _out: &mut Outgoing<'_>) -> Result<()> {
        Err(silence.error)
    }

    /// Returns the next job for user code. Called only if another job can be submitted.
    fn next(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<Next<JobOf<Self>>>;

    /// Returns true if the next job of user code on the communicating thread may start without a poll for messages. Intended for jobs that are
    /// short compared with a poll, as long as no rank waits for a reply.
    fn may_skip_poll(&self) -> bool {
        false
    }

    /// Returns how this rank supervises another rank: for how long the other one may be silent. A rank that has finished its part may run the code
    /// of the program, where it sends no heartbeats.
    fn watch(&self, _rank: usize) -> Watch {
        Watch::Usual
    }

    /// Returns true if the content of the next heartbeat has changed and other ranks need it now. Called in each turn of the driver's loop.
    fn has_urgent_change(&mut self, _at: &Moment) -> bool {
        false
    }

    /// Returns true if user code that the protocol calls itself (for example a sink), and whose calls have been short so far, may keep this
    /// rank from sending messages.
    fn is_interleaved(&self) -> bool {
        false
    }

    /// Does work of the protocol that is neither a message nor user code, in each turn of the driver's loop. Returns true if there was such work to
    /// do.
    fn on_turn(&mut self, _at: &Moment, _out: &mut Outgoing<'_>) -> Result<bool> {
        Ok(false)
    }

    /// Returns true if the rank has finished its part of the run although user code is still busy with a job whose result is not needed.
    fn is_dismissed(&self) -> bool {
        false
    }

    /// Returns true if the rank may poll without sleeping while it waits, because no other thread and no command of this rank computes.
    fn leaves_the_core(&self) -> bool {
        true
    }

    /// Returns true if the rank has no work until a message arrives (it is parked); it then sleeps longer between two polls.
    fn is_parked(&self) -> bool {
        false
    }

    fn heartbeat_state(&self) -> HeartbeatState;

    /// Adds work to `tally`, the counts and times of user-code calls for the event log: calls that the protocol has measured itself since
    /// the last call of this function, and the running commands.
    fn tally(&mut self, _now: Duration, _tally: &mut Tally) {}

    fn progress(&mut self) -> Option<Progress> {
        None
    }

    /// Returns true if rank 0 waits for results of other ranks. If no rank computes meanwhile, no result will ever arrive.
    fn awaits_results(&self) -> bool {
        false
    }
}

#[derive(Debug)]
pub(crate) enum Next<T> {
    Job(T),
    /// Wait for a message, a finished job of user code, or the next periodic work.
    Wait,
    /// Poll for messages again at once, because MPI makes progress on sends only in polls, or because a decision needs all messages that have
    /// arrived.
    PollAgain,
    Finished,
}

/// Time of an event on a rank, and the state of the rank's user code.
#[derive(Debug)]
pub(crate) struct Moment {
    clock: Clock,
    /// True if messages progress while user code runs, because user code runs on another thread or in a simulator. A thread that runs user
    /// code does not poll meanwhile, and MPI may transfer a large message only in polls.
    pub(crate) messages_progress: bool,
    /// True if user code ran on this thread after the last poll that found no message, so that a message may have arrived some time ago.
    pub(crate) computed_since_poll: bool,
    pub(crate) user_code: UserCodeState,
}

/// Thread that runs a rank's user code, and whether user code is idle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserCodeState {
    pub(crate) is_inline: bool,
    pub(crate) is_fixed: bool,
    pub(crate) is_idle: bool,
}

impl Moment {
    pub(super) fn new<'scope, C: UserCode + 'scope>(
        (clock, real_time): (Clock, bool),
        executor: &Executor<'scope, '_, C>,
        computed_since_poll: bool,
    ) -> Self {
        let (is_inline, is_fixed) = (executor.is_inline(), executor.is_fixed());
        let user_code = UserCodeState { is_inline, is_fixed, is_idle: executor.is_idle() };
        Moment { clock, messages_progress: !is_inline || !real_time, computed_since_poll, user_code }
    }

    #[cfg(test)]
    pub(crate) fn for_test() -> Self {
        let user_code = UserCodeState { is_inline: false, is_fixed: true, is_idle: true };
        Moment { clock: Clock::stopped(), messages_progress: true, computed_since_poll: false, user_code }
    }

    /// Returns the time by the rank's clock. The clock is read only on demand, because a reading costs as much as the rest of a turn of the
    /// driver's loop with calls of user code of a microsecond.
    #[inline]
    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Returns the processor time of the calling thread, to measure the cost of a decision.
    pub(crate) fn cpu(&self) -> Duration {
        self.clock.cpu()
    }
}

pub(crate) struct Outgoing<'e>(&'e mut Endpoint);

impl<'e> Outgoing<'e> {
    pub(crate) fn new(endpoint: &'e mut Endpoint) -> Self {
        Outgoing(endpoint)
    }

    /// Returns the number of the current run of a skeleton, with which every message begins.
    pub(crate) fn run(&self) -> u32 {
        self.0.run()
    }

    pub(crate) fn ranks(&self) -> usize {
        self.0.size()
    }

    #[inline]
    pub(crate) fn send(&mut self, to: usize, message: impl Encode) -> Result<()> {
        self.0.send_ready(to, message)
    }

    /// Returns true if all messages have been sent. MPI may transfer a large message only while sender and receiver poll.
    pub(crate) fn sends_done(&mut self) -> Result<bool> {
        self.0.transport().sends_done()
    }

    /// Returns the number of the last message that this rank has sent, as an argument of [`has_left`](Outgoing::has_left).
    pub(crate) fn last_sent(&mut self) -> u64 {
        self.0.transport().sends()
    }

    /// Returns true if the message with this number has been sent, so that its buffers are free.
    pub(crate) fn has_left(&mut self, number: u64) -> bool {
        self.0.transport().has_left(number)
    }

    pub(crate) fn endpoint(&mut self) -> &mut Endpoint {
        self.0
    }
}
