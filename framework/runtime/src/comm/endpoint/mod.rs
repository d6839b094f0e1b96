//! A rank's end of the communicator. Every message carries its tag and the number of the *run* that it belongs to: one farm, pipeline, loop, workflow
//! or collective operation of the program.
//!
//! Ranks do not finish a run at the same moment. A message of an earlier run is dropped. A message of a later run is kept until that run
//! begins on this rank. A failure of another rank ends the current operation with an error.

mod alive;
mod drain;
mod exchanged;
mod failing;
mod staying;
pub(crate) mod stop_requests;
pub(crate) mod stopping;
#[cfg(test)]
mod tests;
mod time_left;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use self::exchanged::Exchanged;
pub(crate) use self::exchanged::Sent;
use self::stop_requests::StopRequests;
use super::backoff::Backoff;
use super::liveness::Liveness;
use super::message::{
    Arrival, Control, Encode, FRAME_HEADER, Message, TAG_AT, Tagged, encode, is_failure, open, run_of,
};
use super::process::Process;
use crate::comm::clock::Clock;
use crate::comm::{Capabilities, Frame, Transport};
use crate::context::RankPlace;
use crate::error::{Error, ErrorKind, Result};
use crate::job_status::writer::StatusWriter;

/// One rank's end of the communicator: sends and receives the messages of this rank.
pub(crate) struct Endpoint {
    transport: Box<dyn Transport>,
    clock: Clock,
    run: u32,
    early: VecDeque<Arrival>,
    /// Failure detector: for each rank, the time since its last message.
    liveness: Liveness,
    spin: Duration,
    longest_sleep: Duration,
    cores: usize,
    failure: Option<Error>,
    /// Ranks that have confirmed the failure message of another rank ([`Answer`](Control::Answer)).
    answered: BTreeSet<usize>,
    job_status: StatusWriter,
    /// Numbers of the dead ranks without which the job continues, ascending.
    lost: Vec<usize>,
    /// Ranks that were taken for dead, but whose process is still present and finalises MPI together with the others.
    staying: BTreeSet<usize>,
    own: Process,
    /// Processes of other ranks whose end this rank can observe.
    seen: BTreeMap<usize, Process>,
    exchanged: Exchanged,
    stops: StopRequests,
    /// Time on this rank's clock at which the batch system ends the job; `None` if the job has no time limit.
    end: Option<Duration>,
    /// Journals and directories of checkpoints that runs of this job have used.
    claimed: BTreeSet<PathBuf>,
    /// Total duration of the session's runs since the display last showed their progress.
    pub(crate) unreported_progress: Duration,
}

impl Endpoint {
    pub(crate) fn new(transport: Box<dyn Transport>, longest_sleep: Duration) -> Self {
        let clock = transport.clock();
        Endpoint {
            clock,
            run: 0,
            early: VecDeque::new(),
            liveness: Liveness::new(transport.size(), clock.now(), longest_sleep),
            spin: Duration::ZERO,
            longest_sleep,
            cores: 1,
            failure: None,
            answered: BTreeSet::new(),
            job_status: StatusWriter::default(),
            lost: Vec::new(),
            staying: BTreeSet::new(),
            own: Process::own(),
            seen: BTreeMap::new(),
            exchanged: Exchanged::new(transport.size()),
            stops: StopRequests::default(),
            end: None,
            claimed: BTreeSet::new(),
            unreported_progress: Duration::ZERO,
            transport,
        }
    }

    /// Sets the writer of the job status, which is the file with the state of the job.
    pub(crate) fn keep(&mut self, job_status: StatusWriter) {
        self.job_status = job_status;
    }

