//! Handling of ranks that die, fall silent or hang, and of the tasks that they held, on rank 0.

use std::ops::Range;

use armature_text::shown;

use super::super::chunk_result::Failure;
use super::super::delivery::Deliver;
use super::super::failure_detector::Loss;
use super::super::messages::ToWorker;
use super::super::resequencer::ResultRun;
use super::super::state::{PendingTasks, Sent, Share, WorkerState};
use super::MasterRank;
use crate::error::{Error, ErrorKind, Result};
use crate::failed_task::FailedTask;
use crate::observe::Event;
use crate::rank::heartbeat::{HeartbeatState, Silence, Watch};
use crate::rank::protocol::Outgoing;
use crate::tasks::{Attempts, Blame, LastActivity};

fn describe(tasks: Range<u64>) -> String {
    match tasks.end - tasks.start {
        1 => format!("task {}", tasks.start),
        _ => format!("one of the tasks {} to {}", tasks.start, tasks.end - 1),
    }
}

fn count(chunks: &[Sent]) -> u64 {
    chunks.iter().map(|chunk| u64::from(chunk.count)).sum()
}

impl MasterRank {
    pub(super) fn on_timeout(
        &mut self,
        worker: usize,
        task: u64,
        delivery: &mut dyn Deliver,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        if !matches!(self.state.workers().state_of(worker), WorkerState::Active | WorkerState::Parked) {
            return Ok(());
        }
        let limit = self.options.task_limit.unwrap_or_default();
        let why = format!("task {task} has exceeded the limit of {limit:?}");
        let chunks = self.take_chunks_of(worker, WorkerState::TimedOut);
        let tasks = count(&chunks);
        log::warn!("farm {}: {tasks} tasks of rank {worker} are requeued: {why}", shown(&self.name));
        self.record_event(|| Event::Lost { rank: worker, tasks, why });
        for chunk in chunks {
            let hangs = chunk.first..chunk.first + u64::from(chunk.count);
            if !hangs.contains(&task) {
                self.requeue(&chunk, 0..chunk.count, chunk.attempts, None)?;
                continue;
            }
            let place = (task - chunk.first) as u32;
            for others in [0..place, place + 1..chunk.count] {
                self.requeue(&chunk, others, chunk.attempts, None)?;
            }
            let message = format!("exceeded the limit of {limit:?}");
            self.retry_or_fail(
                &chunk,
                worker,
                &[Failure { place, panicked: false, message }],
                delivery,
                out,
            )?;
        }
        self.adjust_workers(out)?;
        self.somebody_is_left()
    }

    pub(super) fn watch(&self, rank: usize) -> Watch {
        self.detector.watch_worker(rank, self.state.workers().state_of(rank))
    }

    pub(super) fn on_heartbeat(
        &mut self,
        from: usize,
        heartbeat_state: &HeartbeatState,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        self.readmit(from, out)?;
        let here = out.endpoint().record_poll(self.clock.now());
        let loss =
            self.detector.on_heartbeat(from, heartbeat_state, self.state.workers().held(from), here)?;
        loss.map_or(Ok(()), |loss| self.lose(&loss, out))
    }

    pub(super) fn on_silence(&mut self, silence: &Silence, out: &mut Outgoing<'_>) -> Result<()> {
        let state = self.state.workers().state_of(silence.rank);
        let loss = self.detector.lose(silence, state, out.endpoint());
        self.lose(&loss, out)
    }

    pub(super) fn lose(&mut self, loss: &Loss, out: &mut Outgoing<'_>) -> Result<()> {
        let (rank, leads) = (loss.rank, self.state.groups.is_leader(loss.rank));
        // The death of a sub-master is not attributed to its tasks, because its members run them.
        let died = loss.died && loss.certain && !leads;
        let last_activity = self.detector.last_activity(rank, died);
        self.lose_with(loss, Vec::new(), last_activity, out)
    }

    /// Handles the loss of a rank like [`lose`](MasterRank::lose). The rank also held `chunks`, which a sub-master had sent to it.
    pub(super) fn lose_with(
        &mut self,
        loss: &Loss,
        mut chunks: Vec<Sent>,
        last_activity: LastActivity,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let state = if loss.certain { WorkerState::Dead } else { WorkerState::Suspected };
        chunks.extend(self.take_chunks_of(loss.rank, state));
        self.reassign(loss, &chunks, last_activity)?;
        if loss.certain {
            out.endpoint().lose(loss.rank, &loss.why);
            self.adopt(loss.rank, out)?;
        }
        self.adjust_workers(out)?;
        if self.options.fail_fast
            && let Some(pending) = self.state.tasks.take_abandoned()
        {
            return Err(self.death_of(pending.first, &pending).1);
        }
        self.somebody_is_left()
    }

