//! Delivery of results to the user's sink. The sink is called between messages if it is fast, and otherwise on a thread: it may take any time
//! while rank 0 sends heartbeats to its workers.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::Duration;

use super::flow::Answer;
use super::resequencer::ResultRun;
use super::user_job::{JobTime, JobTimer};
use crate::comm::Waker;
use crate::comm::clock::Clock;
use crate::error::Result;
use crate::failed_task::FailedTask;
use crate::rank::executor::Executor;
use crate::rank::user_code::UserCode;
use crate::session::Driver;
use crate::user_code;
use crate::wire::Item;
use crate::wire::erased::{Items, typed};

pub(super) trait Sink: Send {
    /// Passes the results of tasks `first`, `first + 1`, … to the sink until the sink wants no more results or `timer` ends this
    /// series of calls. `fed` counts the passed results. Returns the last answer of the sink, and the results that were not passed.
    ///
    /// # Errors
    /// If the sink does not take results of this type.
    fn accept(
        &mut self,
        first: u64,
        results: Items,
        timer: &mut JobTimer,
        fed: &mut usize,
    ) -> Result<(Answer, Option<Items>)>;

    fn accept_failed(&mut self, number: u64, failed: FailedTask) -> Answer;
}

/// A function as a sink. It is called for each result and each failed task.
pub(super) struct SinkOf<S, O> {
    sink: S,
    results: PhantomData<fn(O)>,
}

impl<O: Item, S: FnMut(u64, Result<O, FailedTask>) -> Answer + Send> SinkOf<S, O> {
    pub(super) fn new(sink: S) -> Self {
        SinkOf { sink, results: PhantomData }
    }
}

impl<O: Item, S: FnMut(u64, Result<O, FailedTask>) -> Answer + Send> Sink for SinkOf<S, O> {
    fn accept(
        &mut self,
        first: u64,
        results: Items,
        timer: &mut JobTimer,
        fed: &mut usize,
    ) -> Result<(Answer, Option<Items>)> {
        let mut results = typed::<O>(results)?.into_iter();
        while let Some(result) = results.next() {
            *fed += 1;
            let answer = (self.sink)(first + *fed as u64 - 1, Ok(result));
            if answer.is_break() {
                return Ok((answer, None));
            }
            if results.len() > 0 && timer.has_finished(*fed) {
                return Ok((answer, Some(Box::new(results.collect::<Vec<_>>()))));
            }
        }
        Ok((Answer::Continue(()), None))
    }

    fn accept_failed(&mut self, number: u64, failed: FailedTask) -> Answer {
        (self.sink)(number, Err(failed))
    }
}

pub(super) struct Collected<O>(Arc<Mutex<Vec<Result<O, FailedTask>>>>);

impl<O> Default for Collected<O> {
    fn default() -> Self {
        Collected(Arc::default())
    }
}

impl<O> Clone for Collected<O> {
    fn clone(&self) -> Self {
        Collected(self.0.clone())
    }
}

impl<O> Collected<O> {
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Result<O, FailedTask>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: Item> Sink for Collected<O> {
    fn accept(
        &mut self,
        _: u64,
        results: Items,
        _: &mut JobTimer,
        fed: &mut usize,
    ) -> Result<(Answer, Option<Items>)> {
        *fed += results.len();
        self.lock().extend(typed::<O>(results)?.into_iter().map(Ok));
        Ok((Answer::Continue(()), None))
    }

    fn accept_failed(&mut self, _: u64, failed: FailedTask) -> Answer {
        self.lock().push(Err(failed));
        Answer::Continue(())
    }
}

/// Receives the results that may be passed to the sink. In an ordered farm, these are the results before which no earlier result is
/// missing.
pub(super) trait Deliver {
    /// Passes the results of the tasks from number `first` on, which have `bytes` bytes in total, to the sink.
    ///
    /// # Errors
    /// An error or panic of the sink, for these results or for earlier ones.
    fn put(&mut self, first: u64, run: ResultRun, bytes: u64) -> Result<()>;

    /// Returns the number and the bytes of the results that the sink has not received yet, and true if the sink wants no more results.
    fn progress(&self) -> ((u64, u64), bool);
}

/// Stand-in for the delivery to the sink while no tasks run, which receives no results.
pub(super) struct NoDelivery;

impl Deliver for NoDelivery {
    fn put(&mut self, _: u64, _: ResultRun, _: u64) -> Result<()> {
        Ok(())
    }

    fn progress(&self) -> ((u64, u64), bool) {
        ((0, 0), false)
    }
}

struct Due {
    first: u64,
    run: ResultRun,
    bytes: u64,
    /// True if the sink's calls for these results are limited in time, because they run on the communicating thread.
    limited: bool,
}

struct Fed {
    time: JobTime,
    tasks: u64,
    bytes: u64,
    /// Results that the sink has not received yet, because this series of calls reached its time limit.
    rest: Option<Due>,
    stopped: bool,
}

/// Adapter by which an executor, which runs user code on a thread, calls the sink.
struct SinkCode<'scope> {
    sink: Box<dyn Sink + 'scope>,
    farm: String,
    timer: JobTimer,
    stopped: bool,
}

