//! Transport between ranks that are MPI processes, or simulated processes under SimGrid SMPI. The only module that depends on MPI.
//!
//! `README.md` in this directory describes the protocol and its invariants.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::io::Write;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::time::Duration;

use ::mpi::ffi;

use self::assembly::{Assembly, BULK_TAG, Ready};
use self::call::{check, transport};
use self::envelope::{Number, Plan};
use self::exit::{ExitWithin, exit};
use self::receive::{Slots, count, empty_status};
use self::send::{AtOnce, Outbox};
use self::start::World;
use super::{Capabilities, Frame, Group, Transport, Waker};
use crate::comm::clock::Clock;
use crate::error::{Error, ErrorKind, Result};

mod assembly;
mod bindings;
mod call;
mod embedding;
mod envelope;
mod exit;
#[cfg(test)]
mod golden_tests;
mod launcher;
mod memory;
mod options;
mod receive;
mod send;
mod sentinel;
pub(crate) mod simgrid;
mod split;
mod start;
mod start_reminder;
#[cfg(test)]
mod tests;

pub use self::bindings::{Communicator, mpi};
pub(crate) use self::embedding::{EmbeddedCommunicator, is_initialised};
pub(crate) use self::launcher::LauncherFacts;
pub(crate) use self::options::MpiOptions;

/// Longest sleep of [`Transport::wait`] if the caller sets no limit.
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// Number of polls between two tests of bulk data and sends while control messages (short messages and envelopes) arrive at every poll.
const LOOK_AROUND: u32 = 16;

pub(crate) fn launched() -> Option<LauncherFacts> {
    launcher::read(|name| std::env::var(name).ok(), simgrid::simulated())
}

/// Time that the launcher gets to read an error message before the job is aborted.
const READ: Duration = Duration::from_millis(250);

/// Transport of one rank that is an MPI process. [`Transport`] lists the guarantees.
pub(crate) struct MpiTransport {
    world: World,
    options: MpiOptions,
    clock: Clock,
    waker: Waker,
    slots: Slots,
    assembly: Assembly,
    outbox: Outbox,
    numbers: Vec<Number>,
    sends: u64,
    ready: Ready,
    polls: u32,
    closed: bool,
    /// Guard of the thread that ends this process after a grace period, if [`leave_within`](Transport::leave_within) was called.
    exit: Option<ExitWithin>,
    lets_ranks_end: bool,
    /// Marker that makes the type not `Send`: only the thread that opened the transport may use it.
    not_send: PhantomData<*const ()>,
}

impl MpiTransport {
    /// Opens the transport on the communicator `embedded` by the program, or on MPI_COMM_WORLD. Initialises MPI if it is not initialised, and
    /// posts the first receives.
    ///
    /// # Errors
    /// - [`ErrorKind::Config`] for options out of range;
    /// - [`ErrorKind::Transport`] if MPI has been finalised already, grants too low a thread level, or sees one rank where the launcher has
    ///   started several.
    pub(crate) fn open(options: MpiOptions, embedded: Option<&EmbeddedCommunicator>) -> Result<Self> {
        options.check()?;
        let simulated = simgrid::simulated();
        let lets_ranks_end = launcher::lets_ranks_end(|name| std::env::var(name).ok(), simulated);
        MpiTransport::on(start::start(embedded, options.start_limit)?, options, lets_ranks_end)
    }

    fn on(world: World, options: MpiOptions, lets_ranks_end: bool) -> Result<Self> {
        let simulated = simgrid::simulated();
        let slots = options.slots_of(world.rank, world.size, simulated);
        Ok(MpiTransport {
            slots: Slots::post(world.control, slots, options.slot_bytes, simulated)?,
            assembly: Assembly::new(world.bulk, world.size, options.split, options.largest, simulated),
            outbox: Outbox::new(if simulated {
                AtOnce::Wait(simgrid::DETACHED)
            } else {
                AtOnce::Test(options.slot_bytes)
            }),
            numbers: vec![Number::default(); world.size],
            sends: 0,
            ready: Ready::new(),
            clock: if simulated { Clock::Simulated } else { Clock::wall() },
            waker: Waker::for_this_thread(),
            polls: 0,
            closed: false,
            exit: None,
            lets_ranks_end,
            not_send: PhantomData,
            world,
            options,
        })
    }

