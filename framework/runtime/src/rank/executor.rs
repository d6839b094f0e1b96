//! Runs user code, on the thread that communicates or on a compute thread.
//!
//! A rank starts with a compute thread, so that it can answer messages while user code is set up, which may take long. User code moves to the
//! communicating thread when its calls become so short that passing them to another thread costs more than the calls, and back when calls become
//! long.
//!
//! In the simulator a rank has only one thread. User code then runs on that thread, but its declared time passes concurrently with
//! communication, as on a real rank with a compute thread.

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use super::mailbox::{Disconnected, Receiving, Sending, mailbox};
use super::user_code::UserCode;
use crate::comm::Waker;
use crate::comm::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::SharedTally;
use crate::session::{Driver, name_rank};
use crate::user_code;

/// Hysteresis between the two threads that may run user code: user code moves from the compute thread to the communicating thread when the mean
/// time of a call is below `THREADED_ABOVE / GAP`. With `GAP` = 1, calls of varying length would move user code back and forth.
const GAP: u32 = 5;
/// Minimum number of calls of user code before it moves to another thread. One call is not enough, because the first one may have to fill caches. Each
/// short call on the compute thread costs two wake-ups: with 16 calls, a loop of 1,000 steps of 1 µs would take 1.3 times as long.
const JOBS_BEFORE_CHANGE: u32 = 4;
/// Minimum number of calls of user code before several calls follow each other without a poll for messages. The decayed mean of their times covers about
/// the last eight calls, so that it is certain by then that calls are tiny.
const JOBS_BEFORE_BURST: u32 = 16;
/// Jobs of user code that take less than this time are queued two at a time on the compute thread, so that the thread does not wait for the next
/// job. Longer jobs are not queued, because another rank might run them sooner.
pub(crate) const SHORT: Duration = Duration::from_micros(500);

/// Duration below which a call of user code costs less than one poll for messages.
const TINY: Duration = Duration::from_micros(1);

pub(crate) struct Executor<'scope, 'env, W: UserCode> {
    /// Scope (`std::thread::scope`) in which the compute thread is started; `None` if user code always runs on the communicating thread.
    scope: Option<&'scope Scope<'scope, 'env>>,
    rank: usize,
    choice: Driver,
    is_inline_by_choice: bool,
    waker: Waker,
    state: State<'scope, W>,
    /// True if the first job has to start the compute thread, because the time of a job is still unknown.
    is_new: bool,
    ready: Option<Result<W::Done>>,
    /// Timing of user code in a simulator, which has no second thread; `None` on a real machine, or if the user has chosen [`Driver::Inline`].
    simulated: Option<SimulatedThread>,
    outstanding: usize,
    mean: Duration,
    jobs: u32,
    /// System thread id of the compute thread; 0 until the thread has started.
    thread_id: Arc<AtomicI32>,
    work_log: WorkLog,
}

/// Counts and times the calls of user code for the event log, on the thread that runs user code.
#[derive(Clone)]
struct WorkLog {
    tally: SharedTally,
    clock: Clock,
}

impl WorkLog {
    fn begins<W: UserCode>(&self, job: &W::Job, now: impl FnOnce() -> Duration) {
        if W::answers(job) {
            self.tally.with(|tally| tally.begin_job(now(), W::is_work(job)));
        }
    }

    fn ends(&self, now: impl FnOnce() -> Duration) {
        self.tally.with(|tally| tally.end_job(now()));
    }

    fn fetched<W: UserCode>(&self, result: Option<&W::Done>) {
        self.tally.with(|tally| {
            tally.fetched();
            if let Some(result) = result {
                W::tally(result, tally);
            }
        });
    }

    fn run<W: UserCode>(&self, user_code: &mut W, job: W::Job) -> Result<Option<W::Done>> {
        self.begins::<W>(&job, || self.clock.now());
        let result = user_code.run(job);
        self.ends(|| self.clock.now());
        result
    }

    /// Runs a job on the communicating thread. If the job does work of the skeleton (such as a batch of items), its start and end are not recorded
    /// for the event log: the result of the job contains its duration, and no other thread reads the counts of user-code calls meanwhile. In a
    /// simulator nothing is recorded, because reading the clock takes time.
    fn run_inline<W: UserCode>(&self, user_code: &mut W, job: W::Job) -> Result<Option<W::Done>> {
        if W::is_work(&job) || self.clock.is_simulated() {
            user_code.run(job)
        } else {
            self.run(user_code, job)
        }
    }
}

