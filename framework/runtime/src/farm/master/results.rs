//! Handling of results and failed tasks on rank 0, from their arrival to their delivery to the sink.

use std::ops::Range;

use super::super::chunk_result::{ChunkResult, Failure};
use super::super::delivery::Deliver;
use super::super::messages::{ChunkHeader, Entry, Payload, ResultHeader, Times};
use super::super::resequencer::ResultRun;
use super::super::state::{PendingTasks, Sent};
use super::MasterRank;
use crate::error::{Error, ErrorKind, Result};
use crate::failed_task::FailedTask;
use crate::rank::protocol::Outgoing;
use crate::tasks::Attempts;
use crate::wire::erased::Items;

impl MasterRank {
    pub(super) fn on_results(
        &mut self,
        from: usize,
        entries: Vec<Entry>,
        delivery: &mut dyn Deliver,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        for entry in entries {
            if entry.by >= out.ranks() {
                let text = format!("a result of rank {} arrived, but there is no such rank", entry.by);
                return Err(Error::new(ErrorKind::Wire, text).at_rank(from));
            }
            self.on_result(from, entry, delivery, out)?;
            if self.state.stopped {
                break;
            }
        }
        Ok(())
    }

    /// Handles the result of a chunk, which a member has computed if `worker` is a sub-master.
    pub(super) fn on_result(
        &mut self,
        worker: usize,
        entry: Entry,
        delivery: &mut dyn Deliver,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let (begin, by) = (self.clock.now(), entry.by);
        let (done, payload) = entry.decode_result().map_err(|e| e.at_rank(by))?;
        self.detector.record_message(worker);
        let now = self.clock.now();
        let Some((chunk, is_last)) = self.state.take_result([worker, by], &done, now) else {
            return Ok(());
        };
        if (done.first, done.count) != (chunk.first, chunk.count) {
            let text = format!("the result of chunk {} is of other tasks than the chunk", done.id);
            return Err(Error::new(ErrorKind::Wire, text).at_rank(worker));
        }
        let count = done.count as usize - done.failures.len();
        let bytes = payload.len();
        self.state.traffic.received(done.count.into(), done.times.took, bytes);
        self.state.window.received(count as u64, bytes);
        let results = self.codecs.results.decode(payload.head, payload.parts, count).map_err(|e| {
            let text = format!("{} (in the results of {} tasks)", e.message(), done.count);
            Error::new(e.kind(), text).on_item(done.first).in_farm(&self.name).at_rank(worker)
        })?;
        self.settle(&done, by, (&chunk, is_last), (results, bytes as u64), delivery, out)?;
        self.controller.received(done.count, bytes, done.times.sum, self.clock.now().saturating_sub(begin));
        Ok(())
    }

    pub(super) fn on_own_result(
        &mut self,
        header: ChunkHeader,
        times: Times,
        result: ChunkResult,
        delivery: &mut dyn Deliver,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let ChunkHeader { id, first, count, .. } = header;
        let done = ResultHeader { id, first, count, failures: result.failures, times };
        let taken = self.state.take_result([0, 0], &done, self.clock.now());
        let Some((chunk, is_last)) = taken else { return Ok(()) };
        let bytes = result.results.weigh();
        self.state.traffic.received_bytes(count.into(), bytes);
        self.state.window.received(result.results.len() as u64, bytes);
        self.settle(&done, 0, (&chunk, is_last), (result.results, bytes as u64), delivery, out)
    }

    fn settle(
        &mut self,
        done: &ResultHeader,
        by: usize,
        (chunk, is_last): (&Sent, bool),
        (results, bytes): (Items, u64),
        delivery: &mut dyn Deliver,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        self.state.count_result(done, by, (chunk, is_last), self.clock.now());
        // Results of consecutive tasks, up to the next failed task, are delivered together.
        let each = bytes / results.len().max(1) as u64;
        let whole = done.failures.is_empty();
        let gaps = done.failures.iter().enumerate().map(|(n, failure)| failure.place as usize - n);
        let behind = done.failures.iter().map(|failure| u64::from(failure.place) + 1);
        for (place, results) in std::iter::once(0).chain(behind).zip(results.split_at(gaps)) {
            let size = if whole { bytes } else { results.len() as u64 * each };
            self.end_with_results(chunk, done.first + place, (results, size), delivery)?;
        }
        if whole { Ok(()) } else { self.retry_or_fail(chunk, by, &done.failures, delivery, out) }
    }

