//! Start of MPI: thread level, the transport's communicators, and comparison of the number of ranks with the launcher's.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use ::mpi::environment::{Threading, Universe};
use ::mpi::ffi;
use ::mpi::traits::FromRaw;

use super::bindings::Communicator;
use super::call::{check, transport};
use super::embedding::{EmbeddedCommunicator, check_initialised, is_initialised};
use super::start_reminder::{self, StartReminder};
use super::{LauncherFacts, launcher, memory, receive, simgrid};
use crate::comm::Reminder;
use crate::error::{Error, ErrorKind, Result};

/// Environment variable that sets whether a rank of Open MPI yields its core when it finds no message.
pub(super) const YIELD_WHEN_IDLE: &str = "OMPI_MCA_mpi_yield_when_idle";

/// Initialised MPI, with the communicators of one rank's transport.
pub(super) struct World {
    /// MPI's environment, if this transport has initialised MPI and must therefore finalise it. The environment is not dropped during a panic:
    /// rsmpi finalises MPI in `drop`, which would wait for the other ranks.
    pub(super) universe: Option<ManuallyDrop<Universe>>,
    /// Communicator for control messages: short messages, and envelopes of long ones.
    pub(super) control: ffi::MPI_Comm,
    /// Communicator for bulk data of messages.
    pub(super) bulk: ffi::MPI_Comm,
    pub(super) rank: usize,
    pub(super) size: usize,
    /// Number of processes in the whole job, which may be more than the ranks of the communicator.
    pub(super) all: usize,
    /// Name and version of the MPI library: the first line of its version text.
    pub(super) library: String,
}

