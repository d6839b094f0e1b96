//! Interface of the message layer: ranks send and receive owned buffers.
//!
//! A [`Transport`] is the only access of the runtime to other ranks. There are two implementations: [`local`] runs the ranks of a job as threads of
//! one process, and `mpi` runs them as MPI processes (or as simulated processes under SimGrid SMPI). Both transports give the same guarantees:
//!
//! - [`send`](Transport::send) queues a frame and returns. It never blocks, whatever the receiver does.
//! - Messages from one rank to another arrive in the order in which they were sent.
//! - [`poll`](Transport::poll) never blocks; [`wait`](Transport::wait) blocks at most for the given limit, without keeping the core busy.
//! - The buffers of a frame are moved, not copied, if the message layer allows it. Bulk numbers arrive in memory with the alignment that they had on
//!   the sender's side ([`Part`]).
//! - Only the thread that opened the transport uses it.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{Error, Result};

use super::Part;

/// Unit of transfer between two ranks: a small head and, for bulk data, parts that are passed on without being copied or inspected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) head: Bytes,
    pub(crate) parts: Vec<Part>,
}

impl Frame {
    pub(crate) fn new(head: impl Into<Bytes>) -> Self {
        Frame { head: head.into(), parts: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.parts.iter().map(Part::len).sum::<usize>()
    }
}

/// Properties of the ranks that a transport connects. Code that depends on the kind of ranks queries this type instead of the name of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capabilities {
    /// True if each rank is a separate process on a real machine: the process can die alone, its death can be observed, and it can be ended
    /// alone.
    pub(crate) processes: bool,
    /// True if time is real, so that a wait can have a limit. A simulator detects deadlocks instead.
    pub(crate) real_time: bool,
    /// True if a rank may have threads in addition to the communicating one. In a simulator each rank is one thread of the simulator.
    pub(crate) threads: bool,
    /// True if the launcher keeps the other ranks running when one rank ends without finalising.
    pub(crate) ranks_may_end: bool,
}

/// Description of a group of ranks for the creation of its communicator, as seen by one rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// Number of the collective operation (run) that splits the ranks into groups.
    pub(crate) run: u32,
    /// Number of the group of ranks among the groups that are created at the same time.
    pub(crate) number: usize,
    /// Ranks of the group, in the order of their numbers in the group; empty if this rank is in no group.
    pub(crate) members: Vec<usize>,
}

/// Message layer as seen by one rank. The module documentation lists the guarantees.
pub(crate) trait Transport {
    fn rank(&self) -> usize;

    fn size(&self) -> usize;

    /// Returns `local…`, or `mpi…` with the name and version of the MPI library, for logs and for tests that check which transport is in use.
    fn describe(&self) -> String;

    fn capabilities(&self) -> Capabilities;

    /// Queues a frame for a rank, which may be this one, and returns at once.
    fn send(&mut self, to: usize, frame: Frame) -> Result<()>;

    /// Makes progress on queued sends and receives; returns the next completely received frame and its sender.
    ///
    /// # Errors
    /// If the message layer has failed, or, if ranks are threads (`local`), if another rank has failed.
    fn poll(&mut self) -> Result<Option<(usize, Frame)>>;

    /// Returns true if a frame has been received in part. The rest of the frame may arrive only as fast as this rank [polls](Transport::poll).
    fn is_receiving(&self) -> bool;

    /// Returns true if all queued sends are complete, so that their buffers are free.
    fn sends_done(&mut self) -> Result<bool>;

    /// Returns the ranks that have not received all frames sent to them, as of the last call of [`sends_done`](Transport::sends_done).
    /// Always empty for a transport that passes buffers on without a copy.
    fn receivers(&self) -> BTreeSet<usize> {
        BTreeSet::new()
    }

    /// Returns the number of frames [sent](Transport::send) so far, which is the number of the last frame.
    fn sends(&self) -> u64 {
        0
    }

    /// Returns true if the send of the frame with this number is complete, as of the last [poll](Transport::poll). Until the send is complete,
    /// the buffers of the frame stay in memory, even if all other owners have dropped them. Always true for a transport that passes buffers on
    /// without a copy.
    fn has_left(&self, _number: u64) -> bool {
        true
    }

    /// Sleeps until a frame may have arrived, another thread called the [`Waker`], or `limit` has passed. May return early. Under the simulator
    /// the call may block until the next frame if `limit` is `None`.
    fn wait(&mut self, limit: Option<Duration>) -> Result<()>;

    /// Returns a handle with which the compute thread of this rank ends a [`wait`](Transport::wait) early.
    fn waker(&self) -> Waker;

    /// Returns the clock of this transport: wall time, or the simulated time of this rank.
    fn clock(&self) -> crate::comm::clock::Clock;

    /// Makes `error`, a failure of the calling rank, the result of every further call on ranks that are threads of this process. Ranks in other
    /// processes receive a failure message instead.
    fn fail(&mut self, _error: &Error) {}

    /// Ends the job on every rank at once. Does not return if ranks are processes; has no effect if they are threads or simulated.
    #[cfg(feature = "mpi")]
    fn abort(&mut self) {}

    /// Ends this rank at once with exit code 0 and without finalising MPI, if the rank is a process. Returns if the rank is a thread or
    /// simulated.
    fn leave_now(&mut self);

    /// Ends this rank with a failure after the time `grace`, if the rank is a process. The process ends even if its threads still run user code,
    /// which cannot be stopped in another way. A rank that is a thread or simulated ends when its user code returns.
    fn leave_within(&mut self, _grace: Duration) {}

    /// Returns true if the ranks of this transport are all processes of the job.
    #[cfg(feature = "mpi")]
    fn has_all_processes(&self) -> bool {
        true
    }

    /// Revokes [`leave_within`](Transport::leave_within): the rank's user code has returned, so the rank need not be ended.
    #[cfg(feature = "mpi")]
    fn stay(&mut self) {}

    /// Sets whether the allocator of the process keeps freed memory, which makes later allocations faster, or returns it to the system, so that the
    /// process holds only memory in use.
    fn keep_freed_memory(&mut self, _keep: bool) {}

    /// Returns a communicator of the transport's ranks for MPI calls of the program; `None` if ranks are threads. Collective: all ranks must call it.
    ///
    /// # Errors
    /// If MPI cannot create the communicator.
    #[cfg(feature = "mpi")]
    fn communicator(&self) -> Result<Option<super::mpi::Communicator>> {
        Ok(None)
    }

    /// Returns the transport of `group`; `None` on a rank that is in no group. Collective: all ranks must call it.
    ///
    /// # Errors
    /// If the message layer fails.
    fn group(&mut self, group: &Group) -> Result<Option<Box<dyn Transport>>>;

    /// Finalises the transport. Called once on every rank, after the last frame of the rank.
    fn close(&mut self) -> Result<()>;
}

/// Handle that wakes a rank's thread which is blocked in [`Transport::wait`].
#[derive(Clone, Debug)]
pub(crate) struct Waker(std::thread::Thread);

impl Waker {
    /// Creates a waker for the calling thread, which must block by [`std::thread::park_timeout`].
    pub(crate) fn for_this_thread() -> Self {
        Waker(std::thread::current())
    }

    pub(crate) fn wake(&self) {
        self.0.unpark();
    }
}