    /// Processes received messages, and sometimes tests bulk data and sends for completion. Returns true if a message or a part of a message has
    /// arrived.
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        self.polls = self.polls.wrapping_add(1);
        let found = match self.slots.first()? {
            Some(control) => {
                self.assembly.accept(control, &mut self.ready)?;
                true
            }
            None => false,
        };
        if found && !self.polls.is_multiple_of(LOOK_AROUND) {
            return Ok(true);
        }
        let landed = self.assembly.test_receives(&mut self.ready)?;
        self.outbox.test_sends()?;
        if !found && let Some(control) = self.slots.another()? {
            self.assembly.accept(control, &mut self.ready)?;
            return Ok(true);
        }
        Ok(found || landed)
    }

    /// Blocks until any receive or send is complete, and processes it. Used under the simulator, where a wait takes no processor time and
    /// advances simulated time.
    fn wait_any(&mut self) -> Result<()> {
        let mut requests: Vec<ffi::MPI_Request> = self.slots.requests().collect();
        let slots = requests.len();
        requests.extend(self.assembly.requests());
        let receives = requests.len();
        requests.extend(self.outbox.requests());
        let mut index: c_int = -1;
        let mut status = empty_status();
        // SAFETY: all requests are active and the pointers are valid for the call. The completed request is removed below from the list that it
        // belongs to, before that list is used again.
        let code = unsafe {
            ffi::MPI_Waitany(requests.len() as c_int, requests.as_mut_ptr(), &mut index, &mut status)
        };
        check(code, "MPI_Waitany")?;
        match usize::try_from(index) {
            Ok(index) if index < slots => {
                let control = self.slots.take(index, &status)?;
                self.assembly.accept(control, &mut self.ready)
            }
            Ok(index) if index < receives => {
                self.assembly.arrived(index - slots, count(&status)?, &mut self.ready)
            }
            Ok(index) if index < requests.len() => {
                self.outbox.remove(index - receives);
                Ok(())
            }
            _ => Err(transport("MPI_Waitany returned no request".into())),
        }
    }

    fn open_or_error(&self) -> Result<()> {
        if self.closed { Err(transport("the MPI transport is closed".into())) } else { Ok(()) }
    }
}

impl Transport for MpiTransport {
    fn rank(&self) -> usize {
        self.world.rank
    }

    fn size(&self) -> usize {
        self.world.size
    }

    fn describe(&self) -> String {
        format!("mpi: {}", self.world.library)
    }

    fn capabilities(&self) -> Capabilities {
        let real = !self.clock.is_simulated();
        Capabilities { processes: real, real_time: real, threads: real, ranks_may_end: self.lets_ranks_end }
    }

    fn keep_freed_memory(&mut self, keep: bool) {
        // Under the simulator, the setting for freed memory is ignored, because all simulated ranks share one process and its allocator.
        if !self.clock.is_simulated() {
            memory::keep_freed(keep);
        }
    }

