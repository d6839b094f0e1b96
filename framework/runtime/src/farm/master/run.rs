//! The run of a farm on rank 0, from step to step.

use std::marker::PhantomData;
use std::thread::Scope;

use super::super::delivery::{Delivery, Sink};
use super::super::result_journal::ResultJournal;
use super::super::task_runner::{Command, TaskRunner};
use super::super::task_source::{Source, TaskSource};
use super::MasterRank;
use super::step::{Step, Stepping, Stream, Waiting};
use crate::comm::Waker;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::rank::driver::Driver;
use crate::rank::protocol::Outgoing;
use crate::session::Driver as Choice;
use crate::user_code;
use crate::wire::Item;

/// Rank 0 in a run: what it decides by, and the driver that takes it from step to step.
pub(in super::super) struct MasterRun<'a, 'scope, 'env, 'w, 'f, I: Item, O: Item> {
    pub(in super::super) master: MasterRank<I, O>,
    pub(super) endpoint: &'a mut Endpoint,
    pub(super) driver: Driver<'scope, 'env, TaskRunner<'w, 'f, I, O>>,
}

impl<'a, 'scope, 'env, 'w: 'scope, 'f: 'scope, I: Item, O: Item> MasterRun<'a, 'scope, 'env, 'w, 'f, I, O> {
    /// Begins: has rank 0's own worker made, if it computes.
    pub(in super::super) fn begin(
        mut master: MasterRank<I, O>,
        endpoint: &'a mut Endpoint,
        mut driver: Driver<'scope, 'env, TaskRunner<'w, 'f, I, O>>,
    ) -> Result<Self> {
        if let Some(count) = master.options.sub_masters {
            master.split(count, "as many as were asked for", &mut Outgoing::new(endpoint))?;
        }
        if master.state.computes {
            driver.submit(Command::SetUp)?;
        }
        Ok(MasterRun { master, endpoint, driver })
    }

    /// Takes a step.
    fn take(&mut self, step: impl Step<I, O>) -> Result<()> {
        let mut stepping = Stepping { master: &mut self.master, step, code: PhantomData };
        self.driver.run_until_finished(self.endpoint, &mut stepping)
    }

    /// Serves nobody until something has happened, as `until` says, which is asked in each turn; `busy` is what the caller's code does
    /// meanwhile.
    pub(super) fn wait_until(
        &mut self,
        busy: Option<&'static str>,
        until: impl FnMut(&mut MasterRank<I, O>, &mut Outgoing<'_>) -> Result<bool>,
    ) -> Result<()> {
        self.take(Waiting::until(until, busy))
    }

    /// The ranks of the job.
    pub(in super::super) fn ranks(&self) -> usize {
        self.endpoint.size()
    }

    /// What the executors of source and sink need to know.
    fn user_side(&mut self) -> (Waker, Clock) {
        (self.endpoint.transport().waker(), self.master.clock)
    }

    /// A source with these tasks: at an executor as the farm has one, or here if they are the framework's own (`plain`).
    pub(in super::super) fn source<T: Iterator<Item = I> + Send + 'scope>(
        &mut self,
        scope: &'scope Scope<'scope, 'env>,
        tasks: T,
        plain: bool,
    ) -> Result<TaskSource<'scope, 'env, T>> {
        let choice = if plain { Choice::Inline } else { self.master.user_driver };
        TaskSource::new(scope, choice, self.user_side(), &self.master.name, tasks)
    }

    /// A delivery to this sink; `plain` as in [`source`](MasterRun::source).
    pub(in super::super) fn delivery<S: Sink<O> + 'scope>(
        &mut self,
        scope: &'scope Scope<'scope, 'env>,
        sink: S,
        plain: bool,
    ) -> Result<Delivery<'scope, 'env, O, S>> {
        let choice = if plain { Choice::Inline } else { self.master.user_driver };
        Delivery::new(scope, choice, self.user_side(), &self.master.name, sink)
    }

    /// Sees a stream of tasks through: every result, or failed task, goes to the sink once.
    ///
    /// # Errors
    /// What ends the job: the sink's error, a task that failed where that is to end it, nobody left to compute.
    pub(in super::super) fn stream<S: Sink<O> + 'scope>(
        &mut self,
        source: &mut dyn Source<I>,
        delivery: &mut Delivery<'scope, 'env, O, S>,
    ) -> Result<()> {
        // What the journal knows is not handed out.
        let (left, is_certain) = source.left();
        let known = self.master.journal.as_ref().map_or(0, ResultJournal::known_tasks);
        self.master.state.begin((left.saturating_sub(known), is_certain), self.master.clock.now());
        self.take(Stream::new(source, delivery))
    }

    /// Does `work` of the caller's beside the communication, so that the workers hear of this rank meanwhile.
    pub(in super::super) fn beside<R: Send>(&mut self, work: impl FnOnce() -> R + Send) -> Result<R> {
        if !self.endpoint.capabilities().threads || self.endpoint.size() == 1 {
            return Ok(work());
        }
        std::thread::scope(|scope| {
            let waker = self.endpoint.transport().waker();
            let thread = scope.spawn(move || {
                let result = user_code::call(|| Ok::<_, Error>(work()));
                waker.wake();
                result
            });
            let busy = "in the caller's code, which makes tasks";
            let waited = self.wait_until(Some(busy), |_, _| Ok(thread.is_finished()));
            // The scope waits for the caller's work, however long it takes.
            waited.inspect_err(|error| self.endpoint.report(error))?;
            let result = thread.join().unwrap_or_else(|payload| Err(user_code::in_framework(&*payload)));
            result.map_err(|e| self.master.here(e))
        })
    }
}