impl SinkCode<'_> {
    /// Returns the number of results that the sink received, and the remaining results if this series of calls reached its time
    /// limit.
    fn feed(&mut self, first: u64, run: ResultRun) -> Result<(usize, Option<Items>)> {
        let SinkCode { sink, timer, stopped, farm } = self;
        let mut fed = 0;
        let outcome = user_code::call(|| {
            let (answer, rest) = match run {
                ResultRun::Failed(failed) => {
                    fed = 1;
                    (sink.accept_failed(first, failed), None)
                }
                ResultRun::Results(results) => sink.accept(first, results, timer, &mut fed)?,
            };
            match answer {
                Answer::Break(Some(error)) => Err(user_code::described(error)),
                answer => Ok((answer.is_break(), rest)),
            }
        });
        let at = first + (fed as u64).saturating_sub(1);
        let (is_break, rest) = outcome.map_err(|e| e.on_item(at).in_farm(farm).at_rank(0))?;
        *stopped |= is_break;
        Ok((fed, rest))
    }
}

impl UserCode for SinkCode<'_> {
    type Job = Due;
    type Done = Fed;

    fn run(&mut self, due: Due) -> Result<Option<Fed>> {
        let Due { first, run, bytes, limited } = due;
        let tasks = run.len();
        self.timer.begin(limited);
        let (fed, rest) = if self.stopped { (0, None) } else { self.feed(first, run)? };
        let mut done = Fed { time: self.timer.end(), tasks, bytes, rest: None, stopped: self.stopped };
        if let Some(rest) = rest {
            let left = bytes * rest.len() as u64 / tasks;
            (done.tasks, done.bytes) = (fed as u64, bytes - left);
            let run = ResultRun::Results(rest);
            done.rest = Some(Due { first: first + fed as u64, run, bytes: left, limited });
        }
        Ok(Some(done))
    }

    fn answers(_: &Due) -> bool {
        true
    }

    fn may_block(&self, _: &Due) -> bool {
        false
    }

    fn took(done: &Fed) -> Option<Duration> {
        done.time.took()
    }
}

pub(super) struct Delivery<'scope, 'env> {
    executor: Executor<'scope, 'env, SinkCode<'scope>>,
    queue: VecDeque<Due>,
    undelivered: (u64, u64),
    stopped: bool,
}

impl<'scope, 'env> Delivery<'scope, 'env> {
    pub(super) fn new(
        scope: &'scope Scope<'scope, 'env>,
        driver: Driver,
        (waker, clock): (Waker, Clock),
        farm: &str,
        sink: Box<dyn Sink + 'scope>,
    ) -> Result<Self> {
        let timer = JobTimer::new(clock);
        let code = SinkCode { sink, farm: farm.to_string(), timer, stopped: false };
        let executor = Executor::new(scope, 0, driver, waker, clock, code)?;
        Ok(Delivery { executor, queue: VecDeque::new(), undelivered: (0, 0), stopped: false })
    }

    pub(super) fn advance(&mut self) -> Result<bool> {
        let mut has_progressed = false;
        loop {
            let mut long = false;
            while let Some(fed) = self.executor.fetch()? {
                has_progressed = true;
                self.undelivered.0 -= fed.tasks;
                self.undelivered.1 -= fed.bytes;
                self.stopped |= fed.stopped;
                long |= fed.rest.is_some();
                if let Some(rest) = fed.rest {
                    self.queue.push_front(rest);
                }
            }
            // After a long series of calls of the sink, rank 0 receives messages before it calls the sink again.
            if long || !self.executor.has_room() || self.executor.wants_pause() {
                return Ok(has_progressed);
            }
            let Some(due) = self.queue.pop_front() else { return Ok(has_progressed) };
            // On the sink's thread, a series of calls of the sink is not limited in time: a second series may be queued already, and would pass on
            // its results before those that a limited first series had left over.
            self.executor.submit(Due { limited: self.executor.is_inline(), ..due })?;
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.undelivered.0 == 0
    }

    /// Returns true while no thread calls the sink, so that the communicating thread of rank 0 may poll without sleeping.
    pub(super) fn leaves_the_core(&self) -> bool {
        self.executor.leaves_the_core()
    }

    /// Returns true while the sink runs on the communicating thread of rank 0, because its calls have been short so far.
    pub(super) fn is_interleaved(&self) -> bool {
        self.executor.is_interleaved()
    }

    /// Ends the thread that calls the sink, if there is one. Must be called after all results are delivered to the sink.
    pub(super) fn finish(self) -> Result<()> {
        self.executor.finish().map(drop)
    }
}

impl Deliver for Delivery<'_, '_> {
    fn put(&mut self, first: u64, run: ResultRun, bytes: u64) -> Result<()> {
        self.undelivered.0 += run.len();
        self.undelivered.1 += bytes;
        self.queue.push_back(Due { first, run, bytes, limited: false });
        self.advance().map(drop)
    }

    fn progress(&self) -> ((u64, u64), bool) {
        (self.undelivered, self.stopped)
    }
}