    /// Claims a journal or a directory of checkpoints for one run of the job. A second run must not use the same path, because it would take the
    /// results of that run for its own. Called on rank 0.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if an earlier run of this job has claimed the path.
    pub(crate) fn claim(&mut self, path: &Path) -> Result<()> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        if self.claimed.insert(path.clone()) {
            return Ok(());
        }
        let text = format!(
            "{} was used by an earlier run of this job, expected a separate file for each run",
            path.display()
        );
        Err(Error::new(ErrorKind::Config, text).at_rank(self.rank()))
    }

    pub(crate) fn started(&mut self) -> Result<()> {
        self.job_status.started()
    }

    pub(crate) fn finish(&mut self) -> Result<()> {
        self.job_status.finish()
    }

    #[inline]
    pub(crate) fn is_done_due(&self, now: Duration) -> bool {
        self.job_status.is_due(now)
    }

    /// Reports to the job status how many tasks, items, loop units (rows or indices) or sweeps of the current run are complete. Those that an earlier
    /// run completed and recorded in a journal or a checkpoint are included. Called on rank 0.
    pub(crate) fn record_done(&mut self, tasks: u64) {
        self.job_status.done(tasks, self.clock.now());
    }

    /// Records in the job status the sentence that says why the run was stopped and which results are kept. Called on rank 0.
    pub(crate) fn record_kept(&mut self, kept: String) {
        self.job_status.stop(kept);
    }

    /// Marks the job as failed in the job status, with an error message of the program, although all ranks end without an error. Called on rank 0.
    pub(crate) fn conclude(&mut self, failure: String) {
        self.job_status.conclude(failure);
    }

    /// Marks `rank`, which has died, as lost: the job continues without it. `why` says how the death was detected. At the end of the job no rank
    /// waits for a lost rank, and MPI is not finalised, because `MPI_Finalize` would wait for it.
    pub(crate) fn lose(&mut self, rank: usize, why: &str) {
        self.staying.remove(&rank);
        if let Err(at) = self.lost.binary_search(&rank) {
            log::warn!("rank {rank} is lost, the job continues without it: {why}");
            self.lost.insert(at, rank);
            self.job_status.lost(rank);
        }
    }

    /// Marks ranks that another rank found dead as lost: this rank no longer waits for them. If this rank was only silent and is itself in the
    /// list, it ignores its own entry.
    pub(crate) fn learn_of(&mut self, dead: &[usize]) {
        for &rank in dead.iter().filter(|&&rank| rank != self.transport.rank()) {
            if let Err(at) = self.lost.binary_search(&rank) {
                self.lost.insert(at, rank);
            }
        }
    }

    pub(crate) fn lost(&self) -> &[usize] {
        &self.lost
    }

    pub(crate) fn is_lost(&self, rank: usize) -> bool {
        self.lost.binary_search(&rank).is_ok()
    }

    /// Sets the list of dead ranks at the end of the job, as rank 0 has sent it. MPI is finalised only if the list is empty.
    pub(crate) fn learn_lost(&mut self, lost: Vec<usize>) {
        self.lost = lost;
    }

    pub(crate) fn rank(&self) -> usize {
        self.transport.rank()
    }

    pub(crate) fn size(&self) -> usize {
        self.transport.size()
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    pub(crate) fn transport(&mut self) -> &mut dyn Transport {
        &mut *self.transport
    }

    /// Sets the number of cores that this rank may use without taking them from other ranks.
    pub(crate) fn set_cores(&mut self, cores: usize) {
        self.cores = cores;
    }

    pub(crate) fn cores(&self) -> usize {
        self.cores
    }

    pub(crate) fn place(&self) -> RankPlace {
        RankPlace { rank: self.rank(), ranks: self.size(), threads: self.cores.max(1) }
    }

    /// Sets the time for which this idle rank polls for messages before it sleeps; zero if ranks share cores.
    pub(crate) fn set_spin(&mut self, spin: Duration) {
        self.spin = spin;
    }

    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::new(self.spin, self.longest_sleep)
    }

    /// Starts the next run (farm, pipeline, loop, workflow or collective operation) and returns its number. [`begin_run`](Endpoint::begin_run) also
    /// checks that all ranks start the same run.
    pub(crate) fn next_run(&mut self) -> u32 {
        self.job_status.begin_run();
        self.run += 1;
        self.run
    }

    pub(crate) fn run(&self) -> u32 {
        self.run
    }

    /// Updates the failure detector at time `now`; called at about every poll. Returns the total time in which this rank has polled, by which the
    /// silence of other ranks is measured.
    pub(crate) fn record_poll(&mut self, now: Duration) -> Duration {
        self.liveness.record_poll(now)
    }

    /// Returns the time since the last message from `rank`, counting only time in which this rank has [polled](Endpoint::record_poll).
    pub(crate) fn silence(&self, rank: usize) -> Duration {
        self.liveness.silence(rank)
    }

    pub(crate) fn reset_silence(&mut self, rank: usize) {
        self.liveness.record_message(rank);
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.transport.capabilities()
    }

    /// Returns true if this rank is a process of its own on a real machine, and not a thread or simulated.
    pub(crate) fn is_process(&self) -> bool {
        self.capabilities().processes
    }

    pub(crate) fn send<T: Serialize>(&mut self, to: usize, tag: impl Tagged, content: &T) -> Result<()> {
        let frame = encode(self.run, tag, content)?;
        self.send_ready(to, frame)
    }

    #[inline]
    pub(crate) fn send_ready(&mut self, to: usize, message: impl Encode) -> Result<()> {
        let frame = message.encode(self.run)?;
        self.exchanged.leaves(to, frame.len());
        self.transport.send(to, frame)
    }

    pub(crate) fn sent(&self) -> &[Sent] {
        &self.exchanged.sent
    }

    #[inline]
    pub(crate) fn messages(&self) -> u64 {
        self.exchanged.messages
    }

    /// Returns the next received frame, of any run (farm, pipeline, loop, workflow or collective operation).
    fn arrival(&mut self) -> Result<Option<Arrival>> {
        while let Some((from, frame)) = self.transport.poll()? {
            self.exchanged.messages += 1;
            let (tag, arrival) = (frame.head.get(TAG_AT).copied(), Arrival { from, frame });
            if tag == Some(Control::Stop.byte()) {
                self.on_stop(&arrival)?;
            } else if tag == Some(Control::Answer.byte()) {
                // A confirmation that another rank has received a failure may arrive before the failure message itself, so it is recorded in any run.
                self.answered.insert(from);
            } else {
                return Ok(Some(arrival));
            }
        }
        Ok(None)
    }

    /// Returns the next message of the current run, if one has arrived.
    ///
    /// # Errors
    /// [`ErrorKind::Peer`] if another rank has failed; errors of the transport.
    pub(crate) fn poll(&mut self) -> Result<Option<Message>> {
        self.check_failure()?;
        // Messages that arrived early and were kept are returned first, because their senders sent them before the messages that are still in
        // flight.
        let run = self.run;
        let is_due = |m: &Frame| run_of(m).is_ok_and(|of| of <= run) || is_failure(m).is_ok_and(|yes| yes);
        let due = self.early.iter().position(|early| is_due(&early.frame));
        if let Some(early) = due.and_then(|at| self.early.remove(at))
            && let Some(message) = self.admit(early)?
        {
            return Ok(Some(message));
        }
        while let Some(arrival) = self.arrival()? {
            self.liveness.record_message(arrival.from);
            if let Some(message) = self.admit(arrival)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// Returns the next message of the current run whose sender and tag are `wanted`, if one has arrived. All other messages are kept for
    /// [`poll`](Endpoint::poll).
    ///
    /// # Errors
    /// The errors of [`poll`](Endpoint::poll).
    pub(crate) fn poll_for(&mut self, wanted: impl Fn(usize, u8) -> bool) -> Result<Option<Message>> {
        self.check_failure()?;
        let run = self.run;
        let is_it = |Arrival { from, frame }: &Arrival| {
            run_of(frame).is_ok_and(|of| of == run) && wanted(*from, frame.head[TAG_AT])
        };
        let at = self.early.iter().position(is_it);
        if let Some(early) = at.and_then(|at| self.early.remove(at)) {
            return Ok(Some(open(early)));
        }
        while let Some(arrival) = self.arrival()? {
            self.liveness.record_message(arrival.from);
            if is_failure(&arrival.frame)? {
                return self.admit(arrival);
            }
            if is_it(&arrival) {
                return Ok(Some(open(arrival)));
            }
            self.early.push_back(arrival);
        }
        Ok(None)
    }

    /// Handles a received message by its run: a message of the current run is returned, a message of a later run is kept, and a message of an
    /// earlier run is dropped.
    fn admit(&mut self, arrival: Arrival) -> Result<Option<Message>> {
        let frame = &arrival.frame;
        let run = run_of(frame)?;
        if is_failure(frame)? {
            return Err(self.on_failure(frame)?);
        }
        match run.cmp(&self.run) {
            Ordering::Equal => Ok(Some(open(arrival))),
            Ordering::Less => Ok(None),
            Ordering::Greater => {
                self.early.push_back(arrival);
                Ok(None)
            }
        }
    }

    /// Finalises the transport. If ranks have died, the transport stays open, because MPI would wait for them.
    pub(crate) fn close(&mut self) -> Result<()> {
        if self.lost.is_empty() { self.transport.close() } else { Ok(()) }
    }

    /// Sends the queued messages to the ranks that still receive; errors and time-outs are ignored.
    pub(crate) fn flush(&mut self) {
        let _ = self.drain(FLUSH);
    }
}

/// Time limit for sending the last messages of a rank that fails, or that leaves before the others.
const FLUSH: Duration = Duration::from_millis(500);
impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("rank", &self.rank()).field("run", &self.run).finish_non_exhaustive()
    }
}