    /// Delivers results of tasks. Results that have already arrived from another copy of the chunk are dropped.
    fn end_with_results(
        &mut self,
        chunk: &Sent,
        mut first: u64,
        (mut results, bytes): (Items, u64),
        delivery: &mut dyn Deliver,
    ) -> Result<()> {
        let count = results.len() as u64;
        if count == 0 {
            return Ok(());
        }
        for Range { start, end } in self.state.tasks.close(chunk, first..first + count) {
            let mut run = if start > first { results.split_off((start - first) as usize) } else { results };
            results = run.split_off((end - start) as usize);
            first = end;
            let bytes = if end - start == count { bytes } else { bytes / count * (end - start) };
            self.state.tasks.ended(end - start, 0);
            self.keep_and_deliver(start, (ResultRun::Results(run), bytes), delivery)?;
        }
        Ok(())
    }

    pub(super) fn retry_or_fail(
        &mut self,
        chunk: &Sent,
        by: usize,
        failures: &[Failure],
        delivery: &mut dyn Deliver,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let failures = self.state.tasks.own_failures(chunk, failures);
        if failures.is_empty() {
            return Ok(());
        }
        let attempts = Attempts { failed: chunk.attempts.failed + 1, ..Attempts::default() };
        if attempts.is_exhausted(self.state.tasks.tries()) {
            for failure in &*failures {
                self.fail(chunk, by, failure, delivery)?;
            }
            return Ok(());
        }
        let tasks = self.unpack(chunk)?.split_at(failures.iter().map(|failure| failure.place as usize));
        for (failure, mut tasks) in failures.iter().zip(tasks.into_iter().skip(1)) {
            drop(tasks.split_off(1));
            let first = chunk.first + u64::from(failure.place);
            log::debug!("task {first} failed on rank {by} and is retried: {}", failure.message);
            self.state.requeue(PendingTasks { first, tasks, attempts, avoid: Some(chunk.worker) });
        }
        self.adjust_workers(out)
    }

    fn fail(&mut self, chunk: &Sent, by: usize, failure: &Failure, delivery: &mut dyn Deliver) -> Result<()> {
        let Failure { place, panicked, ref message } = *failure;
        let task = chunk.first + u64::from(place);
        let kind = if panicked { ErrorKind::Panic } else { ErrorKind::User };
        let tries = chunk.attempts.failed + 1;
        let failed = FailedTask { task, name: None, rank: by, tries, kind, message: message.clone() };
        if self.options.fail_fast {
            let error = Error::new(kind, failed.with_tries()).on_item(task).in_farm(&self.name);
            return Err(error.at_rank(by));
        }
        self.state.tasks.ended(1, 1);
        self.keep_and_deliver(task, (ResultRun::Failed(failed), 0), delivery)
    }

    pub(super) fn unpack(&self, chunk: &Sent) -> Result<Items> {
        let Payload { head, parts } = chunk.kept.payload.clone();
        let tasks = self.codecs.tasks.decode(head, parts, chunk.kept.count as usize);
        let mut tasks = tasks.map_err(|e| self.here(e.on_item(chunk.first)))?;
        if chunk.skip > 0 {
            tasks = tasks.split_off(chunk.skip as usize);
        }
        drop(tasks.split_off(chunk.count as usize));
        Ok(tasks)
    }

    /// Writes results to the journal, if there is one, and then passes them to the sink. Wherever the job is killed, a restarted
    /// job therefore knows every result that the sink has shown or written.
    pub(super) fn keep_and_deliver(
        &mut self,
        first: u64,
        (run, bytes): (ResultRun, u64),
        delivery: &mut dyn Deliver,
    ) -> Result<()> {
        let run = match &mut self.journal {
            Some(journal) => {
                let kept = match run {
                    ResultRun::Results(results) => {
                        journal.keep(first, results, &*self.codecs.results).map(ResultRun::Results)
                    }
                    ResultRun::Failed(failed) if journal.keeps_failures() => {
                        journal.keep_failure(&failed).map(|()| ResultRun::Failed(failed))
                    }
                    run @ ResultRun::Failed(_) => Ok(run),
                };
                let written = kept.and_then(|run| journal.tick().map(|()| run));
                written.map_err(|e| self.here(e))?
            }
            None => run,
        };
        self.deliver(first, (run, bytes), delivery)
    }

    pub(super) fn deliver(
        &mut self,
        first: u64,
        (run, bytes): (ResultRun, u64),
        delivery: &mut dyn Deliver,
    ) -> Result<()> {
        if self.state.stopped {
            return Ok(());
        }
        self.state
            .results
            .put(first, (run, bytes), &mut |first, run, bytes| delivery.put(first, run, bytes))?;
        self.update_progress(delivery);
        Ok(())
    }

    pub(super) fn update_progress(&mut self, delivery: &dyn Deliver) {
        let (undelivered, stopped) = delivery.progress();
        self.state.undelivered = undelivered;
        self.state.stopped |= stopped;
    }
}
