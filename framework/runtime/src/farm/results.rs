//! What rank 0 does with results, with tasks that failed, and with ranks that are lost.

use std::cell::Cell;

use bytes::Bytes;

use armature_planner::farm::ChunkDone;

use super::desk::{Desk, Kept};
use super::machine::{Fate, Given, Giving, Piece, Suspicion, Times};
use super::order::Run;
use super::outcome::{Answer, FailedTask};
use super::parcel::{self, Done, Load};
use super::sheet::{Failure, Sheet};
use crate::comm::Part;
use crate::comm::message::Message;
use crate::error::{Error, ErrorKind, Result};
use crate::user_code;
use crate::wire::{Item, weigh_some};

impl<'scope, 'w: 'scope, 'f: 'scope, I: Item, O: Item> Desk<'_, 'scope, '_, 'w, 'f, I, O> {
    /// A worker has sent a result.
    pub(super) fn result_from(
        &mut self,
        message: Message,
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        self.result_of(message.from, message.from, message.body, message.parts, sink)
    }

    /// A result has come from `worker`; it is of a chunk that `by` has done, a worker of it if not the same.
    pub(super) fn result_of(
        &mut self,
        worker: usize,
        by: usize,
        body: Bytes,
        parts: Vec<Part>,
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        let begin = self.clock.now();
        let (done, load) = parcel::read_done(body, parts).map_err(|e| e.at_rank(by))?;
        self.watch.active(worker);
        let Some(given) = self.master.done(worker, done.id) else { return Ok(()) };
        self.budget.returned(given.kept.load.len());
        if (done.first, done.count) != (given.first, given.count) {
            let text = format!("its result is of other tasks than chunk {}", done.id);
            return Err(Error::new(ErrorKind::Wire, text).at_rank(worker));
        }
        let count = done.count as usize - done.failures.len();
        let bytes = load.len();
        self.pace.got(done.count.into(), done.times.took, bytes);
        self.budget.got(count as u64, bytes);
        let results =
            user_code::call(|| self.codecs.results.decode(load.head, load.parts, count)).map_err(|e| {
                let text = format!("{} (in the results of {} tasks)", e.message(), done.count);
                Error::new(e.kind(), text).on_item(done.first).in_farm(&self.name).at_rank(worker)
            })?;
        self.settle(&done, by, given, (results, bytes as u64), sink)?;
        self.staff.got(done.count, bytes, done.times.sum, self.clock.now().saturating_sub(begin));
        Ok(())
    }

    /// Rank 0 has done a chunk itself.
    pub(super) fn result_of_own(
        &mut self,
        giving: Giving,
        times: Times,
        sheet: Sheet<O>,
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        let Giving { id, first, count, .. } = giving;
        let Some(given) = self.master.done(0, id) else { return Ok(()) };
        self.budget.returned(given.kept.load.len());
        let bytes = weigh_some(&sheet.results);
        self.pace.made(count.into(), bytes);
        self.budget.got(sheet.results.len() as u64, bytes);
        let done = Done { id, first, count, failures: sheet.failures, times };
        self.settle(&done, 0, given, (sheet.results, bytes as u64), sink)
    }

    /// Every task of a chunk is settled: it has a result, or has failed, or is tried again. The results have `bytes` bytes.
    fn settle(
        &mut self,
        done: &Done,
        by: usize,
        given: Given<Kept>,
        (results, bytes): (Vec<O>, u64),
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        let worker = by;
        let report = &mut self.reports[worker];
        report.tasks += u64::from(done.count);
        report.chunks += 1;
        report.busy += std::time::Duration::from_secs_f64(done.times.sum.max(0.0));
        let elapsed = self.clock.now().saturating_sub(given.since);
        // Results of a sub-master's members lie there until there are more.
        if given.alone && worker != 0 && worker == given.worker {
            self.pace.exchanged(elapsed.saturating_sub(done.times.took));
        }
        let elapsed = elapsed.as_secs_f64();
        let (sum, squares) = (done.times.sum, done.times.squares);
        let worker = given.kept.sized_for;
        self.chunker.done(&ChunkDone { worker, tasks: done.count.into(), sum, squares, elapsed });
        if done.failures.is_empty() {
            self.master.ended(done.count.into(), 0);
            return self.feed(done.first, (Run::Results(results), bytes), sink);
        }
        // Results between two failures stay together.
        let each = bytes / results.len().max(1) as u64;
        let mut results = results.into_iter();
        let mut next = 0u32;
        for failure in &done.failures {
            let before: Vec<O> = results.by_ref().take((failure.place - next) as usize).collect();
            self.feed_some(done.first + u64::from(next), (before, each), sink)?;
            next = failure.place + 1;
        }
        self.feed_some(done.first + u64::from(next), (results.collect(), each), sink)?;
        self.retry_or_fail(&given, by, &done.failures, sink)
    }