/// Returns name and version of the MPI library, on one line.
pub(super) fn library() -> String {
    let text = ::mpi::environment::library_version().unwrap_or_default();
    let line = text.trim_matches(['\0', '\n', ' ']).lines().next().unwrap_or_default();
    // The words of the version text are joined by blanks, because MPICH separates name and version by tabs.
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns an error message if the program was compiled with the headers of MPICH, or of an MPI derived from it, but is linked to Open MPI.
/// `handle_bytes` is the size of a handle according to the headers, and `library` the first line of the version text of the linked library.
///
/// In MPICH and the libraries derived from it a handle is a number of 32 bits, but in Open MPI it is a pointer. Every call with a handle would
/// crash. The opposite case needs no check: a program that was built for Open MPI needs symbols that only Open MPI has, and does not start with
/// another library.
fn other_handles(handle_bytes: usize, library: &str) -> Option<String> {
    (handle_bytes == size_of::<c_int>() && library.starts_with("Open MPI")).then(|| {
        let library = library.split(',').next().unwrap_or(library);
        format!(
            "this program was built with the headers of MPICH, or of an MPI derived from it, but is linked to {library}: put the \
             directory of the library of that MPI first on the linker's search path (RUSTFLAGS=\"-L native=DIRECTORY\") and build \
             again; `ldd PROGRAM` shows the library that is used"
        )
    })
}

/// Prepares MPI for use by this thread, on the communicator `embedded` by the program, or on MPI_COMM_WORLD. MPI is initialised if it is not
/// initialised yet. The simulator grants only the thread level SINGLE, which is accepted, because a simulated rank has no second thread.
///
/// # Errors
/// If the MPI library is of another kind than the headers of the build, if MPI has been finalised in this process, if MPI grants too low a
/// thread level, or if MPI sees one rank where the launcher has started several. [`ErrorKind::Timeout`] if other ranks of the communicator do not
/// call this function within `limit`.
pub(super) fn start(embedded: Option<&EmbeddedCommunicator>, limit: Duration) -> Result<World> {
    let simulated = simgrid::simulated();
    let library = library();
    if let Some(why) = other_handles(size_of::<ffi::MPI_Comm>(), &library) {
        return Err(transport(why));
    }
    let is_in_use = is_initialised()?;
    if is_in_use && !simulated {
        check_initialised(&library)?;
    }
    let facts = launcher::read(|name| std::env::var(name).ok(), simulated);
    let universe = if is_in_use { None } else { Some(initialise(&library, facts.as_ref(), simulated)?) };
    // SAFETY: MPI is initialised; MPI_COMM_WORLD is a constant of the library.
    let world = unsafe { ffi::RSMPI_COMM_WORLD };
    if universe.is_some() {
        // SAFETY: MPI is initialised, and the predefined error handler is a constant of the library.
        let code = unsafe { ffi::MPI_Comm_set_errhandler(world, ffi::RSMPI_ERRORS_RETURN) };
        check(code, "MPI_Comm_set_errhandler")?;
    }
    let (_, all) = place(world, &library)?;
    if let Some(facts) = facts
        && let Some(why) = launcher::broken_promise(&facts, all, &library)
    {
        return Err(transport(why));
    }
    let world = embedded.map_or(Ok(world), EmbeddedCommunicator::raw)?;
    sleep_precisely();
    if !simulated {
        memory::tune_allocator();
    }
    World::on(world, universe, (all, library), limit)
}

impl World {
    /// Creates the transport's own communicators for the ranks of `communicator`, which are some of the `all` processes of the job. Collective:
    /// all ranks must call it.
    pub(super) fn on(
        communicator: ffi::MPI_Comm,
        universe: Option<ManuallyDrop<Universe>>,
        (all, library): (usize, String),
        limit: Duration,
    ) -> Result<Self> {
        let (rank, size) = place(communicator, &library)?;
        // SAFETY: MPI is initialised, and the communicator exists.
        let [control, bulk] = unsafe { duplicate(communicator, rank, limit)? };
        Ok(World { universe, control, bulk, rank, size, all, library })
    }
}

fn place(communicator: ffi::MPI_Comm, library: &str) -> Result<(usize, usize)> {
    let (mut rank, mut size): (c_int, c_int) = (0, 0);
    // SAFETY: MPI is initialised, the communicator exists, and the pointers are valid for the calls.
    unsafe {
        check(ffi::MPI_Comm_rank(communicator, &mut rank), "MPI_Comm_rank")?;
        check(ffi::MPI_Comm_size(communicator, &mut size), "MPI_Comm_size")?;
    }
    let number =
        |n: c_int| usize::try_from(n).map_err(|_| transport(format!("rank or size {n} from {library}")));
    Ok((number(rank)?, number(size)?))
}

fn initialise(
    library: &str,
    facts: Option<&LauncherFacts>,
    simulated: bool,
) -> Result<ManuallyDrop<Universe>> {
    if !simulated {
        wait_without_yielding(library);
    }
    let waits = facts.and_then(|facts| facts.rank).filter(|_| !simulated).and_then(StartReminder::of);
    let used = || transport("another part of this process initialised MPI while a run started".into());
    let (universe, level) = ::mpi::initialize_with_threading(Threading::Funneled).ok_or_else(used)?;
    drop(waits);
    // From here on `Universe` is not dropped. Its drop calls MPI_Finalize, in which this process would wait for the other ranks instead of
    // reporting an error.
    let universe = ManuallyDrop::new(universe);
    if level < Threading::Funneled && !simulated {
        return Err(transport(format!(
            "{library} grants only {}; armature needs FUNNELED, because user code may run on another thread than the \
             one that communicates",
            format!("{level:?}").to_uppercase()
        )));
    }
    Ok(universe)
}

/// First and longest sleep between two tests of whether a communicator has been duplicated. A duplication takes several messages, each of which may
/// wait for a sleep.
const FIRST_SLEEP: Duration = Duration::from_micros(10);
const LONGEST_SLEEP: Duration = Duration::from_micros(500);

/// Duplicates a communicator `N` times, so that other uses of MPI in the program do not interfere.
///
/// The calls do not block, because Open MPI spins in a blocking call: eight ranks on two cores would take twice as long to start.
///
/// # Errors
/// [`ErrorKind::Timeout`] if other ranks do not duplicate the communicator within `limit`; errors of MPI.
///
/// # Safety
/// MPI is initialised and `world` is a communicator.
// SAFETY: the caller's obligation is stated above; a handle does not show whether its communicator exists.
unsafe fn duplicate<const N: usize>(
    world: ffi::MPI_Comm,
    rank: usize,
    limit: Duration,
) -> Result<[ffi::MPI_Comm; N]> {
    // SAFETY: the caller promises that MPI is initialised and that `world` is a communicator. MPI writes to `comms` until all requests are complete;
    // after an error this memory is leaked.
    unsafe {
        let mut comms = ManuallyDrop::new(Box::new([ffi::RSMPI_COMM_NULL; N]));
        let mut requests = [ffi::RSMPI_REQUEST_NULL; N];
        for (comm, request) in comms.iter_mut().zip(&mut requests) {
            if simgrid::simulated() {
                // The simulator has no other duplication.
                check(ffi::MPI_Comm_dup(world, comm), "MPI_Comm_dup")?;
            } else {
                check(ffi::MPI_Comm_idup(world, comm, request), "MPI_Comm_idup")?;
            }
        }
        let (begin, mut sleep, mut reminder) = (Instant::now(), FIRST_SLEEP, Reminder::new());
        for request in &mut requests {
            while *request != ffi::RSMPI_REQUEST_NULL {
                let (mut done, mut status) = (0, receive::empty_status());
                check(ffi::MPI_Test(request, &mut done, &mut status), "MPI_Test of MPI_Comm_idup")?;
                if done == 0 {
                    let waited = begin.elapsed();
                    if waited > limit {
                        return Err(Error::new(ErrorKind::Timeout, late(waited)).at_rank(rank));
                    }
                    if reminder.is_due(waited) {
                        start_reminder::print(rank, &late(waited));
                    }
                    std::thread::sleep(sleep);
                    sleep = (2 * sleep).min(LONGEST_SLEEP);
                }
            }
        }
        for &comm in comms.iter() {
            check(ffi::MPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN), "MPI_Comm_set_errhandler")?;
        }
        Ok(*ManuallyDrop::into_inner(comms))
    }
}

