//! What rank 0 does with results, with tasks that failed, and with ranks that are lost.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;

use armature_planner::farm::ChunkDone;

use super::desk::{Desk, Kept};
use super::machine::{Fate, Given, Giving, Hung, Piece, Standing, Times};
use super::order::Run;
use super::outcome::{Answer, FailedTask};
use super::parcel::{self, Done, Load};
use super::sheet::{Failure, Sheet};
use super::watch::Loss;
use super::workbench::caught;
use crate::error::{Error, ErrorKind, Result};
use crate::monitor::Event;
use crate::session::letter::{Kind, Letter};
use crate::session::{from_user, panic_text};
use crate::transport::Part;
use crate::wire::{self, Item};

impl<'scope, 'w: 'scope, 'f: 'scope, I: Item, O: Item> Desk<'_, 'scope, '_, 'w, 'f, I, O> {
    /// A worker has sent a result.
    pub(super) fn result_from(
        &mut self,
        letter: Letter,
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        self.result_of(letter.from, letter.from, letter.body, letter.parts, sink)
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
        if (done.first, done.count) != (given.first, given.count) {
            let text = format!("its result is of other tasks than chunk {}", done.id);
            return Err(Error::new(ErrorKind::Wire, text).at_rank(worker));
        }
        let count = done.count as usize - done.failures.len();
        let bytes = load.len();
        self.pace.got(done.count.into(), done.times.took, bytes);
        let results = caught(|| self.codecs.results.decode(load.head, load.parts, count)).map_err(|e| {
            let text = format!("{} (in the results of {} tasks)", e.message(), done.count);
            Error::new(e.kind(), text).on_item(done.first).in_farm(&self.name).at_rank(worker)
        })?;
        self.settle(&done, by, given, results, sink)?;
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
        let done = Done { id, first, count, failures: sheet.failures, times };
        self.settle(&done, 0, given, sheet.results, sink)
    }

