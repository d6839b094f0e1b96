//! Delivery of results to the user's sink. The sink is called between messages if it is fast, and otherwise on a thread: it may take any time
//! while rank 0 sends heartbeats to its workers.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::thread::Scope;
use std::time::Duration;

use super::flow::Answer;
use super::resequencer::ResultRun;
use super::user_job::{JobTime, JobTimer};
use crate::comm::Waker;
use crate::comm::clock::Clock;
use crate::error::{Error, Result};
use crate::failed_task::FailedTask;
use crate::rank::executor::Executor;
use crate::rank::user_code::UserCode;
use crate::session::Driver;
use crate::user_code;
use crate::wire::Item;

/// Receiver of results.
pub(super) trait Sink<O>: Send {
    /// Accepts the result of task `number`.
    fn accept(&mut self, number: u64, result: Result<O, FailedTask>) -> Answer;
}

impl<O, F: FnMut(u64, Result<O, FailedTask>) -> Answer + Send> Sink<O> for F {
    fn accept(&mut self, number: u64, result: Result<O, FailedTask>) -> Answer {
        self(number, result)
    }
}

/// Sink that keeps all results.
#[derive(Debug)]
pub(super) struct Collected<O>(pub(super) Vec<Result<O, FailedTask>>);

impl<O: Send> Sink<O> for Collected<O> {
    fn accept(&mut self, _: u64, result: Result<O, FailedTask>) -> Answer {
        self.0.push(result);
        Answer::Continue(())
    }
}

/// Receiver of due results from the master.
pub(super) trait Deliver<O> {
    /// Passes results from task `first` on, which have `bytes` bytes, to the sink.
    ///
    /// # Errors
    /// An error or panic of the sink, for these results or for earlier ones.
    fn put(&mut self, first: u64, run: ResultRun<O>, bytes: u64) -> Result<()>;

    /// Returns the tasks and bytes that the sink has not received yet, and true if the sink needs no more.
    fn progress(&self) -> ((u64, u64), bool);
}

/// Delivery between two sets of tasks, when there are no results.
pub(super) struct NoDelivery;

impl<O> Deliver<O> for NoDelivery {
    fn put(&mut self, _: u64, _: ResultRun<O>, _: u64) -> Result<()> {
        Ok(())
    }

    fn progress(&self) -> ((u64, u64), bool) {
        ((0, 0), false)
    }
}

/// Results that are due at the sink.
struct Due<O> {
    first: u64,
    run: ResultRun<O>,
    bytes: u64,
    /// True if the duration of the job is limited.
    limited: bool,
}

/// Outcome of a job of the sink.
struct Fed<O> {
    time: JobTime,
    tasks: u64,
    bytes: u64,
    /// Results for which no time was left.
    rest: Option<Due<O>>,
    stopped: bool,
}

/// The sink as the user code of an executor.
struct SinkCode<O, S> {
    sink: S,
    farm: String,
    timer: JobTimer,
    stopped: bool,
    results: PhantomData<fn(O)>,
}

impl<O: Item, S: Sink<O>> SinkCode<O, S> {
    /// Passes results to the sink until the sink needs no more or the time limit of the job is reached. Returns the number of results passed, and the
    /// remaining results.
    fn feed(&mut self, first: u64, run: ResultRun<O>) -> Result<(usize, Vec<O>)> {
        let SinkCode { sink, timer, stopped, farm, .. } = self;
        let mut fed = 0;
        let answer = user_code::call(|| {
            let answer = match run {
                ResultRun::Failed(failed) => {
                    fed = 1;
                    sink.accept(first, Err(failed))
                }
                ResultRun::Results(results) => {
                    let mut results = results.into_iter();
                    loop {
                        let Some(result) = results.next() else { return Ok::<_, Error>(Ok(Vec::new())) };
                        fed += 1;
                        let answer = sink.accept(first + fed as u64 - 1, Ok(result));
                        if answer.is_break() {
                            break answer;
                        }
                        if timer.is_over(fed) {
                            return Ok(Ok(results.collect()));
                        }
                    }
                }
            };
            match answer {
                Answer::Break(Some(error)) => Err(user_code::described(error)),
                answer => Ok(Err(answer)),
            }
        });
        let at = first + (fed as u64).saturating_sub(1);
        match answer.map_err(|e| e.on_item(at).in_farm(farm).at_rank(0))? {
            Ok(rest) => Ok((fed, rest)),
            Err(answer) => {
                *stopped |= answer.is_break();
                Ok((fed, Vec::new()))
            }
        }
    }
}