fn late(waited: Duration) -> String {
    let seconds = waited.as_secs_f64();
    format!(
        "has waited {seconds:.0} s for other ranks of its communicator, which have not called `armature::run` or the same \
         method of the session"
    )
}

/// Duplicates `ours` for MPI calls of the program. Errors on the duplicate end the job, because the MPI bindings do not check return codes.
///
/// Collective: all ranks of `ours` must call it within `limit`.
pub(super) fn for_the_caller(ours: &World, limit: Duration) -> Result<Communicator> {
    // SAFETY: `ours` has a communicator of this crate, on which errors are returned.
    unsafe {
        let [theirs] = duplicate(ours.control, ours.rank, limit)?;
        check(ffi::MPI_Comm_set_errhandler(theirs, ffi::RSMPI_ERRORS_ARE_FATAL), "MPI_Comm_set_errhandler")?;
        Ok(Communicator::from_raw(theirs))
    }
}

/// Configures Open MPI not to yield the core after each poll without a message, unless the user has configured whether it yields.
///
/// Open MPI yields if ranks share cores, which is right for a rank that would otherwise spin. The ranks of this crate sleep between polls
/// anyway. In newer kernels (Linux from 6.18 on) a thread that yields loses the rest of its turn. On a machine with other load, a rank that
/// only communicates would therefore wait for its core nearly all the time.
fn wait_without_yielding(library: &str) {
    if library.starts_with("Open MPI") && std::env::var_os(YIELD_WHEN_IDLE).is_none() {
        // SAFETY: no thread of this crate runs yet. Code that starts MPI must keep other threads from the environment anyway, because Open
        // MPI writes to the environment while it starts.
        unsafe { std::env::set_var(YIELD_WHEN_IDLE, "0") };
    }
}

/// Configures the Linux kernel to end the sleeps of this thread on time; by default they end up to 50 µs late.
fn sleep_precisely() {
    #[cfg(target_os = "linux")]
    {
        let nanosecond = std::num::NonZeroU64::MIN;
        if let Err(error) = rustix::thread::set_current_timer_slack(Some(nanosecond)) {
            log::debug!("short sleeps remain imprecise: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_with_other_handle_sizes_is_refused() {
        let open_mpi = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4";
        let text = other_handles(4, open_mpi).unwrap();
        assert!(
            text.contains("the headers of MPICH") && text.contains("is linked to Open MPI v4.1.4: put"),
            "{text}"
        );
        assert_eq!(other_handles(8, open_mpi), None);
        assert_eq!(other_handles(4, "MPICH Version: 4.0.2"), None);
        assert_eq!(other_handles(size_of::<ffi::MPI_Comm>(), &library()), None, "these tests run");
    }
}
