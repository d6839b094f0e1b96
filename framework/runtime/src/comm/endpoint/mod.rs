//! A rank's end of the communicator. Every message carries the number of the run that it belongs to, and its tag.
//!
//! Ranks do not stop at the same moment. A message of a run that is over is dropped; one of a run that has
//! not begun here yet is kept until it has. A failure of another rank ends whatever this rank was doing.

mod alive;
mod drain;
mod exchanged;
mod staying;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::exchanged::Exchanged;
pub(crate) use self::exchanged::Sent;
use super::backoff::Backoff;
use super::liveness::Liveness;
use super::message::{Arrival, Control, FRAME_HEADER, Message, TAG_AT, Tagged, frame_header, open, run_of};
use super::process::Process;
use crate::comm::clock::Clock;
use crate::comm::{Capabilities, Frame, Transport};
use crate::error::{Error, ErrorKind, Result};
use crate::job_status::writer::{StatusWriter, may_restart};
use crate::wire;

/// A failure as it travels.
#[derive(Serialize, Deserialize)]
pub(super) struct FailureNote {
    pub(super) message: String,
    /// Whether the job may succeed if it is started again.
    pub(super) restart: bool,
}

/// Sends and receives for one rank.
pub(crate) struct Endpoint {
    transport: Box<dyn Transport>,
    clock: Clock,
    run: u32,
    early: VecDeque<Arrival>,
    /// The time that silences are measured in, and the silences.
    liveness: Liveness,
    spin: Duration,
    longest_sleep: Duration,
    failed: bool,
    job_status: StatusWriter,
    /// Ranks that have died and without which the job goes on, ascending.
    lost: Vec<usize>,
    /// Those of them that are there all the same, and leave with the others.
    staying: BTreeSet<usize>,
    /// The process that this rank is.
    own: Process,
    /// Ranks that can be seen to end from here.
    seen: BTreeMap<usize, Process>,
    /// Counts of messages.
    exchanged: Exchanged,
    /// How long runs of skeletons have lasted since anybody was told how far they are.
    pub(crate) untold: Duration,
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
            failed: false,
            job_status: StatusWriter::default(),
            lost: Vec::new(),
            staying: BTreeSet::new(),
            own: Process::own(),
            seen: BTreeMap::new(),
            exchanged: Exchanged::new(transport.size()),
            untold: Duration::ZERO,
            transport,
        }
    }

    /// From now on says in a file how the job stands.
    pub(crate) fn keep(&mut self, job_status: StatusWriter) {
        self.job_status = job_status;
    }

    /// On rank 0: all ranks have started and found each other.
    ///
    /// # Errors
    /// When the job status cannot be written.
    pub(crate) fn started(&mut self) -> Result<()> {
        self.job_status.started()
    }

    /// The job has done what it was to do.
    ///
    /// # Errors
    /// When the job status cannot be written.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.job_status.finish()
    }

    /// Returns true on rank 0 if the job status is to say `now` how many tasks are completed.
    #[inline]
    pub(crate) fn is_done_due(&self, now: Duration) -> bool {
        self.job_status.is_due(now)
    }

    /// On rank 0: `tasks` tasks, items, units or sweeps of the present run are completed, those that an earlier run has left in a
    /// journal or a checkpoint included.
    pub(crate) fn note_done(&mut self, tasks: u64) {
        self.job_status.done(tasks, self.clock.now());
    }

    /// On rank 0: the job counts as failed, for this reason, although all ranks end in good order.
    pub(crate) fn conclude(&mut self, failure: String) {
        self.job_status.conclude(failure);
    }

    /// The job goes on without `rank`, which has died; `why` says how that was noticed. Nobody waits for it at the end,
    /// and MPI is not finalised, because that would.
    pub(crate) fn lose(&mut self, rank: usize, why: &str) {
        self.staying.remove(&rank);
        if let Err(at) = self.lost.binary_search(&rank) {
            log::warn!("rank {rank} is lost, the job goes on without it: {why}");
            self.lost.insert(at, rank);
            self.job_status.lost(rank);
        }
    }

    /// Notes ranks that another rank has found dead. This rank waits for none of them any more. A rank that was only silent
    /// and finds itself among them leaves itself out.
    pub(crate) fn learn_of(&mut self, dead: &[usize]) {
        for &rank in dead.iter().filter(|&&rank| rank != self.transport.rank()) {
            if let Err(at) = self.lost.binary_search(&rank) {
                self.lost.insert(at, rank);
            }
        }
    }

    /// Ranks that have died and without which the job goes on, ascending.
    pub(crate) fn lost(&self) -> &[usize] {
        &self.lost
    }

    /// Whether the job goes on without `rank`.
    pub(crate) fn is_lost(&self, rank: usize) -> bool {
        self.lost.binary_search(&rank).is_ok()
    }

    /// Notes the ranks that have not come back by the end of the job. MPI is finalised only if there are none.
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

    /// From now on this rank spins for so long before it sleeps: zero where ranks share cores.
    pub(crate) fn set_spin(&mut self, spin: Duration) {
        self.spin = spin;
    }

    /// A fresh wait for this rank.
    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::new(self.spin, self.longest_sleep)
    }

    /// Takes the number of the next run. Skeletons call [`begin_run`](Endpoint::begin_run), which compares what ranks run.
    pub(crate) fn next_run(&mut self) -> u32 {
        self.job_status.begin_run();
        self.run += 1;
        self.run
    }

    /// The number of the present run.
    pub(crate) fn run(&self) -> u32 {
        self.run
    }

    /// To be called with the clock's time at every look for messages, or so. Returns the time in which this rank has looked:
    /// whoever waits for others measures their silence in it.
    pub(crate) fn look(&mut self, now: Duration) -> Duration {
        self.liveness.look(now)
    }

    /// How long nothing has come from `rank`, in time in which this rank has [looked](Endpoint::look).
    pub(crate) fn silence(&self, rank: usize) -> Duration {
        self.liveness.silence(rank)
    }

    /// Counts `rank` as heard from just now.
    pub(crate) fn heard_now(&mut self, rank: usize) {
        self.liveness.heard(rank);
    }

    /// What ranks are and can do here.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.transport.capabilities()
    }

    /// Whether this rank is a process of its own, on a real machine.
    pub(crate) fn is_process(&self) -> bool {
        self.capabilities().processes
    }

    /// Sends a control message of the present run.
    pub(crate) fn send<T: Serialize>(&mut self, to: usize, tag: impl Tagged, content: &T) -> Result<()> {
        let mut head = frame_header(self.run, tag).to_vec();
        head.extend_from_slice(&wire::to_bytes(content)?);
        self.send_ready(to, Frame::new(head))
    }

    /// Sends a frame that begins with its header already.
    pub(crate) fn send_ready(&mut self, to: usize, frame: Frame) -> Result<()> {
        self.exchanged.leaves(to, frame.len());
        self.transport.send(to, frame)
    }

    /// Messages and bytes sent through this endpoint so far, by receiver.
    pub(crate) fn sent(&self) -> &[Sent] {
        &self.exchanged.sent
    }

    /// Number of messages sent and received through this endpoint so far.
    #[inline]
    pub(crate) fn messages(&self) -> u64 {
        self.exchanged.messages
    }

    /// Returns the next frame that has arrived, of any run.
    fn arrival(&mut self) -> Result<Option<Arrival>> {
        let Some((from, frame)) = self.transport.poll()? else { return Ok(None) };
        self.exchanged.messages += 1;
        Ok(Some(Arrival { from, frame }))
    }

    /// The next message of the present run, if one has arrived.
    ///
    /// # Errors
    /// [`ErrorKind::Peer`] when another rank has failed; whatever the transport reports.
    pub(crate) fn poll(&mut self) -> Result<Option<Message>> {
        // Early mail first: it was sent before anything that is still on its way from the same rank.
        let run = self.run;
        let is_due = |m: &Frame| run_of(m).is_ok_and(|of| of <= run) || is_failure(m).is_ok_and(|yes| yes);
        let due = self.early.iter().position(|early| is_due(&early.frame));
        if let Some(early) = due.and_then(|at| self.early.remove(at))
            && let Some(message) = self.admit(early)?
        {
            return Ok(Some(message));
        }
        while let Some(arrival) = self.arrival()? {
            self.liveness.heard(arrival.from);
            if let Some(message) = self.admit(arrival)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// The next message of the present run that is `wanted` by its sender and its tag, if one has arrived. All others are kept
    /// for [`poll`](Endpoint::poll).
    ///
    /// # Errors
    /// As [`poll`](Endpoint::poll).
    pub(crate) fn poll_for(&mut self, wanted: impl Fn(usize, u8) -> bool) -> Result<Option<Message>> {
        let run = self.run;
        let is_it = |Arrival { from, frame }: &Arrival| {
            run_of(frame).is_ok_and(|of| of == run) && wanted(*from, frame.head[TAG_AT])
        };
        let at = self.early.iter().position(is_it);
        if let Some(early) = at.and_then(|at| self.early.remove(at)) {
            return Ok(Some(open(early)));
        }
        while let Some(arrival) = self.arrival()? {
            self.liveness.heard(arrival.from);
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

    /// Opens a message of the present run; keeps one of a later run, drops one of an earlier.
    fn admit(&mut self, arrival: Arrival) -> Result<Option<Message>> {
        let frame = &arrival.frame;
        let run = run_of(frame)?;
        if is_failure(frame)? {
            let note: FailureNote = wire::from_bytes(&frame.head[FRAME_HEADER..])?;
            // The job is being ended. Whatever user code makes of this error, it is not a failure of this rank.
            self.failed = true;
            let error = Error::new(ErrorKind::Peer, note.message);
            self.job_status.fail(&error, note.restart);
            return Err(error);
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

    /// Tells every other rank that this one has failed, as far as that is still possible, and ends the job.
    /// On a real MPI this does not return.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.failed = true;
        let restart = may_restart(error.kind());
        // First of all, because this rank may be ended at any moment from here on.
        self.job_status.fail(error, restart);
        let note = FailureNote { message: error.to_string(), restart };
        let me = self.rank();
        for to in (0..self.size()).filter(|&r| r != me) {
            // Best effort: the job ends whether or not this gets through.
            let _ = self.send(to, Control::Failure, &note);
        }
        let _ = self.drain(FLUSH);
        if self.is_process() {
            // MPICH's launcher drops what it has not read yet when a job is aborted.
            std::thread::sleep(READ);
        }
        self.transport.abort(error);
    }

    /// Says what went wrong, unless another rank has said so already, and ends the job. A rank that has heard of it from another
    /// is ended from outside, and where that does not come about ends by itself, whatever its user code does.
    pub(crate) fn report(&mut self, error: &Error) {
        self.transport.leave_within(GRACE);
        if error.kind() == ErrorKind::Peer {
            self.await_failure();
        }
        if !self.has_failed() {
            if !self.capabilities().returns_errors {
                // In one piece, so that what other ranks and the launcher print does not come in between.
                let text = format!("armature: {}\n", armature_text::indented(error));
                // If nobody reads it, the exit code still tells.
                let _ = std::io::stderr().write_all(text.as_bytes());
            }
            self.fail(error);
        }
    }

    /// Waits until the rank in which an error arose has said so. It does not if its user code has gone on in spite of the error.
    fn await_failure(&mut self) {
        let start = self.clock().now();
        while !self.failed && self.clock().now().saturating_sub(start) < HEARSAY {
            if self.poll().is_err() || self.transport.wait(Some(HEARSAY / 100)).is_err() {
                return;
            }
        }
    }

    /// Whether this rank has failed, or has heard that another one has.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Leaves the world in good order. Where ranks have died it is left as it is: they would be waited for.
    pub(crate) fn close(&mut self) -> Result<()> {
        if self.lost.is_empty() { self.transport.close() } else { Ok(()) }
    }

    /// Sends what is left for those who still receive, and does not insist.
    pub(crate) fn flush(&mut self) {
        let _ = self.drain(FLUSH);
    }
}

/// Whether a frame says that a rank has failed, which counts in every run.
///
/// # Errors
/// If it is no message between ranks.
fn is_failure(frame: &Frame) -> Result<bool> {
    run_of(frame).map(|_| frame.head[TAG_AT] == Control::Failure.byte())
}

/// How long a failing rank tries to get its message out before it ends the job.
const FLUSH: Duration = Duration::from_millis(500);
/// How long a rank whose job has failed stays at most. It has to be longer than what the failing rank takes to end the job, which is
/// [`FLUSH`] and [`READ`]; more would keep a job in which nobody ends the others.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// How long a rank waits for word from the rank in which an error arose: less than [`GRACE`], and more than such a rank takes to tell others.
const HEARSAY: Duration = Duration::from_secs(1);
/// How long the launcher has to read why the job ends.
const READ: Duration = Duration::from_millis(250);

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("rank", &self.rank()).field("run", &self.run).finish_non_exhaustive()
    }
}
