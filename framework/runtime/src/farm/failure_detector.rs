//! The watch over silent ranks. The master loses a worker that gives no sign of life and goes on without it; a worker
//! that loses its master ends with an error.

use std::time::Duration;

use super::messages::{ExecutionMode, Status, ToMaster, ToWorker};
use super::state::{LastActivity, WorkerState, WorkerTable};
use super::trail::TrailReader;
use crate::comm::HEARTBEAT_PERIOD;
use crate::comm::Reminder;
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::session::Config;

/// Signs of life, by rank.
#[derive(Debug)]
pub(crate) struct FailureDetector {
    every: Duration,
    next: Duration,
    /// Silence after which a worker is dead if a thread of it always communicates, and may be dead if it computes there as
    /// long as chunks are short.
    silence: Duration,
    /// Silence after which one is dead that computes there, and the master.
    peer_limit: Duration,
    /// The same for one that has not come to the farm: it may be in code of the caller's.
    join_limit: Duration,
    last_status: Vec<Option<Status>>,
    /// Whether a rank has shown by what it sent that it has come to the farm.
    present: Vec<bool>,
    /// Since when a worker has said that it has nothing, although it was given something; as the endpoint counts silence.
    empty: Vec<Option<Duration>>,
    /// Says which ranks have not come to the farm.
    reminder: Reminder,
}

/// A worker that is not to be reckoned with, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) rank: usize,
    /// Whether it is dead. Otherwise it may just be in a task that takes longer than the ones before.
    pub(crate) certain: bool,
    /// Whether it may have died of what it was doing: not where its process is seen to live, though it says nothing.
    pub(crate) died: bool,
    pub(crate) why: String,
}

impl FailureDetector {
    /// Begins to watch; what was heard before this run says nothing about it.
    pub(crate) fn new(endpoint: &mut Endpoint, silence: Duration, config: &Config) -> Self {
        let (now, size) = (endpoint.clock().now(), endpoint.size());
        endpoint.look(now);
        (0..size).for_each(|rank| endpoint.heard_now(rank));
        let every = HEARTBEAT_PERIOD.min(silence / 4);
        FailureDetector {
            every,
            next: now + every,
            silence,
            peer_limit: config.peer_limit,
            join_limit: config.join_limit,
            last_status: vec![None; size],
            present: vec![false; size],
            empty: vec![None; size],
            reminder: Reminder::new(),
        }
    }

    /// A rank belongs to this one from now on, or leads it: what was heard before says nothing about it.
    /// One that has come to the farm may compute on the thread that communicates.
    pub(crate) fn expect(&mut self, endpoint: &mut Endpoint, rank: usize, has_come: bool) {
        endpoint.heard_now(rank);
        let status = Status { task: Some(u64::MAX), waiting: 0, mode: ExecutionMode::Inline };
        (self.last_status[rank], self.present[rank], self.empty[rank]) =
            (has_come.then_some(status), has_come, None);
    }

