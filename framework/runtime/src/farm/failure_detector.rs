//! Failure detector of a farm: decides from the heartbeats of ranks, and the time since their last message, which ranks are dead. The master
//! continues without a dead worker; a worker whose master is dead ends with an error.

use std::time::Duration;

use super::messages::{ExecutionMode, Status};
use super::state::WorkerState;
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::rank::heartbeat::{HeartbeatState, Silence, Watch};
use crate::session::Config;
use crate::tasks::{FlightRecords, LastActivity};
use crate::wire;

#[derive(Debug)]
pub(crate) struct FailureDetector {
    /// Time without a message after which a worker counts as dead if one of its threads always communicates, or as possibly dead if it runs short
    /// chunks on the communicating thread.
    silence: Duration,
    /// Time without a message after which the master counts as dead. It also applies to a worker whose user code runs on the
    /// communicating thread, because that worker sends no heartbeats meanwhile.
    peer_limit: Duration,
    /// Time without a message after which a rank that has not joined the farm is lost. Such a rank may still run code of the program before the farm.
    join_limit: Duration,
    last_status: Vec<Option<Status>>,
    /// True for ranks that have joined the farm. A rank has joined when a message of the farm has arrived from it.
    present: Vec<bool>,
    /// By rank: time since which the heartbeats of a worker report that it holds no tasks although a chunk was sent to it. The time is that of the
    /// clock that measures the silence of ranks.
    empty: Vec<Option<Duration>>,
    /// Flight records of workers on this machine: the last activity of each worker, in memory that outlives its process.
    pub(crate) flight_records: FlightRecords,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) rank: usize,
    /// False if the lost rank may still be alive, in a task that takes longer than its earlier tasks.
    pub(crate) certain: bool,
    /// True if the lost worker may have died of one of its tasks; false if its process is known to run although no message arrives, or if ranks are
    /// threads.
    pub(crate) died: bool,
    pub(crate) why: String,
}

impl FailureDetector {
    pub(crate) fn new(size: usize, silence: Duration, config: &Config) -> Self {
        FailureDetector {
            silence,
            peer_limit: config.peer_limit,
            join_limit: config.join_limit,
            last_status: vec![None; size],
            present: vec![false; size],
            empty: vec![None; size],
            flight_records: FlightRecords::default(),
        }
    }

    /// Begins to monitor a rank: a new member of this sub-master, or the rank that sends chunks to this one from now on. Earlier
    /// messages of the rank do not count. A rank that has joined the farm (`has_joined`) is assumed to compute on its communicating
    /// thread.
    pub(crate) fn expect(&mut self, endpoint: &mut Endpoint, rank: usize, has_joined: bool) {
        endpoint.reset_silence(rank);
        let status = Status { task: Some(u64::MAX), waiting: 0, mode: ExecutionMode::Inline };
        (self.last_status[rank], self.present[rank], self.empty[rank]) =
            (has_joined.then_some(status), has_joined, None);
    }

    /// Handles a heartbeat of rank `from`, to which `held` chunks were sent without a result so far. `here` is the arrival time, by
    /// the clock that measures how long ranks are silent. Returns a loss if the rank has reported for too long that it holds no tasks
    /// although chunks were sent to it.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the heartbeat is not that of a farm's rank.
    pub(crate) fn on_heartbeat(
        &mut self,
        from: usize,
        heartbeat_state: &HeartbeatState,
        held: u32,
        here: Duration,
    ) -> Result<Option<Loss>> {
        self.present[from] = true;
        // Only heartbeats of workers describe what the rank does; a heartbeat without this description comes from the master.
        if heartbeat_state.details.is_empty() {
            return Ok(None);
        }
        let status: Status = wire::from_bytes(&heartbeat_state.details)?;
        let is_idle = status.task.is_none() && status.waiting == 0 && held > 0;
        self.last_status[from] = Some(status);
        // A worker that reports that it holds no tasks is lost only after some time, because a chunk may still be in transit to it.
        let since = if is_idle { Some(*self.empty[from].get_or_insert(here)) } else { None };
        self.empty[from] = since;
        let is_lost = since.is_some_and(|since| here.saturating_sub(since) > self.peer_limit);
        let why = "it reports that it holds no tasks, although tasks were sent to it";
        Ok(is_lost.then(|| Loss { rank: from, certain: true, died: false, why: why.into() }))
    }

