//! The post office of a rank: every message carries the number of the run that it belongs to and its kind.
//!
//! Ranks do not stop at the same moment. A message of a run that is over is dropped; one of a run that has
//! not begun here yet is kept until it has. A failure of another rank ends whatever this rank was doing.

mod alive;
mod drain;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

pub(crate) use alive::CHECK;
use serde::{Deserialize, Serialize};

use super::backoff::Backoff;
use super::letter::{ENVELOPE, KIND, Kind, Letter, envelope, open, run_of};
use super::presence::Presence;
use super::process::Process;
use super::verdict::{Keeper, may_restart};
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::{Message, Transport};
use crate::wire;

/// A failure as it travels.
#[derive(Serialize, Deserialize)]
struct FailureNote {
    message: String,
    /// Whether the job may succeed if it is started again.
    restart: bool,
}

/// Sends and receives for one rank.
pub(crate) struct Post {
    transport: Box<dyn Transport>,
    clock: Clock,
    run: u32,
    early: VecDeque<(usize, Message)>,
    /// The time that silences are measured in, and the silences.
    presence: Presence,
    spin: Duration,
    longest_sleep: Duration,
    failed: bool,
    verdict: Keeper,
    /// Ranks that have died and without which the job goes on, ascending.
    lost: Vec<usize>,
    /// Those of them that are there all the same, and leave with the others.
    staying: BTreeSet<usize>,
    /// Whether messages may be on their way to ranks of which only rank 0 knows whether they live.
    sent_aside: bool,
    /// The process that this rank is.
    own: Process,
    /// Ranks that can be seen to end from here.
    seen: BTreeMap<usize, Process>,
}

impl Post {
    pub(crate) fn new(transport: Box<dyn Transport>, longest_sleep: Duration) -> Self {
        let clock = transport.clock();
        Post {
            clock,
            run: 0,
            early: VecDeque::new(),
            presence: Presence::new(transport.size(), clock.now(), longest_sleep),
            spin: Duration::ZERO,
            longest_sleep,
            failed: false,
            verdict: Keeper::default(),
            lost: Vec::new(),
            staying: BTreeSet::new(),
            sent_aside: false,
            own: Process::own(),
            seen: BTreeMap::new(),
            transport,
        }
    }

    /// From now on says in a file how the job stands.
    pub(crate) fn keep(&mut self, verdict: Keeper) {
        self.verdict = verdict;
    }

    /// On rank 0: all ranks have started and found each other.
    ///
    /// # Errors
    /// When the verdict cannot be written.
    pub(crate) fn started(&mut self) -> Result<()> {
        self.verdict.started()
    }