    fn send(&mut self, to: usize, message: Frame) -> Result<()> {
        self.open_or_error()?;
        if to == self.world.rank {
            self.ready.push_back((to, message));
            return Ok(());
        }
        let size = self.world.size;
        let Some(number) = self.numbers.get_mut(to) else {
            return Err(transport(format!("cannot send a message to rank {to}: there are {size} ranks")));
        };
        let Plan { kind, control, bulk } = envelope::plan(message, self.options.slot_bytes)?;
        let tag = envelope::tag(kind, *number);
        *number = number.next();
        self.sends += 1;
        self.outbox.push(self.world.control, (to, self.sends), tag, control)?;
        for mut piece in bulk {
            while !piece.is_empty() {
                let chunk = piece.split_to(piece.len().min(self.options.split));
                self.outbox.push(self.world.bulk, (to, self.sends), BULK_TAG, chunk)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn poll(&mut self) -> Result<Option<(usize, Frame)>> {
        self.open_or_error()?;
        // MPI is polled even if a message of this rank to itself is ready: a rank that keeps sending to itself must also receive the messages of
        // other ranks.
        if self.ready.is_empty() || self.polls.is_multiple_of(LOOK_AROUND) {
            // Perhaps only a part of a message has arrived so far. The loop continues, because the rest can perhaps be received at once.
            while self.advance()? && self.ready.is_empty() {}
        } else {
            self.polls = self.polls.wrapping_add(1);
        }
        Ok(self.ready.pop_front())
    }

    fn is_receiving(&self) -> bool {
        !self.assembly.requests().is_empty()
    }

    fn sends_done(&mut self) -> Result<bool> {
        self.outbox.test_sends()?;
        Ok(self.outbox.is_empty())
    }

    fn receivers(&self) -> BTreeSet<usize> {
        self.outbox.receivers()
    }

    fn sends(&self) -> u64 {
        self.sends
    }

    fn has_left(&self, number: u64) -> bool {
        !self.outbox.holds(number)
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<()> {
        self.open_or_error()?;
        if !self.ready.is_empty() {
            return Ok(());
        }
        match limit {
            None if self.clock.is_simulated() => self.wait_any()?,
            Some(limit) if self.clock.is_simulated() => simgrid::sleep(limit),
            limit => std::thread::park_timeout(limit.unwrap_or(LONGEST_SLEEP)),
        }
        Ok(())
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }

    fn clock(&self) -> Clock {
        self.clock
    }

    fn abort(&mut self) {
        // Under the simulator MPI_Abort is not called, because it would end the whole simulation with exit code 0.
        if self.clock.is_simulated() {
            return;
        }
        let _ = std::io::stdout().flush();
        let _ = std::io::stderr().flush();
        // The rank sleeps before it aborts the job, because MPICH's launcher drops the output that it has not read by then.
        std::thread::sleep(READ);
        if !self.closed {
            // SAFETY: MPI is initialised and not finalised.
            unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, 1) };
        }
        // This line is reached only if MPI has been finalised or MPI_Abort has returned.
        std::process::abort();
    }

    fn leave_now(&mut self) {
        if !self.clock.is_simulated() {
            exit(0);
        }
    }

    fn leave_within(&mut self, grace: Duration) {
        if !self.clock.is_simulated() && self.exit.is_none() {
            self.exit = Some(ExitWithin::new(grace));
        }
    }

    fn has_all_processes(&self) -> bool {
        self.world.size == self.world.all
    }

    fn stay(&mut self) {
        self.exit = None;
    }

    fn communicator(&self) -> Result<Option<Communicator>> {
        self.open_or_error()?;
        start::for_the_caller(&self.world, self.options.start_limit).map(Some)
    }

    fn group(&mut self, group: &Group) -> Result<Option<Box<dyn Transport>>> {
        self.open_or_error()?;
        Ok(self.split(group)?.map(|transport| Box::new(transport) as Box<dyn Transport>))
    }

    fn close(&mut self) -> Result<()> {
        self.open_or_error()?;
        let start = self.clock.now();
        while !self.sends_done()? {
            // The rank receives messages while it waits for its sends: MPI may make no progress on sends while messages of other ranks are not
            // received.
            self.advance()?;
            if self.clock.now().saturating_sub(start) > self.options.close_limit {
                let limit = self.options.close_limit.as_secs_f64();
                let stuck = self.outbox.stuck();
                let text = format!("messages were not received within {limit} s: {stuck}");
                return Err(Error::new(ErrorKind::Timeout, text));
            }
            simgrid::sleep(Duration::from_micros(20));
        }
        let unread = self.slots.withdraw()? + self.ready.len();
        if unread > 0 || !self.assembly.is_empty() {
            log::warn!("{unread} unexpected messages arrived after the last expected one");
        }
        self.closed = true;
        // SAFETY: both communicators are owned by this transport and have no active request.
        unsafe {
            check(ffi::MPI_Comm_free(&mut self.world.control), "MPI_Comm_free")?;
            check(ffi::MPI_Comm_free(&mut self.world.bulk), "MPI_Comm_free")?;
        }
        drop(self.world.universe.take().map(ManuallyDrop::into_inner));
        Ok(())
    }
}

impl std::fmt::Debug for MpiTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let World { rank, size, library, .. } = &self.world;
        f.debug_struct("MpiTransport")
            .field("rank", rank)
            .field("size", size)
            .field("library", library)
            .field("sending", &self.outbox.stuck())
            .field("ready", &self.ready.len())
            .finish_non_exhaustive()
    }
}
