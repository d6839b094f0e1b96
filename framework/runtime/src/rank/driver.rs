//! The loop of a rank: messages in, results in, tasks out, and what a rank does while there is nothing of these.

use std::time::Duration;

use super::executor::Executor;
use super::heartbeat::{Heartbeat, Sign, Watch};
use super::protocol::{Moment, Next, Outgoing, Protocol, Task};
use super::user_code::UserCode;
use crate::balance::link_probe;
use crate::comm::Backoff;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::error::Result;
use crate::observe::{Display, Doing, Recorder};
use crate::session::{Config, Progress};

/// Messages taken in before the rank looks at its own work again: enough that the look costs little beside them.
pub(crate) const BURST: usize = 16;
/// Jobs of less than a microsecond done inline before the rank looks at its messages: a look costs as much as such a job.
const TINY_BURST: u32 = 8;
/// How long a parked rank sleeps before it looks at its messages: it is woken that much later.
const PARKED_SLEEP: Duration = Duration::from_millis(20);

/// Runs a [`Protocol`] on a rank.
pub(crate) struct Driver<'scope, 'env, C: UserCode> {
    executor: Executor<'scope, 'env, C>,
    clock: Clock,
    /// Whether time passes by itself; in a simulator messages leave by themselves, and nobody is silent.
    real_time: bool,
    backoff: Backoff,
    /// It waits as a parked rank does.
    is_parked: bool,
    heartbeat: Heartbeat,
    /// Jobs begun and ended, and turns in which something else was done; the number that a sign of life told last, and since when.
    moves: u64,
    steady: (u64, Duration),
    display: Display,
    turns: u32,
    /// Whether anything was computed on this thread since it last looked for messages and found none.
    is_late: bool,
    recorder: Recorder,
}

/// What came of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Busy,
    Idle,
    Finished,
}

