//! The two places of user code: on the thread that communicates, or on a thread of its own.
//!
//! A rank begins with a compute thread, so that it can answer while user code is being set up, which may load for long. When
//! jobs turn out to be so short that handing them over costs more than they do, user code moves to the
//! communicating thread; it moves back when they become long.
//!
//! The simulator gives a rank one thread. There user code runs inline, but its declared time passes beside the
//! communication, as on a real rank with a compute thread.

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use super::mailbox::{Gone, Receiving, Sending, mailbox};
use super::user_code::UserCode;
use crate::comm::Waker;
use crate::comm::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::SharedTally;
use crate::session::{Driver, name_rank};
use crate::user_code;

/// Jobs that take less than one part in this number of that do not need one: handing them over would cost a part of them. The gap
/// keeps jobs of changing length from moving to and fro.
const GAP: u32 = 5;
/// Jobs that are looked at before user code moves: their decayed mean holds the last eight or so.
const JOBS_BEFORE_CHANGE: u32 = 16;
/// Short jobs are handed to the compute thread two at a time, so that it need not wait for the next one. Long
/// ones are not: a batch that lies in wait here is missed elsewhere.
pub(crate) const SHORT: Duration = Duration::from_micros(500);

/// Jobs shorter than this cost less than a look at the messages does.
const TINY: Duration = Duration::from_micros(1);

/// Runs user code, here or on a thread.
pub(crate) struct Executor<'scope, 'env, W: UserCode> {
    /// Where a thread can be started; nowhere for user code that stays inline.
    scope: Option<&'scope Scope<'scope, 'env>>,
    rank: usize,
    choice: Driver,
    /// The user wants everything on this thread.
    is_inline_by_choice: bool,
    waker: Waker,
    state: State<'scope, W>,
    /// Whether the first task starts the thread: nothing has been done yet, and nobody knows how long it takes.
    is_new: bool,
    /// The outcome of the last task (inline).
    ready: Option<Result<W::Outcome>>,
    /// Under the simulator, which has no second thread.
    simulated: Option<SimulatedThread>,
    outstanding: usize,
    mean: Duration,
    jobs: u32,
    /// The system's number of the compute thread, once that has started.
    thread_id: Arc<AtomicI32>,
    work_log: WorkLog,
}

/// Notes for the log of events what user code does, on the thread that does it.
#[derive(Clone)]
struct WorkLog {
    tally: SharedTally,
    clock: Clock,
}

impl WorkLog {
    /// User code is about to be given this task.
    fn begins<W: UserCode>(&self, task: &W::Task) {
        if W::answers(task) {
            self.tally.with(|tally| tally.begin_job(self.clock.now(), W::is_work(task)));
        }
    }

    /// User code has done it; there is no outcome where it failed.
    fn ends<W: UserCode>(&self, outcome: Option<&W::Outcome>) {
        self.tally.with(|tally| {
            tally.end_job(|| self.clock.now());
            if let Some(outcome) = outcome {
                W::tally(outcome, tally);
            }
        });
    }

    /// Does the task.
    fn run<W: UserCode>(&self, user_code: &mut W, task: W::Task) -> Result<Option<W::Outcome>> {
        self.begins::<W>(&task);
        let outcome = user_code.run(task);
        match &outcome {
            // The caller finds it, or nobody waits for it.
            Ok(None) => {}
            Ok(Some(outcome)) => self.ends::<W>(Some(outcome)),
            Err(_) => self.ends::<W>(None),
        }
        outcome
    }
}

/// The last task of a simulated rank, as if another thread did it.
struct SimulatedThread {
    start: Duration,
    done: Duration,
}

/// How long a simulated rank that computes sleeps at least before it looks at its messages: nothing wakes it when one comes.
const SIMULATED_POLL: Duration = Duration::from_micros(50);

enum State<'scope, W: UserCode> {
    Inline(Box<W>),
    Threaded {
        tasks: Sending<W::Task>,
        outcomes: Receiving<Result<W::Outcome>>,
        /// Where the thread leaves the user code when it ends.
        left: Left<W>,
        thread: ScopedJoinHandle<'scope, ()>,
    },
    /// Only while user code changes places, or after its thread has died.
    Nowhere,
}

type Left<W> = Arc<Mutex<Option<Box<W>>>>;