    /// The job has done what it was to do.
    ///
    /// # Errors
    /// When the verdict cannot be written.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.verdict.finish()
    }

    /// On rank 0: so many tasks or items are done, those that an earlier run has left in a journal included.
    #[inline]
    pub(crate) fn note_done(&mut self, tasks: u64) {
        let clock = self.clock;
        self.verdict.done(tasks, || clock.now());
    }

    /// The job goes on without `rank`, which has died; `why` says how that was noticed. Nobody waits for it at the end,
    /// and MPI is not finalised, because that would.
    pub(crate) fn lose(&mut self, rank: usize, why: &str) {
        self.staying.remove(&rank);
        if let Err(at) = self.lost.binary_search(&rank) {
            log::warn!("rank {rank} is lost, the job goes on without it: {why}");
            self.lost.insert(at, rank);
            self.verdict.lost(rank);
        }
    }

    /// From now on this rank sends to others than rank 0, and does not wait for these to receive it before it says that it
    /// leaves: they may die, and rank 0 notices.
    pub(crate) fn sends_aside(&mut self) {
        self.sent_aside = true;
    }

    /// Whether everything that this rank has sent must have been received before it says that it leaves.
    pub(crate) fn must_drain(&self) -> bool {
        self.lost.is_empty() && !self.sent_aside
    }

    /// Another rank has found that `rank` is dead.
    pub(crate) fn learn_of(&mut self, rank: usize) {
        if let Err(at) = self.lost.binary_search(&rank) {
            self.lost.insert(at, rank);
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

    /// Another rank says that ranks have died: this one does not finalise MPI either.
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

    /// Takes the number of the next run. Skeletons call [`begin_run`](Post::begin_run), which compares what ranks run.
    pub(super) fn next_run(&mut self) -> u32 {
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
        self.presence.look(now)
    }

    /// How long nothing has come from `rank`, in time in which this rank has [looked](Post::look).
    pub(crate) fn silence(&self, rank: usize) -> Duration {
        self.presence.silence(rank)
    }

    /// Counts `rank` as heard from just now.
    pub(crate) fn heard_now(&mut self, rank: usize) {
        self.presence.heard(rank);
    }

    /// Whether this rank is a process of its own, on a real machine.
    pub(crate) fn is_process(&self) -> bool {
        !self.clock.is_simulated() && self.transport.describe().starts_with("mpi")
    }

    /// Sends a control message of the present run.
    pub(crate) fn send<T: Serialize>(&mut self, to: usize, kind: Kind, content: &T) -> Result<()> {
        let mut head = envelope(self.run, kind).to_vec();
        head.extend_from_slice(&wire::to_bytes(content)?);
        self.transport.send(to, Message::new(head))
    }

    /// Sends a message that begins with its envelope already.
    pub(crate) fn send_ready(&mut self, to: usize, message: Message) -> Result<()> {
        self.transport.send(to, message)
    }

    /// The next message of the present run, if one has arrived.
    ///
    /// # Errors
    /// [`ErrorKind::Peer`] when another rank has failed; whatever the transport reports.
    pub(crate) fn poll(&mut self) -> Result<Option<Letter>> {
        // Early mail first: it was sent before anything that is still on its way from the same rank.
        let run = self.run;
        let is_due = |m: &Message| run_of(m).is_ok_and(|of| of <= run) || is_failure(m).is_ok_and(|yes| yes);
        let due = self.early.iter().position(|(_, message)| is_due(message));
        if let Some((from, message)) = due.and_then(|at| self.early.remove(at))
            && let Some(letter) = self.admit(from, message)?
        {
            return Ok(Some(letter));
        }
        while let Some((from, message)) = self.transport.poll()? {
            self.presence.heard(from);
            if let Some(letter) = self.admit(from, message)? {
                return Ok(Some(letter));
            }
        }
        Ok(None)
    }

    /// The next message of `kind` from `rank` in the present run, if one has arrived. All others are kept for
    /// [`poll`](Post::poll).
    ///
    /// # Errors
    /// As [`poll`](Post::poll).
    pub(super) fn poll_for(&mut self, rank: usize, kind: Kind) -> Result<Option<Letter>> {
        let is_it = |run: u32, from: usize, message: &Message| {
            from == rank && run_of(message).is_ok_and(|of| of == run) && message.head[KIND] == kind as u8
        };
        let at = self.early.iter().position(|(from, message)| is_it(self.run, *from, message));
        if let Some((from, message)) = at.and_then(|at| self.early.remove(at)) {
            return open(from, message).map(Some);
        }
        while let Some((from, message)) = self.transport.poll()? {
            self.presence.heard(from);
            if is_it(self.run, from, &message) {
                return open(from, message).map(Some);
            }
            if is_failure(&message)? {
                return self.admit(from, message);
            }
            self.early.push_back((from, message));
        }
        Ok(None)
    }

    /// Opens a message of the present run; keeps one of a later run, drops one of an earlier.
    fn admit(&mut self, from: usize, message: Message) -> Result<Option<Letter>> {
        let run = run_of(&message)?;
        if is_failure(&message)? {
            let note: FailureNote = wire::from_bytes(&message.head[ENVELOPE..])?;
            // The job is being ended. Whatever user code makes of this error, it is not a failure of this rank.
            self.failed = true;
            let error = Error::new(ErrorKind::Peer, note.message);
            self.verdict.fail(&error, note.restart);
            return Err(error);
        }
        match run.cmp(&self.run) {
            Ordering::Equal => open(from, message).map(Some),
            Ordering::Less => Ok(None),
            Ordering::Greater => {
                self.early.push_back((from, message));
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
        self.verdict.fail(error, restart);
        let note = FailureNote { message: error.to_string(), restart };
        let me = self.rank();
        for to in (0..self.size()).filter(|&r| r != me) {
            // Best effort: the job ends whether or not this gets through.
            let _ = self.send(to, Kind::Failure, &note);
        }
        let _ = self.drain(FLUSH);
        if self.is_process() {
            // MPICH's launcher drops what it has not read yet when a job is aborted.
            std::thread::sleep(READ);
        }
        self.transport.abort(error);
    }

    /// Whether this rank has failed, or has heard that another one has.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Leaves the world in good order. Where ranks have died it is left as it is: they would be waited for.
    pub(crate) fn close(&mut self) -> Result<()> {
        if self.lost.is_empty() { self.transport.close() } else { Ok(()) }
    }

    /// Sends what is left for those who still receive, and does not insist: what was sent to the dead never leaves.
    pub(crate) fn flush(&mut self) {
        let _ = self.drain(FLUSH);
    }
}

/// Whether a message says that a rank has failed, which counts in every run.
///
/// # Errors
/// If it is no message between ranks.
fn is_failure(message: &Message) -> Result<bool> {
    run_of(message).map(|_| message.head[KIND] == Kind::Failure as u8)
}

/// How long a failing rank tries to get its message out before it ends the job.
const FLUSH: Duration = Duration::from_millis(500);
/// How long the launcher has to read why the job ends.
const READ: Duration = Duration::from_millis(250);

impl std::fmt::Debug for Post {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Post").field("rank", &self.rank()).field("run", &self.run).finish_non_exhaustive()
    }
}

#[path = "staying.rs"]
mod staying;
#[cfg(test)]
#[path = "post_tests.rs"]
mod tests;