    /// Every task of a chunk is settled: it has a result, or has failed, or is tried again.
    fn settle(
        &mut self,
        done: &Done,
        by: usize,
        given: Given<Kept>,
        results: Vec<O>,
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
            return self.feed(done.first, Run::Results(results), sink);
        }
        // Results between two failures stay together.
        let mut results = results.into_iter();
        let mut next = 0u32;
        for failure in &done.failures {
            let before: Vec<O> = results.by_ref().take((failure.place - next) as usize).collect();
            self.feed_some(done.first + u64::from(next), before, sink)?;
            next = failure.place + 1;
        }
        self.feed_some(done.first + u64::from(next), results.collect(), sink)?;
        self.retry_or_fail(&given, by, &done.failures, sink)
    }

    fn feed_some(
        &mut self,
        first: u64,
        results: Vec<O>,
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        if results.is_empty() {
            return Ok(());
        }
        self.master.ended(results.len() as u64, 0);
        self.feed(first, Run::Results(results), sink)
    }

    /// Tasks of a chunk have failed.
    fn retry_or_fail(
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
            self.master.put_back(Piece { first, tasks: vec![task], attempt, avoid });
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
        self.feed(task, Run::Failed(failed), sink)
    }

    /// The tasks of a chunk that was given away.
    fn unpack(&self, given: &Given<Kept>) -> Result<Vec<I>> {
        let Load { head, parts } = given.kept.load.clone();
        caught(|| self.codecs.tasks.decode(head, parts, given.count as usize))
            .map_err(|e| e.on_item(given.first).in_farm(&self.name).at_rank(0))
    }

    /// Results have come: they are kept, if they are to be, and the sink is fed. What it gets is in the file by then, so
    /// that nothing it shows or writes is unknown to a job that is started again, wherever this one is killed.
    fn feed(
        &mut self,
        first: u64,
        run: Run<O>,
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
        self.pass_on(first, run, sink)
    }

    /// Feeds the sink, which is the caller's code.
    pub(super) fn pass_on(
        &mut self,
        first: u64,
        run: Run<O>,
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
        let answer = catch_unwind(AssertUnwindSafe(|| self.order.put(first, run, &mut noting)));
        let place = |e: Error| e.on_item(at.get()).in_farm(&self.name).at_rank(0);
        match answer {
            Ok(Answer::Continue(())) => Ok(()),
            Ok(Answer::Break(None)) => {
                self.stopped = true;
                Ok(())
            }
            Ok(Answer::Break(Some(error))) => Err(place(from_user(error, 0))),
            Err(payload) => Err(place(Error::new(ErrorKind::Panic, panic_text(&*payload)))),
        }
    }

    /// A worker has been in one task for longer than the user allows: it is not used any more.
    pub(super) fn hung(
        &mut self,
        letter: &Letter,
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        let Hung { task } = wire::from_bytes(&letter.body)?;
        let worker = letter.from;
        if !matches!(self.master.crew().standing(worker), Standing::Working | Standing::Parked) {
            return Ok(());
        }
        let limit = self.options.task_limit.unwrap_or_default();
        let why = format!("it has been in task {task} for longer than the limit of {limit:?}");
        for given in self.let_go(worker, Standing::Hung, &why) {
            let hangs = given.first..given.first + u64::from(given.count);
            if !hangs.contains(&task) {
                self.put_back_whole(&given)?;
                continue;
            }
            let place = (task - given.first) as u32;
            let mut before = self.unpack(&given)?;
            let after = before.split_off(place as usize + 1);
            before.truncate(place as usize);
            let (attempt, avoid) = (given.attempt, None);
            for (first, tasks) in [(given.first, before), (task + 1, after)] {
                self.chunker.give_back(tasks.len() as u64);
                self.master.put_back(Piece { first, tasks, attempt, avoid });
            }
            let message = format!("took longer than the limit of {limit:?}");
            self.retry_or_fail(&given, worker, &[Failure { place, panicked: false, message }], sink)?;
        }
        self.restaff()?;
        self.somebody_is_left()
    }

    /// A worker is dead, or may be: its tasks go to others.
    pub(super) fn lose(&mut self, loss: &Loss) -> Result<()> {
        let standing = if loss.certain { Standing::Dead } else { Standing::Silent };
        for given in self.let_go(loss.rank, standing, &loss.why) {
            if !loss.certain {
                self.doubtful.push(given.first..given.first + u64::from(given.count));
            }
            self.put_back_whole(&given)?;
        }
        if loss.certain {
            self.post.lose(loss.rank, &loss.why);
            self.adopt(loss.rank)?;
        }
        self.restaff()?;
        self.somebody_is_left()
    }

    /// Something has come from a rank. One that was silent takes part again, or another in its place.
    pub(super) fn hear_again(&mut self, rank: usize) -> Result<()> {
        if self.master.crew().standing(rank) != Standing::Silent {
            return Ok(());
        }
        log::info!("farm {}: rank {rank} is heard again", self.name);
        self.tell(|| Event::Heard { rank });
        self.master.crew_mut().set(rank, Standing::Working);
        if !self.groups.contains_key(&rank) {
            self.chunker.join(rank);
        }
        if !self.ending {
            // It may have been parked before.
            self.post.send(rank, Kind::Park, &false)?;
        }
        self.restaff()
    }

    fn let_go(&mut self, rank: usize, standing: Standing, why: &str) -> Vec<Given<Kept>> {
        let chunks = self.master.lose(rank, standing);
        let tasks: u64 = chunks.iter().map(|g| u64::from(g.count)).sum();
        log::warn!("farm {}: {tasks} tasks of rank {rank} go to others: {why}", self.name);
        self.chunker.leave(rank);
        if standing != Standing::Silent {
            self.lost.push(rank);
        }
        self.tell(|| Event::Lost { rank, tasks, why: why.to_string() });
        chunks
    }

    pub(super) fn put_back_whole(&mut self, given: &Given<Kept>) -> Result<()> {
        let tasks = self.unpack(given)?;
        self.chunker.give_back(given.count.into());
        self.master.put_back(Piece { first: given.first, tasks, attempt: given.attempt, avoid: None });
        Ok(())
    }

    /// # Errors
    /// If every rank that computes is lost.
    fn somebody_is_left(&self) -> Result<()> {
        let crew = self.master.crew();
        let can = |r: usize| {
            matches!(
                crew.standing(r),
                Standing::Working | Standing::Parked | Standing::Away | Standing::Silent
            )
        };
        if self.ending || (usize::from(!self.computes)..self.post.size()).any(can) {
            return Ok(());
        }
        let text = format!(
            "no rank is left that could do tasks: ranks {:?} are lost; {}",
            self.lost,
            self.master.describe()
        );
        // A fault of the machine: a job that is started again may have better luck.
        Err(Error::new(ErrorKind::Timeout, text).in_farm(&self.name).at_rank(0))
    }
}
