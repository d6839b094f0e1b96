//! The loop that runs a skeleton (farm, loop, pipeline or workflow) on a rank: each turn receives messages, fetches results of user code,
//! submits jobs to it, and waits.

use std::time::Duration;

use super::executor::Executor;
use super::heartbeat::{Heartbeat, HeartbeatState, Watch};
use super::protocol::{JobOf, Moment, Next, Outgoing, Protocol};
use super::user_code::UserCode;
use crate::balance::link_probe;
use crate::comm::Backoff;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::error::Result;
use crate::observe::{Display, Doing, Recorder};
use crate::session::{Config, Progress};

/// Maximum number of messages that a rank receives before it looks for results of user code. It is so large that looking for results costs little
/// compared with the messages.
pub(crate) const BURST: usize = 16;
/// Maximum number of calls of user code between two polls for messages, if a call takes less than a microsecond: a poll costs as much as
/// one such call.
const TINY_BURST: u32 = 8;
/// Longest sleep between two polls of a parked rank, which has no work until a message wakes it; therefore also the longest delay of its waking.
const PARKED_SLEEP: Duration = Duration::from_millis(20);

pub(crate) struct RankDriver<'scope, 'env, C: UserCode> {
    executor: Executor<'scope, 'env, C>,
    clock: Clock,
    /// True on a real machine. In a simulator, messages progress without polls and no rank can be silent, so the driver does not send heartbeats.
    real_time: bool,
    backoff: Backoff,
    /// True if the pauses between polls (`backoff`) are those of a parked rank, which has no work until it is woken.
    is_parked: bool,
    heartbeat: Heartbeat,
    /// `activity_count` counts the rank's started and ended jobs of user code, and the turns of its loop with other work. `last_change` holds the
    /// count and the time of the last heartbeat that reported a new count.
    activity_count: u64,
    last_change: (u64, Duration),
    display: Display,
    turns: u32,
    /// True if user code ran on this thread after the last poll that found no message.
    computed_since_poll: bool,
    recorder: Recorder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Busy,
    Idle,
    Finished,
}