impl<'scope, 'env, W: UserCode + 'scope> Executor<'scope, 'env, W> {
    /// Starts user code under the chosen driver. `waker` wakes the calling thread when a job is done.
    pub(crate) fn new(
        scope: &'scope Scope<'scope, 'env>,
        rank: usize,
        choice: Driver,
        waker: Waker,
        clock: Clock,
        user_code: W,
    ) -> Result<Self> {
        let mut executor = Executor::at_first_task(Some(scope), rank, choice, waker, clock, user_code, None);
        if executor.choice != Driver::Inline {
            executor.move_to_thread()?;
        }
        Ok(executor)
    }

    /// The same, with a thread that is started for the first task: for runs that may have none and last microseconds. Where tasks
    /// are known to take `usual` time each, and that is little, there is no thread at first. Without a `scope` user code is
    /// inline, whatever the choice.
    pub(crate) fn at_first_task(
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
        // The simulator's ranks are threads of its own; user code runs on them.
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

    /// Whether user code keeps this thread from communicating although the user has not asked for that.
    pub(crate) fn is_interleaved(&self) -> bool {
        self.is_inline() && !self.is_inline_by_choice
    }

    /// The user code, where it is inline.
    pub(crate) fn inline(&mut self) -> Option<&mut W> {
        match &mut self.state {
            State::Inline(user_code) => Some(user_code),
            _ => None,
        }
    }

    /// What user code has done.
    pub(crate) fn tally(&self) -> SharedTally {
        self.work_log.tally.clone()
    }

    /// Puts an outcome there that user code has left to the caller to find, inline.
    pub(crate) fn answer(&mut self, outcome: W::Outcome) {
        self.work_log.ends::<W>(Some(&outcome));
        self.ready = Some(Ok(outcome));
    }

    /// Whether user code keeps this thread from communicating.
    pub(crate) fn is_inline(&self) -> bool {
        matches!(self.state, State::Inline(_)) && self.simulated.is_none()
    }

    /// The system's number of the thread that user code runs on; `None` where that is not known yet, or where the rank is simulated.
    pub(crate) fn thread_id(&self) -> Option<i32> {
        match self.state {
            _ if self.simulated.is_some() => None,
            State::Inline(_) => Some(rustix::thread::gettid().as_raw_nonzero().get()),
            _ => Some(self.thread_id.load(Relaxed)).filter(|&id| id != 0),
        }
    }

    /// Whether user code stays where it is, however long jobs take.
    pub(crate) fn is_fixed(&self) -> bool {
        self.choice != Driver::Auto
    }

    /// Under the simulator, while there is a task in hand: how long the rank may sleep before it looks at its messages.
    /// Each look costs the simulator as much as a message does, so they become rarer the longer a task takes: a message
    /// waits for at most one `patience`th of the time that the task has taken so far.
    pub(crate) fn pause(&self, patience: u32) -> Option<Duration> {
        let SimulatedThread { start, done } = self.in_hand()?;
        let now = self.work_log.clock.now();
        let pause = SIMULATED_POLL.max(now.saturating_sub(*start) / patience);
        Some(pause.min(done.saturating_sub(now)))
    }

    fn in_hand(&self) -> Option<&SimulatedThread> {
        self.simulated.as_ref().filter(|_| self.ready.is_some())
    }

    /// Whether jobs are done inline and take microseconds each.
    pub(crate) fn is_tiny(&self) -> bool {
        self.is_inline() && self.jobs >= JOBS_BEFORE_CHANGE && self.mean < TINY
    }

    /// Whether another task can be handed over now.
    pub(crate) fn has_room(&self) -> bool {
        match self.state {
            State::Inline(_) => self.ready.is_none(),
            _ => self.outstanding < if self.mean < SHORT { 2 } else { 1 },
        }
    }

    /// Whether nothing is being done and nothing waits to be fetched.
    pub(crate) fn is_idle(&self) -> bool {
        self.outstanding == 0 && self.ready.is_none()
    }

    /// Whether this thread may wait busily: no other thread of the rank has anything to do. A master that only hands out
    /// has its compute thread at rest for ever, and whoever waits for it would wait for its sleeps.
    pub(crate) fn leaves_the_core(&self) -> bool {
        self.is_inline() || self.is_idle()
    }

    /// Hands a task over; inline, it is done when this returns.
    pub(crate) fn submit(&mut self, task: W::Task) -> Result<()> {
        let answers = W::answers(&task);
        if let State::Inline(user_code) = &self.state
            && (self.is_new || self.choice == Driver::Auto && user_code.may_block(&task))
        {
            // The others must hear of this rank meanwhile.
            self.jobs = 0;
            self.move_to_thread()?;
        }
        match &mut self.state {
            State::Inline(user_code) => {
                let outcome = match &mut self.simulated {
                    Some(SimulatedThread { start, done }) => {
                        self.work_log.begins::<W>(&task);
                        *start = self.work_log.clock.now();
                        let (outcome, at) = self.work_log.clock.put_off(|| user_code.run(task));
                        *done = at;
                        outcome
                    }
                    None => self.work_log.run(&mut **user_code, task),
                };
                if let Some(outcome) = outcome.transpose() {
                    self.ready = Some(outcome);
                }
                return Ok(());
            }
            State::Threaded { tasks, .. } => {
                if tasks.send(task) {
                    self.outstanding += usize::from(answers);
                    return Ok(());
                }
            }
            State::Nowhere => {}
        }
        Err(self.thread_died())
    }

    /// Fetches what has been finished, if anything has.
    pub(crate) fn fetch(&mut self) -> Result<Option<W::Outcome>> {
        let pending = self.in_hand().is_some_and(|task| task.done > self.work_log.clock.now());
        let outcome = match &mut self.state {
            State::Inline(_) if pending => None,
            State::Inline(_) => {
                let outcome = self.ready.take();
                if self.simulated.is_some()
                    && let Some(outcome) = &outcome
                {
                    self.work_log.ends::<W>(outcome.as_ref().ok());
                }
                outcome
            }
            State::Threaded { outcomes, .. } => match outcomes.try_next() {
                Ok(outcome) => {
                    self.outstanding -= usize::from(outcome.is_some());
                    outcome
                }
                Err(Gone) => return Err(self.thread_died()),
            },
            State::Nowhere => return Err(self.thread_died()),
        };
        let outcome = outcome.transpose()?;
        if let Some(took) = outcome.as_ref().and_then(W::took) {
            self.weigh(took)?;
        }
        Ok(outcome)
    }

    /// Moves user code if jobs have become short or long.
    fn weigh(&mut self, took: Duration) -> Result<()> {
        // One eighth of the newest: a single long item does not turn the rank over.
        self.mean = (self.mean * 7 + took) / 8;
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

    /// Whether the rank would rather have no job in hand now, so that user code can move.
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
        let (tasks, to_do) = mailbox::<W::Task>();
        let (finished, outcomes) = mailbox();
        let (rank, waker, work_log) = (self.rank, self.waker.clone(), self.work_log.clone());
        self.thread_id = Arc::default();
        let thread_id = self.thread_id.clone();
        let left = Left::default();
        let leaves = Arc::clone(&left);
        // Boxed, so that the standard library's code for threads is compiled once.
        let compute: Box<dyn FnOnce() + Send + 'scope> = Box::new(move || {
            name_rank(rank);
            thread_id.store(rustix::thread::gettid().as_raw_nonzero().get(), Relaxed);
            while let Some(task) = to_do.next() {
                let Some(outcome) = work_log.run(&mut *user_code, task).transpose() else { continue };
                let failed = outcome.is_err();
                let gone = !finished.send(outcome);
                waker.wake();
                if failed || gone {
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
                let text =
                    format!("cannot start the compute thread: {e}; ARMATURE_DRIVER=inline does without");
                Error::new(ErrorKind::Config, text).at_rank(rank)
            })?;
        self.state = State::Threaded { tasks, outcomes, left, thread };
        Ok(())
    }

    fn move_inline(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Nowhere) {
            State::Threaded { tasks, left, thread, .. } => {
                drop(tasks);
                thread.join().map_err(|panic| user_code::in_framework(&*panic).at_rank(self.rank))?;
                let user_code = left.lock().unwrap_or_else(PoisonError::into_inner).take();
                self.state = user_code.map_or(State::Nowhere, State::Inline);
            }
            state => self.state = state,
        }
        Ok(())
    }

    /// The thread has gone: behind an error of user code, or by the framework's own fault, as user code is
    /// caught.
    fn thread_died(&mut self) -> Error {
        match std::mem::replace(&mut self.state, State::Nowhere) {
            State::Threaded { thread, outcomes, .. } => match thread.join() {
                Err(panic) => user_code::in_framework(&*panic).at_rank(self.rank),
                // It ends behind an error of user code, which may not have been fetched yet.
                Ok(()) => std::iter::from_fn(|| outcomes.next())
                    .find_map(Result::err)
                    .unwrap_or_else(|| self.framework_panic("the compute thread ended early".to_string())),
            },
            _ => self.framework_panic("the compute thread is gone".to_string()),
        }
    }

    fn framework_panic(&self, text: String) -> Error {
        Error::new(ErrorKind::Panic, format!("in the framework itself: {text}")).at_rank(self.rank)
    }

    /// Ends the executor, once it is idle.
    pub(crate) fn finish(mut self) -> Result<W> {
        self.move_inline()?;
        match self.state {
            State::Inline(user_code) => Ok(*user_code),
            _ => Err(Error::new(ErrorKind::Panic, "in the framework itself: the user code is gone")
                .at_rank(self.rank)),
        }
    }
}

/// Stack of a compute thread, as large as that of a process on most systems: it runs user code.
const STACK: usize = 8 << 20;

#[cfg(test)]
#[path = "executor_tests.rs"]
mod tests;