/// Start and end of the last job of a simulated rank, as if a compute thread had run the job.
struct SimulatedThread {
    start: Duration,
    done: Duration,
}

/// Minimum time between two polls of a simulated rank that computes and is not woken by messages.
const SIMULATED_POLL: Duration = Duration::from_micros(50);

enum State<'scope, W: UserCode> {
    Inline(Box<W>),
    Threaded {
        jobs: Sending<W::Job>,
        results: Receiving<Result<W::Done>>,
        left: Left<W>,
        thread: ScopedJoinHandle<'scope, ()>,
    },
    /// User code is moving to another thread, or its thread has died.
    Nowhere,
}

type Left<W> = Arc<Mutex<Option<Box<W>>>>;

impl<'scope, 'env, W: UserCode + 'scope> Executor<'scope, 'env, W> {
    /// Starts user code on the communicating thread or on a compute thread, according to `choice`. `waker` wakes the calling thread when a call of
    /// user code has ended.
    pub(crate) fn new(
        scope: &'scope Scope<'scope, 'env>,
        rank: usize,
        choice: Driver,
        waker: Waker,
        clock: Clock,
        user_code: W,
    ) -> Result<Self> {
        let mut executor = Executor::at_first_job(Some(scope), rank, choice, waker, clock, user_code, None);
        if executor.choice != Driver::Inline {
            executor.move_to_thread()?;
        }
        Ok(executor)
    }

    /// Creates an executor like [`new`](Executor::new), but starts the compute thread with the first job, because runs without jobs, which take
    /// microseconds, need no thread. `usual` is the duration of a call of user code if it is known; no thread is started while calls are short.
    /// Without a `scope`, user code always runs on the communicating thread.
    pub(crate) fn at_first_job(
        scope: Option<&'scope Scope<'scope, 'env>>,
        rank: usize,
        choice: Driver,
        waker: Waker,
        clock: Clock,
        user_code: W,
        usual: Option<Duration>,
    ) -> Self {
        let simulated = (clock.is_simulated() && choice != Driver::Inline)
            .then_some(SimulatedThread { start: Duration::ZERO, done: Duration::ZERO });
        let is_inline_by_choice = choice == Driver::Inline;
        // User code of a simulated rank must run on the rank's only thread, because a simulator controls the threads of its ranks.
        let choice = if clock.is_simulated() || scope.is_none() { Driver::Inline } else { choice };
        let is_short = choice == Driver::Auto && usual.is_some_and(|usual| usual < W::THREADED_ABOVE / GAP);
        Executor {
            scope,
            rank,
            choice,
            is_inline_by_choice,
            waker,
            state: State::Inline(Box::new(user_code)),
            is_new: choice != Driver::Inline && !is_short,
            ready: None,
            simulated,
            outstanding: 0,
            mean: usual.unwrap_or_default(),
            jobs: 0,
            thread_id: Arc::default(),
            work_log: WorkLog { tally: SharedTally::default(), clock },
        }
    }

    /// Returns true if user code runs on the communicating thread although the user has not chosen this thread.
    pub(crate) fn is_interleaved(&self) -> bool {
        self.is_inline() && !self.is_inline_by_choice
    }

    pub(crate) fn inline(&mut self) -> Option<&mut W> {
        match &mut self.state {
            State::Inline(user_code) => Some(user_code),
            _ => None,
        }
    }

    /// The record (number and times of the calls of user code) is updated only if the run writes an event log.
    pub(crate) fn tally(&self) -> SharedTally {
        self.work_log.tally.clone()
    }

    pub(crate) fn answer(&mut self, result: W::Done) {
        self.ready = Some(Ok(result));
    }

    /// Returns true if user code runs on the communicating thread and blocks it; false for a simulated rank, whose communication continues
    /// meanwhile.
    pub(crate) fn is_inline(&self) -> bool {
        matches!(self.state, State::Inline(_)) && self.simulated.is_none()
    }

    pub(crate) fn thread_id(&self) -> Option<i32> {
        match self.state {
            _ if self.simulated.is_some() => None,
            State::Inline(_) => Some(rustix::thread::gettid().as_raw_nonzero().get()),
            _ => Some(self.thread_id.load(Relaxed)).filter(|&id| id != 0),
        }
    }

    pub(crate) fn is_fixed(&self) -> bool {
        self.choice != Driver::Auto
    }

    /// Returns how long a simulated rank with a job in progress may sleep before it polls for messages. A poll costs the simulator as much as a
    /// message, so polls become rarer as the job takes longer: with a `patience` of n, a message waits for at most one n-th of the time that the
    /// job has run.
    pub(crate) fn pause(&self, patience: u32) -> Option<Duration> {
        let SimulatedThread { start, done } = self.in_hand()?;
        let now = self.work_log.clock.now();
        let pause = SIMULATED_POLL.max(now.saturating_sub(*start) / patience);
        Some(pause.min(done.saturating_sub(now)))
    }

    fn in_hand(&self) -> Option<&SimulatedThread> {
        self.simulated.as_ref().filter(|_| self.ready.is_some())
    }

    pub(crate) fn is_tiny(&self) -> bool {
        self.is_inline() && self.jobs >= JOBS_BEFORE_BURST && self.mean < TINY
    }

    pub(crate) fn has_room(&self) -> bool {
        match self.state {
            State::Inline(_) => self.ready.is_none(),
            _ => self.outstanding < if self.mean < SHORT { 2 } else { 1 },
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.outstanding == 0 && self.ready.is_none()
    }

    /// Returns true if the communicating thread may spin while it waits, because no other thread of the rank computes. A master that only
    /// dispatches has an idle compute thread; if the master slept, every worker would wait for it to wake up.
    pub(crate) fn leaves_the_core(&self) -> bool {
        self.is_inline() || self.is_idle()
    }

    /// Submits a job to user code. If user code runs on the communicating thread, the job has ended when the call returns.
    pub(crate) fn submit(&mut self, job: W::Job) -> Result<()> {
        let answers = W::answers(&job);
        if let State::Inline(user_code) = &self.state
            && (self.is_new || self.choice == Driver::Auto && user_code.may_block(&job))
        {
            // The job may be long, so user code moves to a compute thread: the communicating thread must send heartbeats to other ranks
            // meanwhile.
            self.jobs = 0;
            self.move_to_thread()?;
        }
        match &mut self.state {
            State::Inline(user_code) => {
                let result = match &mut self.simulated {
                    Some(SimulatedThread { start, done }) => {
                        *start = self.work_log.clock.now();
                        self.work_log.begins::<W>(&job, || *start);
                        let (result, at) = self.work_log.clock.postpone(|| user_code.run(job));
                        *done = at;
                        result
                    }
                    None => self.work_log.run_inline(&mut **user_code, job),
                };
                if let Some(result) = result.transpose() {
                    self.ready = Some(result);
                }
                return Ok(());
            }
            State::Threaded { jobs, .. } => {
                if jobs.send(job) {
                    self.outstanding += usize::from(answers);
                    return Ok(());
                }
            }
            State::Nowhere => {}
        }
        Err(self.thread_died())
    }

    pub(crate) fn fetch(&mut self) -> Result<Option<W::Done>> {
        let pending = self.in_hand().is_some_and(|job| job.done > self.work_log.clock.now());
        let result = match &mut self.state {
            State::Inline(_) if pending => None,
            State::Inline(_) => {
                let result = self.ready.take();
                if let Some(SimulatedThread { done, .. }) =
                    self.simulated.as_ref().filter(|_| result.is_some())
                {
                    self.work_log.ends(|| *done);
                }
                result
            }
            State::Threaded { results, .. } => match results.try_next() {
                Ok(result) => {
                    self.outstanding -= usize::from(result.is_some());
                    result
                }
                Err(Disconnected) => return Err(self.thread_died()),
            },
            State::Nowhere => return Err(self.thread_died()),
        };
        if let Some(result) = &result {
            self.work_log.fetched::<W>(result.as_ref().ok());
        }
        let result = result.transpose()?;
        if let Some(took) = result.as_ref().and_then(W::took) {
            self.record_duration(took)?;
        }
        Ok(result)
    }

    fn record_duration(&mut self, took: Duration) -> Result<()> {
        // The mean begins with the first call. Later calls have a weight of one eighth, so that one long item alone does not move user code to another
        // thread.
        self.mean = if self.mean.is_zero() { took } else { (self.mean * 7 + took) / 8 };
        self.jobs = self.jobs.saturating_add(1);
        if self.choice != Driver::Auto || self.jobs < JOBS_BEFORE_CHANGE {
            return Ok(());
        }
        if self.is_inline() && self.mean > W::THREADED_ABOVE {
            self.jobs = 0;
            self.move_to_thread()
        } else if !self.is_inline() && self.mean < W::THREADED_ABOVE / GAP && self.is_idle() {
            self.jobs = 0;
            self.move_inline()
        } else {
            Ok(())
        }
    }

    /// Returns true if no job may be submitted now, because user code is to move to the communicating thread, for which the queue must be
    /// empty.
    pub(crate) fn wants_pause(&self) -> bool {
        self.choice == Driver::Auto
            && !self.is_inline()
            && self.jobs >= JOBS_BEFORE_CHANGE
            && self.mean < W::THREADED_ABOVE / GAP
            && self.outstanding > 0
    }

    fn move_to_thread(&mut self) -> Result<()> {
        let mut user_code = match std::mem::replace(&mut self.state, State::Nowhere) {
            State::Inline(user_code) => user_code,
            state => {
                self.state = state;
                return Ok(());
            }
        };
        let Some(scope) = self.scope else {
            self.state = State::Inline(user_code);
            return Ok(());
        };
        self.is_new = false;
        let (jobs, to_do) = mailbox::<W::Job>();
        let (finished, results) = mailbox();
        let (rank, waker, work_log) = (self.rank, self.waker.clone(), self.work_log.clone());
        self.thread_id = Arc::default();
        let thread_id = self.thread_id.clone();
        let left = Left::default();
        let leaves = Arc::clone(&left);
        // The closure of the thread is boxed, so that the standard library's code for threads is compiled once instead of once for each type of
        // user code.
        let compute: Box<dyn FnOnce() + Send + 'scope> = Box::new(move || {
            name_rank(rank);
            thread_id.store(rustix::thread::gettid().as_raw_nonzero().get(), Relaxed);
            while let Some(job) = to_do.next() {
                let Some(result) = work_log.run(&mut *user_code, job).transpose() else { continue };
                let failed = result.is_err();
                let is_disconnected = !finished.send(result);
                waker.wake();
                if failed || is_disconnected {
                    break;
                }
            }
            *leaves.lock().unwrap_or_else(PoisonError::into_inner) = Some(user_code);
        });
        let thread = std::thread::Builder::new()
            .name(format!("compute {rank}"))
            .stack_size(STACK)
            .spawn_scoped(scope, compute)
            .map_err(|e| {
                let text = format!(
                    "cannot start the compute thread: {e}; set ARMATURE_DRIVER=inline to run without it"
                );
                Error::new(ErrorKind::Config, text).at_rank(rank)
            })?;
        self.state = State::Threaded { jobs, results, left, thread };
        Ok(())
    }

    fn move_inline(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Nowhere) {
            State::Threaded { jobs, left, thread, .. } => {
                drop(jobs);
                thread.join().map_err(|panic| user_code::in_framework(&*panic).at_rank(self.rank))?;
                let user_code = left.lock().unwrap_or_else(PoisonError::into_inner).take();
                self.state = user_code.map_or(State::Nowhere, State::Inline);
            }
            state => self.state = state,
        }
        Ok(())
    }

    /// Returns the error of a compute thread that has ended: the error of user code, or a panic of the framework, because panics of user code
    /// are caught.
    fn thread_died(&mut self) -> Error {
        match std::mem::replace(&mut self.state, State::Nowhere) {
            State::Threaded { thread, results, .. } => match thread.join() {
                Err(panic) => user_code::in_framework(&*panic).at_rank(self.rank),
                // The thread has ended after an error of user code, which may still be among the results that have not been fetched.
                Ok(()) => std::iter::from_fn(|| results.next())
                    .find_map(Result::err)
                    .unwrap_or_else(|| self.framework_panic("the compute thread ended early".to_string())),
            },
            _ => self.framework_panic("the compute thread is gone".to_string()),
        }
    }

    fn framework_panic(&self, text: String) -> Error {
        Error::new(ErrorKind::Panic, format!("in the framework itself: {text}")).at_rank(self.rank)
    }

    pub(crate) fn finish(mut self) -> Result<W> {
        self.move_inline()?;
        match self.state {
            State::Inline(user_code) => Ok(*user_code),
            _ => Err(Error::new(ErrorKind::Panic, "in the framework itself: the user code is gone")
                .at_rank(self.rank)),
        }
    }
}

/// Stack size in bytes of a compute thread, which runs user code: the default of a process on most systems.
const STACK: usize = 8 << 20;

#[cfg(test)]
#[path = "executor_tests.rs"]
mod tests;
