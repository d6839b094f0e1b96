//! A rank that does tasks: chunks come in, the executor does them, results go back to who sent the chunks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::chunk_result::Activity;
use super::link::Link;
use super::messages::{ChunkHeader, ExecutionMode, Payload, Status, ToMaster};
use super::summary::RankReport;
use super::task_runner::{Command, Outcome, Output, TaskRunner};
use crate::error::{Error, ErrorKind, Result};
use crate::rank::executor::Executor;
use crate::wire::Item;

/// See the module's page.
pub(super) struct WorkerRole<'scope, 'env, 'w, 'f, I: Item, O: Item> {
    pub(super) executor: Executor<'scope, 'env, TaskRunner<'w, 'f, I, O>>,
    /// Chunks that are not begun, each with the rank that sent it.
    inbox: VecDeque<(usize, ChunkHeader, Payload)>,
    /// Who sent the chunks that the executor has.
    senders: VecDeque<usize>,
    activity: Arc<Activity>,
    /// The last change of the activity, and when it was seen, as the endpoint counts silence.
    seen: (u64, Duration),
    task_limit: Option<Duration>,
    /// The present task has exceeded the limit, and the master knows.
    pub(super) timed_out: bool,
    pub(super) report: RankReport,
}

impl<'scope, 'env, 'w: 'scope, 'f: 'scope, I: Item, O: Item> WorkerRole<'scope, 'env, 'w, 'f, I, O> {
    /// A worker that has nothing to do at time `here`, as the endpoint counts silence.
    pub(super) fn new(
        executor: Executor<'scope, 'env, TaskRunner<'w, 'f, I, O>>,
        activity: Arc<Activity>,
        task_limit: Option<Duration>,
        here: Duration,
    ) -> Self {
        WorkerRole {
            executor,
            inbox: VecDeque::new(),
            senders: VecDeque::new(),
            activity,
            seen: (0, here),
            task_limit,
            timed_out: false,
            report: RankReport::default(),
        }
    }

    /// A chunk has come from rank `from`.
    pub(super) fn accept(&mut self, from: usize, header: ChunkHeader, payload: Payload) {
        self.inbox.push_back((from, header, payload));
    }

    /// Chunks that are not begun are dropped, unless they came from rank 0 or `superior`: they have been given to others.
    pub(super) fn keep_chunks_of(&mut self, superior: usize) {
        self.inbox.retain(|&(from, ..)| from == 0 || from == superior);
    }

    /// Chunks that are not begun are dropped.
    pub(super) fn clear(&mut self) {
        self.inbox.clear();
    }

    /// Whether a chunk waits, and the executor keeps this thread from messages while it does one.
    pub(super) fn computes_between_messages(&self) -> bool {
        self.executor.is_inline() && !self.inbox.is_empty()
    }

    /// Sends what is done and hands over what comes next. Returns whether there was anything. `led` is as in
    /// [`status`](WorkerRole::status).
    pub(super) fn compute(&mut self, link: &mut Link<'_>, led: Option<usize>) -> Result<bool> {
        let mut moved = false;
        while let Some(outcome) = self.executor.fetch()? {
            moved = true;
            match outcome {
                Outcome::SetUp { took } => {
                    self.report.warm_up = took;
                    link.announce(self.status(led))?;
                    link.warm_up = Some(took);
                    link.join(link.superior)?;
                }
                Outcome::Chunk { header, times, result: Output::Encoded(frame) } => {
                    self.report.tasks += u64::from(header.count);
                    self.report.chunks += 1;
                    self.report.busy += Duration::from_secs_f64(times.sum.max(0.0));
                    let sender = self.senders.pop_front().unwrap_or(0);
                    // A sub-master that was given up is not told.
                    if !self.timed_out && (sender == link.superior || sender == 0) {
                        link.endpoint.send_ready(sender, frame)?;
                    }
                }
                Outcome::Chunk { .. } => {
                    let text = "a worker has done a chunk for itself";
                    return Err(link.here(Error::new(ErrorKind::Wire, text)));
                }
            }
        }
        if moved {
            link.announce(self.status(led))?;
        }
        while !self.timed_out && self.executor.has_room() && !self.executor.wants_pause() {
            let Some((from, header, payload)) = self.inbox.pop_front() else { break };
            self.senders.push_back(from);
            self.executor.submit(Command::Chunk { header, payload, away: true })?;
            moved = true;
            if self.executor.is_inline() {
                break;
            }
        }
        Ok(moved)
    }

    /// Tells the master if the present task has exceeded the user's limit at time `here`, as the endpoint counts silence.
    pub(super) fn check_limit(&mut self, link: &mut Link<'_>, here: Duration) -> Result<()> {
        let (beat, task) = self.activity.get();
        if beat != self.seen.0 {
            self.seen = (beat, here);
        }
        if let (Some(limit), Some(task), false) = (self.task_limit, task, self.timed_out)
            && here.saturating_sub(self.seen.1) > limit
        {
            self.timed_out = true;
            self.inbox.clear();
            ToMaster::TimedOut { task }.send(link.endpoint, 0)?;
        }
        Ok(())
    }

    /// The rank as a sign of life describes it. If it is a sub-master, it holds `led` chunks for its members.
    pub(super) fn status(&self, led: Option<usize>) -> Status {
        let mode = match (self.executor.is_inline(), self.executor.is_fixed()) {
            // Without tasks of its own nothing keeps a sub-master from giving signs of life.
            _ if led.is_some() && self.executor.is_idle() => ExecutionMode::OnThread,
            (false, _) => ExecutionMode::OnThread,
            (true, false) => ExecutionMode::Interleaved,
            (true, true) => ExecutionMode::Inline,
        };
        // What waits at the executor is here, too.
        let task = self.activity.get().1.or_else(|| (!self.executor.is_idle()).then_some(u64::MAX));
        let waiting = self.inbox.len() + led.unwrap_or(0);
        Status { task, waiting: u32::try_from(waiting).unwrap_or(u32::MAX), mode }
    }
}
