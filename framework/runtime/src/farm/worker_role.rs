//! Worker: a rank that runs tasks. The executor runs received chunks, and the result of each chunk is sent to the sender of the chunk.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::chunk_result::Activity;
use super::link::Link;
use super::messages::{ChunkHeader, ExecutionMode, Payload, Status, ToMaster};
use super::summary::RankReport;
use super::task_runner::{Command, Done, Output};
use crate::error::{Error, ErrorKind, Result};
use crate::rank::protocol::{Outgoing, UserCodeState};

pub(super) struct WorkerRole {
    /// Commands for this rank's computing thread, each with the rank that sent the chunk. Commands to run the remaining tasks of a chunk, whose first
    /// results have already been sent, precede commands to run new chunks.
    inbox: VecDeque<(usize, Command)>,
    /// Ranks that sent the chunks which are queued for this rank's computing thread or run on it.
    senders: VecDeque<usize>,
    activity: Arc<Activity>,
    /// Counter of [`Activity::get`] at the last check, which shows whether the rank still runs the same task, and the time at which the counter
    /// changed last, by the clock that measures how long ranks are silent.
    seen: (u64, Duration),
    task_limit: Option<Duration>,
    /// True if the current task has exceeded the time limit of tasks and the master was notified.
    pub(super) timed_out: bool,
    pub(super) report: RankReport,
}

impl WorkerRole {
    /// Creates the state of a worker without chunks. `here` is the time by the clock that measures how long ranks are silent.
    pub(super) fn new(activity: Arc<Activity>, task_limit: Option<Duration>, here: Duration) -> Self {
        WorkerRole {
            inbox: VecDeque::new(),
            senders: VecDeque::new(),
            activity,
            seen: (0, here),
            task_limit,
            timed_out: false,
            report: RankReport::default(),
        }
    }

    pub(super) fn accept(&mut self, from: usize, header: ChunkHeader, payload: Payload) {
        self.inbox.push_back((from, Command::Chunk { header, payload, away: true }));
    }

    /// Drops all queued tasks, unless rank 0 or the rank `superior` sent their chunk: other ranks run the dropped tasks.
    pub(super) fn keep_chunks_of(&mut self, superior: usize) {
        self.inbox.retain(|&(from, ..)| from == 0 || from == superior);
    }

    pub(super) fn on_done(&mut self, done: Done, link: &mut Link, out: &mut Outgoing<'_>) -> Result<()> {
        match done {
            Done::SetUp { took } => {
                self.report.warm_up = took;
                link.warm_up = Some(took);
                Ok(())
            }
            Done::Chunk { header, times, result: Output::Encoded(frame), rest } => {
                self.report.add(header.count, times.sum, rest.is_none());
                let sender = self.senders.pop_front().unwrap_or(0);
                // Results are not sent to a sub-master that no longer supplies this rank with chunks, and the remaining tasks of the chunk are
                // dropped: other ranks run the chunks of this sub-master.
                if !self.timed_out && (sender == link.superior || sender == 0) {
                    rest.into_iter().for_each(|rest| self.inbox.push_front((sender, Command::Rest(rest))));
                    out.send(sender, link.incumbent.add(sender, frame)?)?;
                }
                Ok(())
            }
            Done::Chunk { .. } => {
                let text = "a worker kept the result of a chunk instead of sending it";
                Err(link.here(Error::new(ErrorKind::Wire, text)))
            }
        }
    }

    pub(super) fn is_computing(&self) -> bool {
        self.activity.get().1.is_some()
    }

    /// Returns the next command for the computing thread: to run the remaining tasks of a begun chunk or, if there are none, to run a new chunk.
    /// `None` if no command is queued, or if the current task has exceeded the time limit.
    pub(super) fn next(&mut self) -> Option<Command> {
        if self.timed_out {
            return None;
        }
        let (from, command) = self.inbox.pop_front()?;
        self.senders.push_back(from);
        Some(command)
    }

    /// Sends the master a message if the current task has exceeded the time limit of tasks. `here` is the time by the clock that measures how long
    /// ranks are silent.
    pub(super) fn check_limit(&mut self, out: &mut Outgoing<'_>, here: Duration) -> Result<()> {
        let (beat, task) = self.activity.get();
        if beat != self.seen.0 {
            self.seen = (beat, here);
        }
        if let (Some(limit), Some(task), false) = (self.task_limit, task, self.timed_out)
            && here.saturating_sub(self.seen.1) > limit
        {
            self.timed_out = true;
            self.inbox.clear();
            out.send(0, ToMaster::TimedOut { task })?;
        }
        Ok(())
    }

    /// Describes the activity of the rank, in words that follow "rank 3: ".
    pub(super) fn describe(&self) -> String {
        let waiting = self.inbox.len();
        match self.activity.get().1 {
            Some(task) => {
                format!("in task {task} or the chunk that begins with it; {waiting} chunks waiting")
            }
            None => format!("in no task; {waiting} chunks waiting"),
        }
    }

    /// Returns the thread on which tasks of this rank run. `led` is the number of chunks that a sub-master holds for its members;
    /// `None` on a worker.
    pub(super) fn mode(led: Option<usize>, user_code: UserCodeState) -> ExecutionMode {
        match (user_code.is_inline, user_code.is_fixed) {
            // A sub-master that runs no task itself can send heartbeats at any time, like a rank whose tasks run on a separate thread.
            _ if led.is_some() && user_code.is_idle => ExecutionMode::OnThread,
            (false, _) => ExecutionMode::OnThread,
            (true, false) => ExecutionMode::Interleaved,
            (true, true) => ExecutionMode::Inline,
        }
    }

    pub(super) fn status(&self, led: Option<usize>, user_code: UserCodeState) -> Status {
        let mode = Self::mode(led, user_code);
        // While a chunk waits for the computing thread, the number of the current task is reported as unknown (`u64::MAX`).
        let task = self.activity.get().1.or_else(|| (!user_code.is_idle).then_some(u64::MAX));
        let waiting = self.inbox.len() + led.unwrap_or(0);
        Status { task, waiting: u32::try_from(waiting).unwrap_or(u32::MAX), mode }
    }
}