    pub(super) fn reassign(
        &mut self,
        loss: &Loss,
        chunks: &[Sent],
        last_activity: LastActivity,
    ) -> Result<()> {
        let Loss { rank, certain, died, ref why } = *loss;
        let mut blamed_tasks = Vec::new();
        // If the lost rank may be alive, or seems not to have died of a task, one of its tasks may have killed it nevertheless. Rank 0 then runs
        // these tasks only if no other rank can.
        let avoid = (!certain || !died).then_some(0);
        let reassigned = self.state.assess_loss(loss, chunks, last_activity);
        let mut recalled = Vec::new();
        for (_, Share { chunk, places, blame }) in &reassigned {
            let (chunk, Range { start, end }) = (&chunks[*chunk], places);
            let tasks = chunk.first + u64::from(*start)..chunk.first + u64::from(*end);
            if *blame != Blame::Innocent {
                recalled.extend(self.state.tasks.recall_other(chunk, tasks));
            }
        }
        for (attempts, Share { chunk, places, blame }) in reassigned {
            let chunk = &chunks[chunk];
            if blame != Blame::Innocent {
                let tasks = chunk.first + u64::from(places.start)..chunk.first + u64::from(places.end);
                blamed_tasks.push(describe(tasks.clone()));
                if !chunk.superseded {
                    self.record_attempts(tasks, attempts)?;
                }
            }
            self.requeue(chunk, places, attempts, avoid)?;
        }
        for chunk in recalled {
            self.requeue(&chunk, 0..chunk.count, chunk.attempts, None)?;
        }
        self.state.tasks.clear_suspicions();
        let tasks = count(chunks);
        let running = match blamed_tasks.is_empty() {
            true => String::new(),
            false => format!("; it was running {}", blamed_tasks.join(" or ")),
        };
        log::warn!("farm {}: {tasks} tasks of rank {rank} are requeued: {why}{running}", shown(&self.name));
        let why = format!("{why}{running}");
        self.record_event(|| Event::Lost { rank, tasks, why });
        Ok(())
    }

    pub(super) fn fail_abandoned(&mut self, delivery: &mut dyn Deliver) -> Result<()> {
        while !self.state.stopped
            && let Some(pending) = self.state.tasks.take_abandoned()
        {
            for task in pending.first..pending.first + pending.tasks.len() as u64 {
                let (failed, error) = self.death_of(task, &pending);
                if self.options.fail_fast {
                    return Err(error);
                }
                self.state.died_of.push(task);
                self.state.tasks.ended(1, 1);
                self.keep_and_deliver(task, (ResultRun::Failed(failed), 0), delivery)?;
            }
        }
        Ok(())
    }

    /// Returns the failure of a task that no rank may run any more, because ranks may have died in it: as a failed task for the sink,
    /// and as an error for a run that ends with the first failed task.
    fn death_of(&self, task: u64, pending: &PendingTasks) -> (FailedTask, Error) {
        let failed = self.state.deaths.failure(task, pending.attempts, self.state.tasks.tries());
        let error = self.here(Error::new(failed.kind, failed.with_tries()).on_item(failed.task));
        (failed, error)
    }

    /// Makes a rank that had fallen silent active again, because it has sent a message. If more ranks are active then than should run tasks, some are
    /// parked (get no tasks).
    pub(super) fn readmit(&mut self, rank: usize, out: &mut Outgoing<'_>) -> Result<()> {
        if !self.state.readmit(rank) {
            return Ok(());
        }
        log::info!("farm {}: rank {rank} sends heartbeats again", shown(&self.name));
        self.record_event(|| Event::Heard { rank });
        if !self.state.ending {
            // Cancels an order to park that the rank may have received before it fell silent: rank 0 no longer counts the rank as
            // parked.
            out.send(rank, ToWorker::Park(false))?;
        }
        self.adjust_workers(out)
    }

    fn take_chunks_of(&mut self, rank: usize, state: WorkerState) -> Vec<Sent> {
        self.detector.flight_records.close(rank);
        self.state.take_chunks_of(rank, state)
    }

    /// Requeues the tasks of a chunk at the positions `places`. Rank `avoid` runs them only if no other rank can.
    pub(super) fn requeue(
        &mut self,
        chunk: &Sent,
        places: Range<u32>,
        attempts: Attempts,
        avoid: Option<usize>,
    ) -> Result<()> {
        let place = |place: u32| chunk.first + u64::from(place);
        for Range { start: first, end } in
            self.state.tasks.take_back(chunk, place(places.start)..place(places.end))
        {
            let mut tasks = self.unpack(chunk)?;
            drop(tasks.split_off((end - chunk.first) as usize));
            if first > chunk.first {
                tasks = tasks.split_off((first - chunk.first) as usize);
            }
            self.state.requeue(PendingTasks { first, tasks, attempts, avoid });
        }
        Ok(())
    }

    /// # Errors
    /// [`ErrorKind::Timeout`] if every rank that runs tasks is lost.
    fn somebody_is_left(&self) -> Result<()> {
        if self.state.somebody_is_left() {
            return Ok(());
        }
        let (lost, tasks) = (&self.state.lost, self.state.tasks.describe());
        let text = format!("no rank is left to run tasks: ranks {lost:?} are lost; {tasks}");
        // Lost ranks are a failure of machines, not of the program, so a restarted job may succeed.
        Err(self.here(Error::new(ErrorKind::Timeout, text)))
    }
}