    /// Records that a message other than a heartbeat has arrived from `rank`: the rank has joined the farm, and holds tasks or has just completed
    /// some.
    pub(crate) fn record_message(&mut self, rank: usize) {
        self.present[rank] = true;
        self.empty[rank] = None;
    }

    /// Returns the maximum time without a message for a worker in the state `state`; none if the worker is dead, has left the farm or
    /// works for a sub-master.
    pub(crate) fn watch_worker(&self, rank: usize, state: WorkerState) -> Watch {
        match state {
            WorkerState::Dead | WorkerState::Left | WorkerState::Delegated => Watch::No,
            // A rank that has not joined may be silent for longer, because it may still run code of the program before the farm.
            _ if !self.present[rank] => Watch::Within { limit: self.join_limit, has_joined: false },
            _ => Watch::Within { limit: self.limit(rank, state).0, has_joined: true },
        }
    }

    /// Returns the maximum time without a message for a worker, and true if a worker that exceeds it is certainly dead, and not just in a long task.
    fn limit(&self, rank: usize, state: WorkerState) -> (Duration, bool) {
        let longest = self.peer_limit.max(self.silence);
        match self.last_status[rank].as_ref().map(|status| status.mode) {
            Some(ExecutionMode::Inline) => (longest, true),
            Some(ExecutionMode::Interleaved) if state == WorkerState::Suspected => (longest, true),
            Some(ExecutionMode::Interleaved) => (self.silence, false),
            _ => (self.silence, true),
        }
    }

    pub(crate) fn lose(&self, silence: &Silence, state: WorkerState, endpoint: &Endpoint) -> Loss {
        let Silence { rank, has_ended, silent, .. } = *silence;
        let why = match has_ended {
            true => "its process has ended".to_string(),
            false => format!("no heartbeat for {:.1} s", silent.as_secs_f64()),
        };
        let certain = has_ended || self.limit(rank, state).1;
        Loss { rank, certain, died: silence.may_be_death(endpoint), why }
    }

    /// Returns the last activity of a lost rank, from its flight record (readable after its death) or its last heartbeat. `died` is true if the rank
    /// may have died of that activity.
    pub(crate) fn last_activity(&self, rank: usize, died: bool) -> LastActivity {
        // The number `u64::MAX` means that a chunk waits for the computing thread, so the current task is not known.
        let task = self.last_status[rank].as_ref().and_then(|status| status.task).filter(|&t| t != u64::MAX);
        self.flight_records.last_activity(rank, died, task)
    }

    /// Returns the maximum silence of `rank` for a worker that gets its chunks from the rank `superior`. The worker monitors its superior, and the
    /// process of rank 0, without which the farm cannot continue.
    pub(crate) fn watch_master(&self, rank: usize, superior: usize) -> Watch {
        match rank {
            0 if superior != 0 => Watch::Process,
            _ if rank != superior => Watch::No,
            // The limit is longer for a rank that has sent no message yet, because it may still run code of the program before the
            // farm.
            _ if !self.present[rank] => Watch::Within { limit: self.join_limit, has_joined: false },
            0 => Watch::Usual,
            // Rank 0 needs time to detect the death of a sub-master and to replace it, so workers wait longer than rank 0.
            _ => Watch::Within { limit: 2 * self.peer_limit, has_joined: true },
        }
    }