impl<'scope, 'env, C: UserCode + 'scope> RankDriver<'scope, 'env, C> {
    /// Creates a driver. `name` names the skeleton in log messages, for example "the farm" in "has waited 10 s for rank 3 to reach the
    /// farm".
    pub(crate) fn new(
        endpoint: &mut Endpoint,
        executor: Executor<'scope, 'env, C>,
        config: &Config,
        name: &'static str,
    ) -> Self {
        RankDriver::of_kinds(endpoint, executor, config, name, vec![C::KIND.to_string()])
    }

    /// Creates a driver like [`new`](RankDriver::new), for user code whose calls have several `kinds` (names for the event log).
    pub(crate) fn of_kinds(
        endpoint: &mut Endpoint,
        executor: Executor<'scope, 'env, C>,
        config: &Config,
        name: &'static str,
        kinds: Vec<String>,
    ) -> Self {
        let begin = endpoint.clock().now();
        // Progress is not shown in a simulator, because the clock shows simulated time there.
        let is_shown = endpoint.rank() == 0 && endpoint.capabilities().real_time;
        let progress = if is_shown { config.progress } else { Progress::Off };
        RankDriver {
            heartbeat: Heartbeat::new(endpoint, config, name),
            activity_count: 0,
            last_change: (0, begin),
            display: Display::new(progress, begin, endpoint.unreported_progress),
            clock: endpoint.clock(),
            real_time: endpoint.capabilities().real_time,
            backoff: endpoint.backoff(),
            is_parked: false,
            turns: 0,
            computed_since_poll: true,
            recorder: Recorder::begin(endpoint, config.events.as_deref(), name, kinds, executor.tally()),
            executor,
        }
    }

    /// Runs `protocol` until it has finished. Returns the user code and the time of the end.
    ///
    /// # Errors
    /// The first error of user code, of the transport or of the protocol, with the number of this rank; the death or silence of a rank that the
    /// job needs.
    pub(crate) fn run<P: Protocol<Code = C>>(
        mut self,
        endpoint: &mut Endpoint,
        protocol: &mut P,
    ) -> Result<(C, Moment)> {
        self.run_until_finished(endpoint, protocol)?;
        let end = self.moment();
        Ok((self.finish()?, end))
    }

    /// Runs `protocol` like [`run`](RankDriver::run), but does not wait for user code that is still busy; [`finish`](RankDriver::finish) does.
    pub(crate) fn run_until_finished<P: Protocol<Code = C>>(
        &mut self,
        endpoint: &mut Endpoint,
        protocol: &mut P,
    ) -> Result<()> {
        let rank = endpoint.rank();
        self.begin(endpoint, protocol)
            .and_then(|()| self.run_turns(endpoint, protocol))
            .map_err(|error| error.at_rank(rank))?;
        if rank == 0 {
            record_done(endpoint, protocol);
        }
        let doing = self.doing();
        self.record(endpoint, protocol, doing);
        self.recorder.record_sent(endpoint);
        endpoint.unreported_progress = self.display.unreported_progress(self.clock.now());
        Ok(())
    }

    fn doing(&self) -> Doing {
        if self.executor.leaves_the_core() { Doing::Communicating } else { Doing::Computing }
    }

    fn heartbeat_state<P: Protocol<Code = C>>(&mut self, protocol: &P, now: Duration) -> HeartbeatState {
        if self.last_change.0 != self.activity_count {
            self.last_change = (self.activity_count, now);
        }
        HeartbeatState { unchanged_for: now.saturating_sub(self.last_change.1), ..protocol.heartbeat_state() }
            .or_computes(!self.executor.is_idle())
    }

    fn record<P: Protocol<Code = C>>(&mut self, endpoint: &Endpoint, protocol: &mut P, doing: Doing) {
        if self.recorder.is_on() {
            let (now, thread) = (self.clock.now(), self.executor.thread_id());
            self.recorder.record_activity(now, doing, endpoint, thread, |tally| protocol.tally(now, tally));
        }
    }

    /// Limits the interval of heartbeats so that this rank is never silent for as long as `limit`.
    pub(crate) fn with_heartbeats_within(mut self, limit: Duration) -> Self {
        self.heartbeat.hurry(limit);
        self
    }

    pub(crate) fn submit(&mut self, job: C::Job) -> Result<()> {
        self.executor.submit(job)
    }

    pub(crate) fn finish(mut self) -> Result<C> {
        self.recorder.end();
        self.executor.finish()
    }

    /// Begins a protocol whose jobs of user code the caller runs on this thread, between calls of [`step`](RankDriver::step).
    ///
    /// # Errors
    /// The errors of [`run`](RankDriver::run), without the number of this rank.
    pub(crate) fn begin<P: Protocol<Code = C>>(
        &mut self,
        endpoint: &mut Endpoint,
        protocol: &mut P,
    ) -> Result<()> {
        protocol.start(&self.moment(), &mut Outgoing::new(endpoint))
    }

    /// Continues until `protocol` has a job of user code for the caller or has finished. `done` is the result of the job that the caller has
    /// just run. Returns the user code, in which the caller finds the next job.
    ///
    /// # Errors
    /// The errors of [`run`](RankDriver::run), without the rank.
    pub(crate) fn step<P: Protocol<Code = C>>(
        &mut self,
        endpoint: &mut Endpoint,
        protocol: &mut P,
        done: Option<C::Done>,
    ) -> Result<Option<&mut C>> {
        if let Some(done) = done {
            self.executor.answer(done);
            self.computed_since_poll = true;
        }
        self.turns += 1;
        if self.turns >= P::TURNS_PER_TICK {
            self.tick(endpoint, protocol)?;
        }
        self.run_turns(endpoint, protocol)?;
        Ok(self.executor.inline())
    }

    fn run_turns<P: Protocol<Code = C>>(&mut self, endpoint: &mut Endpoint, protocol: &mut P) -> Result<()> {
        loop {
            match self.turn(endpoint, protocol)? {
                Turn::Busy => {
                    self.backoff.reset();
                    self.turns += 1;
                    if self.turns >= P::TURNS_PER_TICK {
                        self.tick(endpoint, protocol)?;
                    }
                }
                Turn::Idle => {
                    if self.executor.is_idle() {
                        protocol.on_idle(&self.moment());
                    }
                    // A new job cannot start while user code has no room for it.
                    if !self.tick(endpoint, protocol)? || !self.executor.has_room() {
                        self.wait(endpoint, protocol)?;
                    }
                }
                Turn::Finished => return Ok(()),
            }
        }
    }

    fn moment(&self) -> Moment {
        Moment::new((self.clock, self.real_time), &self.executor, self.computed_since_poll)
    }

    fn turn<P: Protocol<Code = C>>(&mut self, endpoint: &mut Endpoint, protocol: &mut P) -> Result<Turn> {
        let mut turn = Turn::Idle;
        if P::DONE_BEFORE_MESSAGES && self.take_done(endpoint, protocol)? {
            turn = Turn::Busy;
        }
        let burst = if self.executor.is_inline() { P::MESSAGES_BETWEEN_JOBS } else { BURST };
        for _ in 0..burst {
            let Some(message) = endpoint.poll()? else {
                self.computed_since_poll = false;
                break;
            };
            turn = Turn::Busy;
            let (at, from) = (self.moment(), message.from);
            match self.heartbeat.take(&message)? {
                Some(heartbeat_state) => {
                    protocol.on_heartbeat(from, heartbeat_state, &mut Outgoing::new(endpoint))?
                }
                None if link_probe::answer(&message, endpoint)? => {}
                None => protocol.on_message(message, &at, &mut Outgoing::new(endpoint))?,
            }
        }
        match self.work(endpoint, protocol)? {
            _ if protocol.is_dismissed() => Ok(Turn::Finished),
            Turn::Idle => Ok(turn),
            work => Ok(work),
        }
    }

    fn take_done<P: Protocol<Code = C>>(
        &mut self,
        endpoint: &mut Endpoint,
        protocol: &mut P,
    ) -> Result<bool> {
        let mut has_done = false;
        if self.doing() == Doing::Computing {
            self.record(endpoint, protocol, Doing::Computing);
        }
        while let Some(done) = self.executor.fetch()? {
            has_done = true;
            self.activity_count += 1;
            let at = self.moment();
            protocol.on_done(done, &at, &mut Outgoing::new(endpoint))?;
        }
        Ok(has_done)
    }

    fn work<P: Protocol<Code = C>>(&mut self, endpoint: &mut Endpoint, protocol: &mut P) -> Result<Turn> {
        let mut turn = Turn::Idle;
        let (mut tiny, mut has_turned) = (0, false);
        loop {
            if self.take_done(endpoint, protocol)? {
                turn = Turn::Busy;
            }
            if !std::mem::replace(&mut has_turned, true) {
                let at = self.moment();
                if protocol.on_turn(&at, &mut Outgoing::new(endpoint))? {
                    turn = Turn::Busy;
                    self.activity_count += 1;
                }
                let is_interleaved = self.executor.is_interleaved() || protocol.is_interleaved();
                if self.heartbeat.replace_interleaved(is_interleaved) | protocol.has_urgent_change(&at) {
                    let mine = self.heartbeat_state(protocol, at.now());
                    self.heartbeat.send(endpoint, &mine, &|rank| protocol.watch(rank))?;
                }
            }
            if !self.executor.has_room() || self.executor.wants_pause() || tiny == TINY_BURST {
                return Ok(turn);
            }
            let at = self.moment();
            let job: JobOf<P> = match protocol.next(&at, &mut Outgoing::new(endpoint))? {
                Next::Job(job) => job,
                Next::Wait => return Ok(turn),
                Next::PollAgain => return Ok(Turn::Busy),
                Next::Finished => return Ok(Turn::Finished),
            };
            self.submit(job)?;
            turn = Turn::Busy;
            self.activity_count += 1;
            self.computed_since_poll |= self.executor.is_inline();
            if self.executor.is_inline() && protocol.may_skip_poll() {
                continue;
            } else if self.executor.is_tiny() {
                tiny += 1;
            } else if self.executor.is_inline() {
                // The job of user code may have been long, so the periodic work is due now: other ranks may be waiting for a heartbeat of this rank.
                self.turns = P::TURNS_PER_TICK;
                // The result of the job of user code is fetched in the next turn of the loop, after a poll for messages.
                return Ok(turn);
            }
        }
    }

    fn tick<P: Protocol<Code = C>>(&mut self, endpoint: &mut Endpoint, protocol: &mut P) -> Result<bool> {
        self.turns = 0;
        self.record(endpoint, protocol, self.doing());
        let (now, at) = (self.clock.now(), self.moment());
        let has_task = protocol.on_tick(now, &at, &mut Outgoing::new(endpoint))?;
        if endpoint.rank() == 0 {
            self.recorder.record_progress(now, || protocol.progress());
            if endpoint.is_done_due(now) {
                record_done(endpoint, protocol);
            }
        }
        // Ranks in a simulator send no heartbeats, because the simulator detects deadlocks itself.
        if !self.real_time {
            return Ok(has_task);
        }
        endpoint.record_poll(now);
        if endpoint.is_stop_requested(now)? && endpoint.rank() == 0 {
            protocol.on_stop(&at, &mut Outgoing::new(endpoint))?;
        }
        if self.display.is_due(now) {
            self.display.show(now, || protocol.progress());
        }
        if !self.heartbeat.is_due(now) {
            return Ok(has_task);
        }
        let mine = (self.heartbeat_state(protocol, now), protocol.awaits_results());
        let watch: Vec<Watch> = (0..endpoint.size()).map(|rank| protocol.watch(rank)).collect();
        self.heartbeat.beat(endpoint, mine, &|rank| watch[rank], now, &mut |endpoint, silence| {
            protocol.on_lost(silence, &mut Outgoing::new(endpoint))
        })?;
        Ok(has_task)
    }

    /// Waits until a message or the compute thread wakes the rank, or until its sleep has ended.
    ///
    /// If user code has a compute thread, the communicating thread sleeps between polls instead of spinning, even while the compute thread is idle. A
    /// call of user code on a compute thread takes a millisecond or more, so the time of a wake-up is small in comparison. A spinning thread would
    /// keep compute threads from waking up on its core, also those of other ranks: a pipeline of one item on two ranks would take twice as long.
    /// While a call runs, the first sleep is longer, because this rank has requested its input in advance and rarely needs a message during the call.
    fn wait<P: Protocol<Code = C>>(&mut self, endpoint: &mut Endpoint, protocol: &mut P) -> Result<()> {
        if protocol.is_parked() != self.is_parked {
            self.is_parked = !self.is_parked;
            self.backoff = match self.is_parked {
                true => Backoff::new(Duration::ZERO, PARKED_SLEEP),
                false => endpoint.backoff(),
            };
        }
        let leaves_the_core = protocol.leaves_the_core() && self.executor.leaves_the_core();
        self.backoff.may_spin(leaves_the_core && (P::ANSWERS_SOON || self.executor.is_inline()));
        self.backoff.other_thread_computes(!P::ANSWERS_SOON && !leaves_the_core);
        let doing = self.doing();
        self.record(endpoint, protocol, doing);
        match self.executor.pause(P::POLLS_PER_SIMULATED_JOB) {
            Some(pause) => endpoint.transport().wait(Some(pause))?,
            None => self.backoff.wait(endpoint.transport(), self.clock)?,
        }
        let waited = if self.is_parked { Doing::Parked } else { Doing::Waiting };
        self.record(endpoint, protocol, if doing == Doing::Computing { doing } else { waited });
        Ok(())
    }
}

fn record_done<P: Protocol>(endpoint: &mut Endpoint, protocol: &mut P) {
    if let Some(progress) = protocol.progress() {
        endpoint.record_done(progress.done);
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
