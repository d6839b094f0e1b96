//! A skeleton's part on one rank, as the [driver](super::driver) sees it: messages, results and time go in, messages and jobs
//! come out.

use std::time::Duration;

use super::executor::Executor;
use super::heartbeat::{Sign, Silence, Watch};
use super::user_code::UserCode;
use crate::comm::Frame;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::Message;
use crate::error::Result;
use crate::observe::{Progress, Tally};

/// What user code is asked.
pub(crate) type Task<P> = <<P as Protocol>::Code as UserCode>::Task;
/// What user code answers.
pub(crate) type Outcome<P> = <<P as Protocol>::Code as UserCode>::Outcome;

/// [`Protocol::LOOKS_PER_SIMULATED_JOB`] where others wait for answers: they wait by less than two hundredths of a job.
pub(crate) const FREQUENT_LOOKS: u32 = 64;

/// A skeleton's part on one rank. It has no thread and no transport, and reads no clock: the time of an event comes with it.
///
/// What a method sends has left when it returns. An error ends the job; the driver adds the rank.
pub(crate) trait Protocol: Sized {
    /// The user code of the rank.
    type Code: UserCode;

    /// Under the simulator: looks at the messages while a job runs. With n, a message waits for at most one n-th of the time
    /// that the job has taken so far. 1 where messages need no answer before the job is done; looks that are more frequent only make the simulation slow.
    const LOOKS_PER_SIMULATED_JOB: u32 = 1;

    /// Messages taken in between two jobs where user code runs inline: one, so that the others can go on as soon as it has been
    /// answered. More for the sake of decisions by what many ranks say.
    const MESSAGES_BETWEEN_JOBS: usize = 1;

    /// Turns between two ticks while there is work: reading the clock costs a part of a turn with tiny jobs, and 256 turns
    /// with those last about a millisecond. Fewer where turns may be long.
    const TURNS_PER_TICK: u32 = 256;

    /// Whether what user code has done is looked at before messages, which would have to wait for what it brings back.
    const OUTCOMES_BEFORE_MESSAGES: bool = false;

    /// Whether others wait for what this rank says while it has nothing to compute: then it waits busily at first also where user
    /// code has a thread, and its sleeps beside that are short.
    const ANSWERS_SOON: bool = false;

    /// The rank begins.
    fn start(&mut self, _at: &Moment, _out: &mut Outgoing<'_>) -> Result<()> {
        Ok(())
    }