    /// Whether it is time for a round.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        self.last_status.len() > 1 && now >= self.next
    }

    /// Takes a sign of life in.
    pub(crate) fn on_status(&mut self, from: usize, status: Status) {
        if status.task.is_some() || status.waiting > 0 {
            self.empty[from] = None;
        }
        self.present[from] = true;
        self.last_status[from] = Some(status);
    }

    /// A rank has sent something else: it is here, and not idle.
    pub(crate) fn active(&mut self, rank: usize) {
        self.present[rank] = true;
        self.empty[rank] = None;
    }

    /// The master's round: gives signs of life, and returns who is lost.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] when a rank has died, or been silent for too long, that has not come to the farm: it was no worker
    /// yet that others could stand in for, but in the caller's own code.
    pub(crate) fn over_workers(
        &mut self,
        endpoint: &mut Endpoint,
        workers: &WorkerTable,
        mine: &Status,
        now: Duration,
    ) -> Result<Vec<Loss>> {
        self.next = now + self.every;
        let here = endpoint.look(now);
        let mut lost = Vec::new();
        let away = |rank: &usize| workers.state_of(*rank) == WorkerState::Expected && !self.present[*rank];
        let away: Vec<usize> = (1..self.last_status.len()).filter(away).collect();
        let longest = away.iter().map(|&rank| endpoint.silence(rank)).max().unwrap_or_default();
        if self.reminder.is_due(longest) {
            log::warn!("rank(s) {away:?} have not come to the farm within {:.0} s", longest.as_secs_f64());
        }
        for rank in 1..self.last_status.len() {
            let state = workers.state_of(rank);
            if matches!(state, WorkerState::Dead | WorkerState::Left | WorkerState::Delegated) {
                // One that timed_out in an earlier run waits for the end of the job.
                if endpoint.is_staying(rank) {
                    ToWorker::Status(mine.clone()).send(endpoint, rank)?;
                }
                continue;
            }
            ToWorker::Status(mine.clone()).send(endpoint, rank)?;
            let silent = endpoint.silence(rank);
            let status = self.last_status[rank].as_ref();
            let longest = self.peer_limit.max(self.silence);
            let (limit, certain) = match status.map(|status| status.mode) {
                // It may still be busy with the caller's own work.
                _ if !self.present[rank] => (self.join_limit, true),
                Some(ExecutionMode::Inline) => (longest, true),
                Some(ExecutionMode::Interleaved) if state == WorkerState::Suspected => (longest, true),
                Some(ExecutionMode::Interleaved) => (self.silence, false),
                _ => (self.silence, true),
            };
            let ended = endpoint.has_ended(rank);
            if (ended || silent > limit) && !self.present[rank] {
                let text = match ended {
                    true => format!("the process of rank {rank} has ended before it came to the farm"),
                    false => {
                        format!(
                            "has waited {:.0} s for rank {rank} to come to the farm",
                            silent.as_secs_f64()
                        )
                    }
                };
                return Err(Error::new(ErrorKind::Timeout, text).at_rank(endpoint.rank()));
            }
            if ended || silent > limit {
                let why = match ended {
                    true => "its process has ended".to_string(),
                    false => format!("no sign of life for {:.1} s", silent.as_secs_f64()),
                };
                let died = ended || (endpoint.is_process() && !endpoint.is_seen(rank));
                lost.push(Loss { rank, certain: certain || ended, died, why });
                continue;
            }
            // A message that is on its way does not take long; one that never comes must not be waited for.
            let idle = status.is_some_and(|s| s.task.is_none() && s.waiting == 0) && workers.held(rank) > 0;
            let since = if idle { Some(*self.empty[rank].get_or_insert(here)) } else { None };
            self.empty[rank] = since;
            if since.is_some_and(|since| here.saturating_sub(since) > self.peer_limit) {
                let why = "it says that it has none of the tasks it was given".into();
                lost.push(Loss { rank, certain: true, died: false, why });
            }
        }
        Ok(lost)
    }

    /// What a rank that is lost was doing, by the trail that it has left or by its last word; `died` says whether it may
    /// have died of that.
    pub(crate) fn last_activity(
        &self,
        trails: Option<&TrailReader>,
        rank: usize,
        died: bool,
    ) -> LastActivity {
        if !died {
            return LastActivity::Innocent;
        }
        match trails.and_then(TrailReader::read) {
            Some((id, task)) => LastActivity::Chunk { id, task },
            // What waits at the compute side has no number.
            None => LastActivity::Behind(
                self.last_status[rank].as_ref().and_then(|status| status.task).filter(|&t| t != u64::MAX),
            ),
        }
    }

    /// A worker's round: gives a sign of life.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] when the master gives none.
    pub(crate) fn over_master(
        &mut self,
        endpoint: &mut Endpoint,
        master: usize,
        mine: &Status,
        now: Duration,
    ) -> Result<()> {
        self.next = now + self.every;
        ToMaster::Status(mine.clone()).send(endpoint, master)?;
        let silent = endpoint.silence(master);
        // Before its first word it may be busy with the caller's own work.
        let limit = if self.present[master] { self.peer_limit } else { self.join_limit };
        // Rank 0 must have time to see that a sub-master is dead, and to take its place.
        let limit = if master == 0 { limit } else { limit + self.peer_limit };
        let text = if endpoint.has_ended(0) {
            "rank 0, the farm's master, has died, and nothing can go on without it".to_string()
        } else if silent > limit {
            format!(
                "has waited {:.0} s for a sign of life from rank {master}, the farm's master: it must be dead, and \
                 nothing can go on without it",
                silent.as_secs_f64()
            )
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Timeout, text).at_rank(endpoint.rank()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::TaskTable;
    use super::*;
    use crate::comm::local::{LocalTransport, World};

    fn endpoint(rank: usize, size: usize) -> Endpoint {
        Endpoint::new(Box::new(LocalTransport::open(World::new(size), rank)), Duration::from_millis(1))
    }

    fn status(task: Option<u64>, mode: ExecutionMode) -> Status {
        Status { task, waiting: 0, mode }
    }

    fn detector(endpoint: &mut Endpoint) -> FailureDetector {
        let config = Config::new().peer_limit(Duration::from_secs(60));
        FailureDetector::new(endpoint, Duration::from_secs(10), &config)
    }

    #[test]
    fn a_silent_worker_is_lost_and_one_that_computes_on_its_only_thread_has_more_time() {
        let mut endpoint = endpoint(0, 4);
        let mut detector = detector(&mut endpoint);
        let mut master = TaskTable::<u8, ()>::new(4, 0);
        (0..4).for_each(|r| master.workers_mut().set(r, WorkerState::Active));
        let start = endpoint.clock().now();
        for (rank, mode) in
            [(1, ExecutionMode::OnThread), (2, ExecutionMode::Interleaved), (3, ExecutionMode::Inline)]
        {
            detector.active(rank);
            detector.last_status[rank] = Some(status(Some(1), mode));
        }
        let mut before = 0;
        let mut lost = |seconds, workers: &WorkerTable| {
            let mine = status(None, ExecutionMode::OnThread);
            let now = endpoint.look_on(start, (std::mem::replace(&mut before, seconds), seconds));
            let lost = detector.over_workers(&mut endpoint, workers, &mine, now).unwrap();
            lost.into_iter().map(|l| (l.rank, l.certain)).collect::<Vec<_>>()
        };
        assert!(lost(9, master.workers()).is_empty());
        assert_eq!(lost(12, master.workers()), [(1, true), (2, false)]);
        master.workers_mut().set(1, WorkerState::Dead);
        master.workers_mut().set(2, WorkerState::Suspected);
        assert!(lost(59, master.workers()).is_empty(), "what may be is not said twice");
        assert_eq!(lost(61, master.workers()), [(2, true), (3, true)]);
    }

    #[test]
    fn a_job_that_was_stopped_as_a_whole_loses_nobody() {
        let (mut endpoint, mut other) = (endpoint(0, 3), endpoint(1, 3));
        let (mut detector, mut its) = (detector(&mut endpoint), detector(&mut other));
        let mut master = TaskTable::<u8, ()>::new(3, 0);
        (0..3).for_each(|r| master.workers_mut().set(r, WorkerState::Active));
        for rank in 0..3 {
            detector.active(rank);
            its.active(rank);
        }
        let mine = status(None, ExecutionMode::OnThread);
        let mut on = |(from, to)| {
            let start = endpoint.clock().now();
            let now = endpoint.look_on(start, (from, to));
            let lost = detector.over_workers(&mut endpoint, master.workers(), &mine, now).unwrap().len();
            let start = other.clock().now();
            let now = other.look_on(start, (from, to));
            (lost, its.over_master(&mut other, 0, &mine, now).is_ok())
        };
        assert_eq!(on((0, 9)), (0, true));
        assert_eq!(on((1_000, 1_000)), (0, true), "the first look after that");
        assert_eq!(on((1_000, 1_002)), (2, true), "now they have had time to say something");
    }

    #[test]
    fn a_worker_that_says_it_has_nothing_is_not_waited_for_for_ever() {
        let mut endpoint = endpoint(0, 3);
        let mut detector = detector(&mut endpoint);
        let mut master = TaskTable::<u8, ()>::new(3, 0);
        (0..2).for_each(|r| master.workers_mut().set(r, WorkerState::Active));
        master.workers_mut().set(2, WorkerState::Left);
        master.give(1, (0, 1), Default::default(), (), Duration::ZERO);
        detector.last_status[1] = Some(status(None, ExecutionMode::OnThread));
        let start = endpoint.clock().now();
        let mut before = 0;
        let mut lost = |seconds| {
            let now = endpoint.look_on(start, (std::mem::replace(&mut before, seconds), seconds));
            endpoint.heard_now(1);
            detector
                .over_workers(&mut endpoint, master.workers(), &status(None, ExecutionMode::OnThread), now)
                .unwrap()
                .len()
        };
        assert_eq!((lost(1), lost(50), lost(60), lost(63)), (0, 0, 0, 1));
    }

    #[test]
    fn a_rank_that_never_comes_was_no_worker_whose_place_could_be_taken() {
        let mut endpoint = endpoint(0, 2);
        let config = Config::new().join_limit(Duration::from_secs(60));
        let mut detector = FailureDetector::new(&mut endpoint, Duration::from_secs(10), &config);
        let mut master = TaskTable::<u8, ()>::new(2, 0);
        master.workers_mut().set(0, WorkerState::Active);
        let (start, mine) = (endpoint.clock().now(), status(None, ExecutionMode::OnThread));
        let now = endpoint.look_on(start, (0, 59));
        assert!(detector.over_workers(&mut endpoint, master.workers(), &mine, now).unwrap().is_empty());
        let now = endpoint.look_on(start, (59, 61));
        let error = detector.over_workers(&mut endpoint, master.workers(), &mine, now).unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::Timeout, "has waited 61 s for rank 1 to come to the farm")
        );
    }

    #[test]
    fn a_worker_ends_when_its_master_falls_silent() {
        let mut endpoint = endpoint(1, 3);
        let mut detector = detector(&mut endpoint);
        let start = endpoint.clock().now();
        let mine = status(None, ExecutionMode::OnThread);
        let late = endpoint.look_on(start, (0, 100));
        detector.over_master(&mut endpoint, 0, &mine, late).unwrap();
        detector.active(0);
        let error = detector.over_master(&mut endpoint, 0, &mine, late).unwrap_err();
        assert_eq!((error.kind(), error.rank()), (ErrorKind::Timeout, Some(1)));
        assert!(error.message().contains("from rank 0, the farm's master"), "{error}");
    }
}