    /// Handles a master or sub-master that has sent no message for too long, or whose process has ended.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`], unless the rank is a sub-master that rank 0 may still replace.
    pub(crate) fn lose_master(&self, silence: &Silence) -> Result<()> {
        let Silence { rank, has_ended, silent, .. } = *silence;
        let text = if rank == 0 && has_ended {
            "rank 0, the farm's master, has died; the farm cannot continue without it".to_string()
        } else if rank == 0 || silent >= 2 * self.peer_limit {
            let seconds = silent.as_secs_f64();
            format!(
                "has waited {seconds:.0} s for a heartbeat from rank {rank}, the farm's master; the farm cannot \
                 continue without it"
            )
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Timeout, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::local::{LocalTransport, World};

    const S: Duration = Duration::from_secs(1);

    fn detector() -> FailureDetector {
        FailureDetector::new(4, 10 * S, &Config::new().peer_limit(60 * S).join_limit(90 * S))
    }

    fn heartbeat_state(task: Option<u64>, mode: ExecutionMode) -> HeartbeatState {
        let details = wire::to_bytes(&Status { task, waiting: 0, mode }).expect("numbers can be encoded");
        HeartbeatState { details, ..HeartbeatState::new(task.is_some(), "") }
    }

    fn silence(rank: usize, silent: Duration) -> Silence {
        let error = Error::new(ErrorKind::Timeout, "it is silent");
        Silence { rank, has_ended: false, silent, error }
    }

    fn limit(watch: Watch) -> Option<Duration> {
        if let Watch::Within { limit, has_joined: true } = watch { Some(limit) } else { None }
    }

    #[test]
    fn silence_limit_depends_on_the_execution_mode() {
        let endpoint = Endpoint::new(Box::new(LocalTransport::open(World::new(4), 0)), S / 1000);
        let mut detector = detector();
        let modes = [ExecutionMode::OnThread, ExecutionMode::Interleaved, ExecutionMode::Inline];
        for (rank, mode) in (1..).zip(modes) {
            assert_eq!(detector.on_heartbeat(rank, &heartbeat_state(Some(1), mode), 1, S).unwrap(), None);
        }
        let at = |rank, state| {
            let loss = detector.lose(&silence(rank, 12 * S), state, &endpoint);
            (limit(detector.watch_worker(rank, state)), loss.certain)
        };
        assert_eq!(at(1, WorkerState::Active), (Some(10 * S), true));
        assert_eq!(at(2, WorkerState::Active), (Some(10 * S), false));
        assert_eq!(at(2, WorkerState::Suspected), (Some(60 * S), true), "a suspicion is reported once");
        assert_eq!(at(3, WorkerState::Active), (Some(60 * S), true));
        assert_eq!(detector.watch_worker(1, WorkerState::Dead), Watch::No);
    }

    #[test]
    fn worker_that_denies_its_chunk_is_lost() {
        let mut detector = detector();
        let idle = heartbeat_state(None, ExecutionMode::OnThread);
        let mut lost =
            |held, seconds: u32| detector.on_heartbeat(1, &idle, held, seconds * S).unwrap().is_some();
        assert_eq!((lost(1, 1), lost(1, 50), lost(1, 60), lost(1, 63)), (false, false, false, true));
        assert!(!lost(0, 64) && !lost(1, 200), "what it has nothing of has just been given");
    }

    #[test]
    fn rank_that_has_not_joined_has_a_longer_limit() {
        let watch = detector().watch_worker(1, WorkerState::Expected);
        assert_eq!(watch, Watch::Within { limit: 90 * S, has_joined: false });
    }

    #[test]
    fn worker_fails_if_its_master_falls_silent() {
        let mut detector = detector();
        assert_eq!(limit(detector.watch_master(0, 0)), None, "it has not come");
        detector.on_heartbeat(0, &HeartbeatState::new(false, ""), 0, S).unwrap();
        assert_eq!(detector.watch_master(0, 0), Watch::Usual);
        let error = detector.lose_master(&silence(0, 61 * S)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(error.message().contains("from rank 0, the farm's master"), "{error}");
    }

    #[test]
    fn orphaned_worker_waits_for_a_new_sub_master() {
        let mut detector = detector();
        detector.record_message(2);
        assert_eq!(detector.watch_master(0, 2), Watch::Process);
        assert_eq!(
            (detector.watch_master(1, 2), limit(detector.watch_master(2, 2))),
            (Watch::No, Some(120 * S))
        );
        let ended = |silent| Silence { has_ended: true, ..silence(2, silent) };
        detector.lose_master(&ended(61 * S)).expect("rank 0 may take its place");
        detector.lose_master(&ended(121 * S)).expect_err("it has not");
    }
}