    /// A message of the skeleton has come.
    fn on_message(&mut self, message: Message, at: &Moment, out: &mut Outgoing<'_>) -> Result<()>;

    /// User code has done something.
    fn on_done(&mut self, done: Outcome<Self>, at: &Moment, out: &mut Outgoing<'_>) -> Result<()>;

    /// Some time has passed, it is `now`: before each wait, and now and then while there is work. What is due is done here. Returns
    /// whether user code is to do something now for which [`next`](Protocol::next) would otherwise be asked only after the wait.
    fn on_tick(&mut self, _now: Duration, _at: &Moment, _out: &mut Outgoing<'_>) -> Result<bool> {
        Ok(false)
    }

    /// Nothing can be computed, and nothing is being computed. Called before each wait.
    fn on_idle(&mut self, _at: &Moment) {}

    /// A rank has given a sign of life.
    fn on_sign(&mut self, _from: usize, _sign: &Sign, _out: &mut Outgoing<'_>) -> Result<()> {
        Ok(())
    }

    /// A rank has died, or is silent for too long. Where the job goes on without it this returns without an error; it is put here
    /// again, unless [`watch`](Protocol::watch) says that it is not watched any more, or the endpoint that it is lost.
    fn on_lost(&mut self, silence: Silence, _out: &mut Outgoing<'_>) -> Result<()> {
        Err(silence.error)
    }

    /// What comes next. Asked only when user code has room for another task.
    fn next(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<Next<Task<Self>>>;

    /// Whether the next job may follow without a look at the messages, where user code runs inline: for jobs that are short beside a
    /// look, as long as nobody waits for an answer.
    fn goes_on(&self) -> bool {
        false
    }

    /// How the rank looks after this other one. Ranks that have done their part may be in the caller's code.
    fn watch(&self, _rank: usize) -> Watch {
        Watch::Usual
    }

    /// Whether the others are to have a sign of life now, and not when one is due: what it says has changed. Asked in each turn.
    fn has_news(&mut self, _at: &Moment) -> bool {
        false
    }

    /// Whether other user code than that of the driver keeps the rank from communicating for now, because it has been short so far.
    fn is_interleaved(&self) -> bool {
        false
    }

    /// Called in each turn, once messages and outcomes are taken in: what is done beside user code. Returns whether there was anything.
    fn on_turn(&mut self, _at: &Moment, _out: &mut Outgoing<'_>) -> Result<bool> {
        Ok(false)
    }

    /// Whether the rank has done its part although user code is not done with what it has, which nobody wants any more.
    fn is_dismissed(&self) -> bool {
        false
    }

    /// Whether nothing else of the rank computes, no thread but that of its user code and no command: then it may wait busily.
    fn leaves_the_core(&self) -> bool {
        true
    }

    /// Whether the rank is not needed for now: it sleeps for longer between two looks at its messages.
    fn is_parked(&self) -> bool {
        false
    }

    /// What the rank does, for the others.
    fn sign(&self) -> Sign;

    /// Adds to `tally` the work that was measured beside user code's answers since the last call, and commands that are running.
    fn tally(&mut self, _now: Duration, _tally: &mut Tally) {}

    /// Rank 0: how far the run is, if it knows. Asked when that is to be shown.
    fn progress(&mut self) -> Option<Progress> {
        None
    }

    /// Rank 0: whether it waits for what others compute. If no rank computes anything meanwhile, none ever will.
    fn is_held_up(&self) -> bool {
        false
    }
}

/// What comes next on a rank.
#[derive(Debug)]
pub(crate) enum Next<T> {
    /// User code is to do this.
    Task(T),
    /// Nothing before a message comes, user code is done with what it has, or time has passed.
    Wait,
    /// Nothing before another look at the messages, which is to follow at once: what was sent leaves by looks, or all that has come
    /// is to be known first.
    LookAgain,
    /// The rank has done its part.
    Finished,
}

/// When something happens on a rank, and how the rank stands then.
#[derive(Debug)]
pub(crate) struct Moment {
    clock: Clock,
    /// Whether the thread that communicates goes on to look for messages, because user code runs elsewhere. One that computes
    /// itself does not look after a large message, which MPI may carry on only then.
    pub(crate) looks_after_messages: bool,
    /// Whether what is found now may have been here for a while: the thread has computed since it last found nothing.
    pub(crate) is_late: bool,
    /// Where user code runs.
    pub(crate) user_code: Place,
}

/// Where the user code of a rank runs, and whether it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// On the thread that communicates.
    pub(crate) is_inline: bool,
    /// It stays there, however long jobs take.
    pub(crate) is_fixed: bool,
    /// It has nothing to do.
    pub(crate) is_idle: bool,
}

impl Moment {
    pub(super) fn new<'scope, C: UserCode + 'scope>(
        (clock, real_time): (Clock, bool),
        executor: &Executor<'scope, '_, C>,
        is_late: bool,
    ) -> Self {
        let (is_inline, is_fixed) = (executor.is_inline(), executor.is_fixed());
        let user_code = Place { is_inline, is_fixed, is_idle: executor.is_idle() };
        Moment { clock, looks_after_messages: !is_inline || !real_time, is_late, user_code }
    }

    /// The time by the rank's clock, which is read only by those who need it: for jobs of a microsecond that costs as much as
    /// everything else.
    #[inline]
    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// What the calling thread has computed so far, to know what a decision costs.
    pub(crate) fn cpu(&self) -> Duration {
        self.clock.cpu()
    }
}

/// Where a protocol's messages go: at once to their receiver.
pub(crate) struct Outgoing<'e>(&'e mut Endpoint);

impl<'e> Outgoing<'e> {
    pub(crate) fn new(endpoint: &'e mut Endpoint) -> Self {
        Outgoing(endpoint)
    }

    /// The number of the run, with which every message begins.
    pub(crate) fn run(&self) -> u32 {
        self.0.run()
    }

    /// How many ranks there are.
    pub(crate) fn ranks(&self) -> usize {
        self.0.size()
    }

    /// Sends a message that begins with its header.
    #[inline]
    pub(crate) fn send(&mut self, to: usize, frame: Frame) -> Result<()> {
        self.0.send_ready(to, frame)
    }

    /// Whether all that was sent has left. MPI may pass a large message on only as far as both sides look.
    pub(crate) fn sends_done(&mut self) -> Result<bool> {
        self.0.transport().sends_done()
    }

    /// The number of what was sent last, by which to ask whether it [has left](Outgoing::has_left).
    pub(crate) fn last_sent(&mut self) -> u64 {
        self.0.transport().sends()
    }

    /// Whether what was sent as this number is out of memory.
    pub(crate) fn has_left(&mut self, number: u64) -> bool {
        self.0.transport().has_left(number)
    }

    /// The rank's end of the communicator, for what it knows of the other ranks' processes.
    pub(crate) fn endpoint(&mut self) -> &mut Endpoint {
        self.0
    }
}
