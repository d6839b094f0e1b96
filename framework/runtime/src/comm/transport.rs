//! Ranks and messages: owned buffers in, owned buffers out.
//!
//! A [`Transport`] is all that the rest of the runtime knows of the world. There are two: [`local`] runs
//! the ranks of a job as threads of one process, `mpi` runs them as MPI processes (or as simulated ones
//! under SimGrid SMPI). Both keep the same promises:
//!
//! - [`send`](Transport::send) queues and returns. It never waits, whatever the receiver does.
//! - Messages from one rank to another arrive in the order in which they were sent.
//! - [`poll`](Transport::poll) never waits; [`wait`](Transport::wait) waits at most as long as it is told,
//!   without keeping the core busy.
//! - A frame's buffers are moved, not copied, where the message layer allows it. Bulk numbers arrive in memory that
//!   is aligned as it was on the sender's side ([`Part`]).
//! - Only the thread that opened the transport uses it.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{Error, Result};

use super::Part;

/// What travels between two ranks: a small head and, for bulk data, further parts that are handed through
/// without being copied or looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) head: Bytes,
    pub(crate) parts: Vec<Part>,
}

impl Frame {
    /// A frame that is all head.
    pub(crate) fn new(head: impl Into<Bytes>) -> Self {
        Frame { head: head.into(), parts: Vec::new() }
    }

    /// Its bytes.
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.parts.iter().map(Part::len).sum::<usize>()
    }
}

/// What the ranks of a transport are and can do. Whoever must know asks for this, not for the transport's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// Each rank is a process of its own on a real machine: it can die alone, be seen to die, and be ended alone.
    pub(crate) processes: bool,
    /// Ranks are threads of the process that called [`run`](crate::run), which returns their errors: nobody prints them.
    pub(crate) returns_errors: bool,
    /// Time passes by itself, on a real machine, so that a wait can have a limit. A simulator finds its own deadlocks instead.
    pub(crate) real_time: bool,
    /// A rank may have threads beside the one that communicates. In a simulator each rank is one thread of the simulator's.
    pub(crate) threads: bool,
    /// Whoever started the job lets the other ranks go on when one ends without leaving the world in good order.
    pub(crate) ranks_may_end: bool,
}

/// A group of ranks, as each of them sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The number of the run in which ranks are split.
    pub(crate) run: u32,
    /// Its number among the groups that are made.
    pub(crate) number: usize,
    /// Its ranks, in the order of their numbers in the group; none if this rank is in no group.
    pub(crate) members: Vec<usize>,
}

/// The message layer as one rank sees it. See the module's page for what is promised.
pub(crate) trait Transport {
    /// This rank's number, from 0.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn size(&self) -> usize;

    /// `local`, or the MPI library's own name and version: for logs and for tests that check what they run on.
    fn describe(&self) -> String;

    /// What its ranks are and can do.
    fn capabilities(&self) -> Capabilities;

    /// Queues a frame for another rank (or for this one) and returns at once.
    fn send(&mut self, to: usize, frame: Frame) -> Result<()>;

    /// Moves queued sends and receives on; returns the next frame that has arrived in full, with its sender.
    ///
    /// # Errors
    /// When the message layer failed, or (`local`) when another rank's failure has poisoned the world.
    fn poll(&mut self) -> Result<Option<(usize, Frame)>>;

    /// Whether a part of a frame has come and the rest is on its way. It may come only as fast as it is
    /// [polled](Transport::poll) for.
    fn is_receiving(&self) -> bool;

    /// True when every queued send has left: its buffer is free and nothing more needs to be done for it.
    fn sends_done(&mut self) -> Result<bool>;

    /// Ranks that have not received everything that was sent to them, as far as the last [look](Transport::sends_done) has
    /// shown. None where buffers are handed over as they are.
    fn receivers(&self) -> BTreeSet<usize> {
        BTreeSet::new()
    }

    /// Frames that were [sent](Transport::send) so far, which is the number of the last one.
    fn sends(&self) -> u64 {
        0
    }

    /// Whether the frame of this number has left, as far as the last [look](Transport::poll) has shown. Until then it is in memory,
    /// whoever else has let its buffers go. Where buffers are handed over as they are, each has left at once.
    fn has_left(&self, _number: u64) -> bool {
        true
    }

    /// Sleeps until a frame may have arrived, another thread called the [`Waker`], or `limit` is over.
    /// May return early. Under the simulator this may block until the next frame where `limit` is `None`.
    fn wait(&mut self, limit: Option<Duration>) -> Result<()>;

    /// A handle with which this rank's compute thread ends a [`wait`](Transport::wait) early.
    fn waker(&self) -> Waker;

    /// The clock of this transport: wall time, or the simulated time of this rank.
    fn clock(&self) -> crate::comm::clock::Clock;

    /// Ends the job on every rank because of `error`, which is the caller's own failure.
    ///
    /// `local` poisons the world and returns; a real MPI does not come back from here.
    fn abort(&mut self, error: &Error);

    /// Ends this rank at once, with success and without a farewell, if it is a process; returns if it is a thread or
    /// simulated.
    fn leave_now(&mut self);

    /// Ends this rank with failure after `grace`, if it is a process, whatever its threads do then: user code that computes for
    /// minutes cannot be stopped. A rank that is a thread or simulated ends when its user code comes back.
    fn leave_within(&mut self, _grace: Duration) {}

    /// Whether the process keeps memory that is freed for what is allocated next, as a transport may have it do for speed, or gives it back to the
    /// system, so that it holds what is in use and no more.
    fn keep_freed_memory(&mut self, _keep: bool) {}

    /// A communicator of these ranks for the caller's own calls of MPI; `None` where ranks are threads. All ranks must be here.
    ///
    /// # Errors
    /// When MPI makes none.
    #[cfg(feature = "mpi")]
    fn communicator(&self) -> Result<Option<super::mpi::Communicator>> {
        Ok(None)
    }

    /// The transport of a group of these ranks, for each of them; `None` for a rank that is in no group. All ranks must be here.
    ///
    /// # Errors
    /// When the message layer fails.
    fn group(&mut self, group: &Group) -> Result<Option<Box<dyn Transport>>>;

    /// Leaves the world in good order: called once, on every rank, after the last frame.
    fn close(&mut self) -> Result<()>;
}

/// Wakes the thread that sits in [`Transport::wait`].
#[derive(Clone, Debug)]
pub(crate) struct Waker(std::thread::Thread);

impl Waker {
    /// A waker for the calling thread, which must wait with [`std::thread::park_timeout`].
    pub(crate) fn for_this_thread() -> Self {
        Waker(std::thread::current())
    }

    pub(crate) fn wake(&self) {
        self.0.unpark();
    }
}
