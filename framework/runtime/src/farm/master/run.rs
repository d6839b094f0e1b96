//! Run of a farm on rank 0, phase by phase.

use std::marker::PhantomData;
use std::thread::Scope;

use super::super::delivery::{Delivery, Sink};
use super::super::result_journal::ResultJournal;
use super::super::task_runner::{Command, TaskRunner};
use super::super::task_source::{Source, TaskSource, Tasks};
use super::MasterRank;
use super::phase::{MasterPhase, PhaseProtocol, TaskStream, Waiting};
use crate::comm::Waker;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, Result};
use crate::rank::driver::RankDriver;
use crate::rank::protocol::Outgoing;
use crate::session::Driver;
use crate::user_code;

pub(in super::super) struct MasterRun<'a, 'scope, 'env, 'w, 'f> {
    pub(in super::super) master: MasterRank,
    pub(super) endpoint: &'a mut Endpoint,
    pub(super) driver: RankDriver<'scope, 'env, TaskRunner<'w, 'f>>,
}

impl<'a, 'scope, 'env, 'w: 'scope, 'f: 'scope> MasterRun<'a, 'scope, 'env, 'w, 'f> {
    pub(in super::super) fn begin(
        mut master: MasterRank,
        endpoint: &'a mut Endpoint,
        mut driver: RankDriver<'scope, 'env, TaskRunner<'w, 'f>>,
    ) -> Result<Self> {
        if let Some(count) = master.options.sub_masters {
            master.split(count, "set by the program", &mut Outgoing::new(endpoint))?;
        }
        if master.state.computes {
            driver.submit(Command::SetUp)?;
        }
        Ok(MasterRun { master, endpoint, driver })
    }

    fn take(&mut self, phase: impl MasterPhase) -> Result<()> {
        let mut protocol = PhaseProtocol { master: &mut self.master, phase, code: PhantomData };
        self.driver.run_until_finished(self.endpoint, &mut protocol)
    }

    /// Receives messages and runs tasks on rank 0, but dispatches none, until the condition `until` is true. `busy` describes, for
    /// progress messages, the program's code that runs in the meantime.
    pub(super) fn wait_until(
        &mut self,
        busy: Option<&'static str>,
        until: impl FnMut(&mut MasterRank, &mut Outgoing<'_>) -> Result<bool>,
    ) -> Result<()> {
        self.take(Waiting::until(until, busy))
    }

    fn user_side(&mut self) -> (Waker, Clock) {
        (self.endpoint.transport().waker(), self.master.clock)
    }

    /// Creates the source, which calls the iterator of tasks on the thread that the program has chosen, or on the communicating thread if the
    /// iterator is the framework's own (`plain`).
    pub(in super::super) fn source(
        &mut self,
        scope: &'scope Scope<'scope, 'env>,
        tasks: Box<dyn Tasks + 'scope>,
        plain: bool,
    ) -> Result<TaskSource<'scope, 'env>> {
        let choice = if plain { Driver::Inline } else { self.master.user_driver };
        TaskSource::new(scope, choice, self.user_side(), &self.master.name, tasks)
    }

    /// Creates the delivery, which calls the sink on the thread that the program has chosen, or on the communicating thread if the sink is the
    /// framework's own (`plain`).
    pub(in super::super) fn delivery(
        &mut self,
        scope: &'scope Scope<'scope, 'env>,
        sink: Box<dyn Sink + 'scope>,
        plain: bool,
    ) -> Result<Delivery<'scope, 'env>> {
        let choice = if plain { Driver::Inline } else { self.master.user_driver };
        Delivery::new(scope, choice, self.user_side(), &self.master.name, sink)
    }

    /// Runs a stream of tasks: every result or failed task is passed to the sink once.
    ///
    /// # Errors
    /// Any error that ends the job, such as an error of the sink or the loss of all ranks that run tasks.
    pub(in super::super) fn stream(
        &mut self,
        source: &mut dyn Source,
        delivery: &mut Delivery<'scope, 'env>,
    ) -> Result<()> {
        let (left, is_certain) = source.left();
        let known = self.master.journal.as_ref().map_or(0, ResultJournal::known_tasks);
        self.master.state.begin((left.saturating_sub(known), is_certain), self.master.clock.now());
        self.take(TaskStream::new(source, delivery))
    }

    /// Runs `work` of the caller on a thread, so that rank 0 sends heartbeats to the workers meanwhile.
    pub(in super::super) fn on_thread<R: Send>(&mut self, work: impl FnOnce() -> R + Send) -> Result<R> {
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
            // Rank 0 reports the error to the other ranks before the scope of threads ends, because the end of the scope waits for `work`, which may
            // take long.
            waited.inspect_err(|error| self.endpoint.report(error))?;
            let result = thread.join().unwrap_or_else(|payload| Err(user_code::in_framework(&*payload)));
            result.map_err(|e| self.master.here(e))
        })
    }
}