impl<'scope, 'env, C: UserCode + 'scope> Driver<'scope, 'env, C> {
    /// `name` is what ranks come to, in words that follow "has waited 10 s for rank 3 to come to".
    pub(crate) fn new(
        endpoint: &mut Endpoint,
        executor: Executor<'scope, 'env, C>,
        config: &Config,
        name: &'static str,
    ) -> Self {
        Driver::of_kinds(endpoint, executor, config, name, vec![C::KIND.to_string()])
    }

    /// The same where user code does several `kinds` of things, for the log of events.
    pub(crate) fn of_kinds(
        endpoint: &mut Endpoint,
        executor: Executor<'scope, 'env, C>,
        config: &Config,
        name: &'static str,
        kinds: Vec<String>,
    ) -> Self {
        let begin = endpoint.clock().now();
        // A simulator has a time of its own, at which nobody looks.
        let is_shown = endpoint.rank() == 0 && endpoint.capabilities().real_time;
        let progress = if is_shown { config.progress } else { Progress::Off };
        Driver {
            heartbeat: Heartbeat::new(endpoint, config, name),
            moves: 0,
            steady: (0, begin),
            display: Display::new(progress, begin, endpoint.untold),
            clock: endpoint.clock(),
            real_time: endpoint.capabilities().real_time,
            backoff: endpoint.backoff(),
            is_parked: false,
            turns: 0,
            is_late: true,
            recorder: Recorder::begin(endpoint, config.events.as_deref(), name, kinds, executor.tally()),
            executor,
        }
    }

    /// Runs `protocol` until it has finished. Returns the user code, and when that was.
    ///
    /// # Errors
    /// The first one of user code, of the transport or of the protocol, with the rank; a needed rank has died or is silent for too long.
    pub(crate) fn run<P: Protocol<Code = C>>(
        mut self,
        endpoint: &mut Endpoint,
        protocol: &mut P,
    ) -> Result<(C, Moment)> {
        self.run_until_finished(endpoint, protocol)?;
        let end = self.moment();
        Ok((self.finish()?, end))
    }

    /// As [`run`](Driver::run), but does not wait for user code that is still busy: [`finish`](Driver::finish) does.
    pub(crate) fn run_until_finished<P: Protocol<Code = C>>(
        &mut self,
        endpoint: &mut Endpoint,
        protocol: &mut P,
    ) -> Result<()> {
        let rank = endpoint.rank();
        self.begin(endpoint, protocol)
            .and_then(|()| self.go_on(endpoint, protocol))
            .map_err(|error| error.at_rank(rank))?;
        if rank == 0 {
            note_done(endpoint, protocol);
        }
        let doing = self.doing();
        self.record(endpoint, protocol, doing);
        self.recorder.note_sent(endpoint);
        endpoint.untold = self.display.untold(self.clock.now());
        Ok(())
    }

    /// What the rank does that does not wait.
    fn doing(&self) -> Doing {
        if self.executor.leaves_the_core() { Doing::Communicating } else { Doing::Computing }
    }

    /// What the rank says of itself now.
    fn sign<P: Protocol<Code = C>>(&mut self, protocol: &P, now: Duration) -> Sign {
        if self.steady.0 != self.moves {
            self.steady = (self.moves, now);
        }
        Sign { steady: now.saturating_sub(self.steady.1), ..protocol.sign() }
            .or_computes(!self.executor.is_idle())
    }

    /// The time since the last call is accounted for, if there is a log of events.
    fn record<P: Protocol<Code = C>>(&mut self, endpoint: &Endpoint, protocol: &mut P, doing: Doing) {
        if self.recorder.is_on() {
            let (now, thread) = (self.clock.now(), self.executor.thread_id());
            self.recorder.mark(now, doing, endpoint, thread, |tally| protocol.tally(now, tally));
        }
    }

    /// Signs of life are given often enough for ranks that wait for so long.
    pub(crate) fn with_signs_within(mut self, limit: Duration) -> Self {
        self.heartbeat.hurry(limit);
        self
    }

    /// Hands a task over: by the caller before the protocol begins.
    pub(crate) fn submit(&mut self, task: C::Task) -> Result<()> {
        self.executor.submit(task)
    }

    /// Returns the user code, once it is done with what it has.
    pub(crate) fn finish(mut self) -> Result<C> {
        self.recorder.end();
        self.executor.finish()
    }

    /// Begins with a protocol whose jobs the caller does itself, on this thread; [`step`](Driver::step) follows.
    ///
    /// # Errors
    /// As [`run`](Driver::run), without the rank.
    pub(crate) fn begin<P: Protocol<Code = C>>(
        &mut self,
        endpoint: &mut Endpoint,
        protocol: &mut P,
    ) -> Result<()> {
        protocol.start(&self.moment(), &mut Outgoing::new(endpoint))
    }

    /// Goes on, when what user code was asked last has been `done` by the caller, until `protocol` says that it has finished: a
    /// protocol whose jobs the caller does says so when there is one, too. Returns the user code, which has noted the job.
    ///
    /// # Errors
    /// As [`run`](Driver::run), without the rank.
    pub(crate) fn step<P: Protocol<Code = C>>(
        &mut self,
        endpoint: &mut Endpoint,
        protocol: &mut P,
        done: Option<C::Outcome>,
    ) -> Result<Option<&mut C>> {
        if let Some(done) = done {
            self.executor.answer(done);
            self.is_late = true;
        }
        self.turns += 1;
        if self.turns >= P::TURNS_PER_TICK {
            self.tick(endpoint, protocol)?;
        }
        self.go_on(endpoint, protocol)?;
        Ok(self.executor.inline())
    }

    fn go_on<P: Protocol<Code = C>>(&mut self, endpoint: &mut Endpoint, protocol: &mut P) -> Result<()> {
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
                    if !self.tick(endpoint, protocol)? {
                        self.wait(endpoint, protocol)?;
                    }
                }
                Turn::Finished => return Ok(()),
            }
        }
    }

    fn moment(&self) -> Moment {
        Moment::new((self.clock, self.real_time), &self.executor, self.is_late)
    }

    /// Takes in what has come, and starts what can be started.
    fn turn<P: Protocol<Code = C>>(&mut self, endpoint: &mut Endpoint, protocol: &mut P) -> Result<Turn> {
        let mut turn = Turn::Idle;
        if P::OUTCOMES_BEFORE_MESSAGES && self.take_outcomes(endpoint, protocol)? {
            turn = Turn::Busy;
        }
        let burst = if self.executor.is_inline() { P::MESSAGES_BETWEEN_JOBS } else { BURST };
        for _ in 0..burst {
            let Some(message) = endpoint.poll()? else {
                self.is_late = false;
                break;
            };
            turn = Turn::Busy;
            let (at, from) = (self.moment(), message.from);
            match self.heartbeat.take(&message)? {
                Some(sign) => protocol.on_sign(from, sign, &mut Outgoing::new(endpoint))?,
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

    /// Fetches what user code has done. Returns whether it has done anything.
    fn take_outcomes<P: Protocol<Code = C>>(
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
            self.moves += 1;
            let at = self.moment();
            protocol.on_done(done, &at, &mut Outgoing::new(endpoint))?;
        }
        Ok(has_done)
    }

    /// Fetches what user code has done, and hands over what comes next.
    fn work<P: Protocol<Code = C>>(&mut self, endpoint: &mut Endpoint, protocol: &mut P) -> Result<Turn> {
        let mut turn = Turn::Idle;
        let (mut tiny, mut has_turned) = (0, false);
        loop {
            if self.take_outcomes(endpoint, protocol)? {
                turn = Turn::Busy;
            }
            if !std::mem::replace(&mut has_turned, true) {
                let at = self.moment();
                if protocol.on_turn(&at, &mut Outgoing::new(endpoint))? {
                    turn = Turn::Busy;
                    self.moves += 1;
                }
                let is_interleaved = self.executor.is_interleaved() || protocol.is_interleaved();
                if self.heartbeat.is_news(is_interleaved) | protocol.has_news(&at) {
                    let mine = self.sign(protocol, at.now());
                    self.heartbeat.give(endpoint, &mine, &|rank| protocol.watch(rank))?;
                }
            }
            if !self.executor.has_room() || self.executor.wants_pause() || tiny == TINY_BURST {
                return Ok(turn);
            }
            let at = self.moment();
            let task: Task<P> = match protocol.next(&at, &mut Outgoing::new(endpoint))? {
                Next::Task(task) => task,
                Next::Wait => return Ok(turn),
                Next::LookAgain => return Ok(Turn::Busy),
                Next::Finished => return Ok(Turn::Finished),
            };
            self.submit(task)?;
            turn = Turn::Busy;
            self.moves += 1;
            self.is_late |= self.executor.is_inline();
            if self.executor.is_inline() && protocol.goes_on() {
                continue;
            } else if self.executor.is_tiny() {
                tiny += 1;
            } else if self.executor.is_inline() {
                // Nobody knows how long it took, so that the others may have waited for a sign of life.
                self.turns = P::TURNS_PER_TICK;
                // Its result is fetched in the next turn, after a look at the messages.
                return Ok(turn);
            }
        }
    }

    /// What has to happen now and then. Returns whether there is something to compute now.
    fn tick<P: Protocol<Code = C>>(&mut self, endpoint: &mut Endpoint, protocol: &mut P) -> Result<bool> {
        self.turns = 0;
        self.record(endpoint, protocol, self.doing());
        let (now, at) = (self.clock.now(), self.moment());
        let has_task = protocol.on_tick(now, &at, &mut Outgoing::new(endpoint))?;
        if endpoint.rank() == 0 {
            self.recorder.note_progress(now, || protocol.progress());
            if endpoint.is_done_due(now) {
                note_done(endpoint, protocol);
            }
        }
        // The simulator finds its own deadlocks.
        if !self.real_time {
            return Ok(has_task);
        }
        endpoint.look(now);
        if self.display.is_due(now) {
            self.display.show(now, || protocol.progress());
        }
        if !self.heartbeat.is_due(now) {
            return Ok(has_task);
        }
        let mine = (self.sign(protocol, now), protocol.is_held_up());
        let watch: Vec<Watch> = (0..endpoint.size()).map(|rank| protocol.watch(rank)).collect();
        self.heartbeat.beat(endpoint, mine, &|rank| watch[rank], now, &mut |endpoint, silence| {
            protocol.on_lost(silence, &mut Outgoing::new(endpoint))
        })?;
        Ok(has_task)
    }

    /// Waits a little, or until a message or the compute thread wakes the rank.
    ///
    /// A thread that only communicates leaves the core to the one that computes, and sleeps also while that one rests: whom
    /// others wait for has short jobs, done inline, or jobs of a millisecond or more, beside which a wake-up is little. And a rank
    /// that waits busily keeps the others' compute threads from waking up on its core: on two ranks, a pipeline of one item
    /// then takes twice as long. Beside a job its first sleep is longer, too: what comes meanwhile is seldom what its own rank
    /// waits for, and the others have asked for theirs ahead of time.
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
        self.backoff.is_beside_work(!P::ANSWERS_SOON && !leaves_the_core);
        let doing = self.doing();
        self.record(endpoint, protocol, doing);
        match self.executor.pause(P::LOOKS_PER_SIMULATED_JOB) {
            Some(pause) => endpoint.transport().wait(Some(pause))?,
            None => self.backoff.wait(endpoint.transport(), self.clock)?,
        }
        let waited = if self.is_parked { Doing::Parked } else { Doing::Waiting };
        self.record(endpoint, protocol, if doing == Doing::Computing { doing } else { waited });
        Ok(())
    }
}

/// Notes in the job status how much of the run is completed.
fn note_done<P: Protocol>(endpoint: &mut Endpoint, protocol: &mut P) {
    if let Some(progress) = protocol.progress() {
        endpoint.note_done(progress.done);
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