    fn feed_some(
        &mut self,
        first: u64,
        (results, each): (Vec<O>, u64),
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        if results.is_empty() {
            return Ok(());
        }
        let count = results.len() as u64;
        self.master.ended(count, 0);
        self.feed(first, (Run::Results(results), count * each), sink)
    }

    /// Tasks of a chunk have failed.
    pub(super) fn retry_or_fail(
        &mut self,
        given: &Given<Kept>,
        by: usize,
        failures: &[Failure],
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        if self.master.fate(given.attempt) == Fate::Failed {
            for failure in failures {
                self.fail(given, by, failure, sink)?;
            }
            return Ok(());
        }
        let mut tasks = self.unpack(given)?.into_iter();
        let mut next = 0;
        for failure in failures {
            let Some(task) = tasks.nth((failure.place - next) as usize) else { break };
            next = failure.place + 1;
            let first = given.first + u64::from(failure.place);
            log::debug!("task {first} failed on rank {by}, again: {}", failure.message);
            let (attempt, avoid) = (given.attempt + 1, Some(given.worker));
            let suspicion = Suspicion::default();
            self.master.put_back(Piece { first, tasks: vec![task], attempt, avoid, suspicion });
            self.chunker.give_back(1);
        }
        self.restaff()
    }

    /// A task has failed for good.
    fn fail(
        &mut self,
        given: &Given<Kept>,
        by: usize,
        failure: &Failure,
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        let Failure { place, panicked, ref message } = *failure;
        let task = given.first + u64::from(place);
        if self.options.fail_fast {
            let kind = if panicked { ErrorKind::Panic } else { ErrorKind::User };
            let error = Error::new(kind, message).on_item(task).in_farm(&self.name);
            return Err(error.at_rank(by));
        }
        let attempts = given.attempt + 1;
        let failed = FailedTask { task, rank: by, attempts, panicked, message: message.clone() };
        self.master.ended(1, 1);
        self.feed(task, (Run::Failed(failed), 0), sink)
    }

    /// The tasks of a chunk that was given away.
    pub(super) fn unpack(&self, given: &Given<Kept>) -> Result<Vec<I>> {
        let Load { head, parts } = given.kept.load.clone();
        user_code::call(|| self.codecs.tasks.decode(head, parts, given.count as usize))
            .map_err(|e| e.on_item(given.first).in_farm(&self.name).at_rank(0))
    }

    /// Results have come: they are kept, if they are to be, and the sink is fed. What it gets is in the file by then, so
    /// that nothing it shows or writes is unknown to a job that is started again, wherever this one is killed.
    pub(super) fn feed(
        &mut self,
        first: u64,
        (run, bytes): (Run<O>, u64),
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        let run = match &mut self.store {
            Some(store) => {
                let kept = match run {
                    Run::Results(results) => {
                        let codec = &self.codecs.results;
                        let kept = (first..).zip(results).map(|(task, result)| {
                            store.keep(task, result, codec).map_err(|e| e.on_item(task))
                        });
                        kept.collect::<Result<_>>().map(Run::Results)
                    }
                    Run::Failed(failed) if store.keeps_failures() => {
                        store.keep_failure(&failed).map(|()| Run::Failed(failed))
                    }
                    run @ Run::Failed(_) => Ok(run),
                };
                let written = kept.and_then(|run| store.tick().map(|()| run));
                written.map_err(|e| e.in_farm(&self.name).at_rank(0))?
            }
            None => run,
        };
        self.pass_on(first, (run, bytes), sink)
    }

    /// Feeds the sink, which is the caller's code.
    pub(super) fn pass_on(
        &mut self,
        first: u64,
        (run, bytes): (Run<O>, u64),
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        if self.stopped {
            return Ok(());
        }
        let at = Cell::new(first);
        let mut noting = |number, result| {
            at.set(number);
            sink(number, result)
        };
        let answer = user_code::call(|| match self.order.put(first, (run, bytes), &mut noting) {
            Answer::Continue(()) => Ok(false),
            Answer::Break(None) => Ok(true),
            Answer::Break(Some(error)) => Err(error),
        });
        self.stopped = answer.map_err(|e| e.on_item(at.get()).in_farm(&self.name).at_rank(0))?;
        Ok(())
    }
}