impl<O: Item, S: Sink<O>> UserCode for SinkCode<O, S> {
    type Task = Due<O>;
    type Outcome = Fed<O>;

    fn run(&mut self, due: Due<O>) -> Result<Option<Fed<O>>> {
        let Due { first, run, bytes, limited } = due;
        let tasks = run.len();
        self.timer.begin(limited);
        let (fed, rest) = if self.stopped { (0, Vec::new()) } else { self.feed(first, run)? };
        let mut outcome = Fed { time: self.timer.end(), tasks, bytes, rest: None, stopped: self.stopped };
        if !rest.is_empty() {
            let left = bytes * rest.len() as u64 / tasks;
            (outcome.tasks, outcome.bytes) = (fed as u64, bytes - left);
            let run = ResultRun::Results(rest);
            outcome.rest = Some(Due { first: first + fed as u64, run, bytes: left, limited });
        }
        Ok(Some(outcome))
    }

    fn answers(_: &Due<O>) -> bool {
        true
    }

    fn may_block(&self, _: &Due<O>) -> bool {
        false
    }

    fn took(outcome: &Fed<O>) -> Option<Duration> {
        outcome.time.took()
    }
}

/// Delivery of results to the user's sink.
pub(super) struct Delivery<'scope, 'env, O: Item, S: Sink<O>> {
    executor: Executor<'scope, 'env, SinkCode<O, S>>,
    queue: VecDeque<Due<O>>,
    /// Tasks and bytes that the sink has not received yet.
    undelivered: (u64, u64),
    stopped: bool,
}

impl<'scope, 'env, O: Item, S: Sink<O> + 'scope> Delivery<'scope, 'env, O, S> {
    /// Creates a delivery to `sink` for the farm with this name. `waker` wakes rank 0's thread.
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        driver: Driver,
        (waker, clock): (Waker, Clock),
        farm: &str,
        sink: S,
    ) -> Result<Self> {
        let timer = JobTimer::new(clock);
        let code = SinkCode { sink, farm: farm.to_string(), timer, stopped: false, results: PhantomData };
        let executor = Executor::new(scope, 0, driver, waker, clock, code)?;
        Ok(Delivery { executor, queue: VecDeque::new(), undelivered: (0, 0), stopped: false })
    }

    /// Fetches outcomes of the sink and submits further results. Returns true if there was an outcome.
    pub(super) fn advance(&mut self) -> Result<bool> {
        let mut moved = false;
        loop {
            let mut long = false;
            while let Some(fed) = self.executor.fetch()? {
                moved = true;
                self.undelivered.0 -= fed.tasks;
                self.undelivered.1 -= fed.bytes;
                self.stopped |= fed.stopped;
                long |= fed.rest.is_some();
                if let Some(rest) = fed.rest {
                    self.queue.push_front(rest);
                }
            }
            // After a long job, rank 0 receives messages before it submits the next one.
            if long || !self.executor.has_room() || self.executor.wants_pause() {
                return Ok(moved);
            }
            let Some(due) = self.queue.pop_front() else { return Ok(moved) };
            // Jobs on a thread are not limited: two of them may be outstanding, and the second would overtake the rest of the first.
            self.executor.submit(Due { limited: self.executor.is_inline(), ..due })?;
        }
    }

    /// Returns true if the sink has received all results.
    pub(super) fn is_idle(&self) -> bool {
        self.undelivered.0 == 0
    }

    /// Returns true if no thread of the sink has work, so that rank 0's thread may spin while it waits.
    pub(super) fn leaves_the_core(&self) -> bool {
        self.executor.leaves_the_core()
    }

    /// Returns true if the sink currently runs on rank 0's thread, because it has been fast so far.
    pub(super) fn is_interleaved(&self) -> bool {
        self.executor.is_interleaved()
    }

    /// Returns the sink, after everything is delivered.
    pub(super) fn finish(self) -> Result<S> {
        self.executor.finish().map(|code| code.sink)
    }
}

impl<'scope, O: Item, S: Sink<O> + 'scope> Deliver<O> for Delivery<'scope, '_, O, S> {
    fn put(&mut self, first: u64, run: ResultRun<O>, bytes: u64) -> Result<()> {
        self.undelivered.0 += run.len();
        self.undelivered.1 += bytes;
        self.queue.push_back(Due { first, run, bytes, limited: false });
        self.advance().map(drop)
    }

    fn progress(&self) -> ((u64, u64), bool) {
        (self.undelivered, self.stopped)
    }
}
