//! Starting MPI: thread level, communicators of our own, and whether the launcher's promise was kept.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::mem::ManuallyDrop;

use ::mpi::environment::{Threading, Universe};
use ::mpi::ffi;
use ::mpi::traits::FromRaw;

use super::beside::{Given, check_initialised, is_initialised};
use super::bindings::Communicator;
use super::call::{check, transport};
use super::late::Start;
use super::{LauncherFacts, launcher, memory, simgrid};
use crate::error::Result;

/// Where Open MPI is told whether a rank that finds no message yields its core.
pub(super) const YIELD_WHEN_IDLE: &str = "OMPI_MCA_mpi_yield_when_idle";

/// MPI, initialised, as one rank sees it.
pub(super) struct World {
    /// There where MPI was started here: it is ended by whoever has started it. Never dropped on the way of a panic: rsmpi
    /// finalises MPI in `drop`, which would wait for the others.
    pub(super) universe: Option<ManuallyDrop<Universe>>,
    /// Control messages.
    pub(super) control: ffi::MPI_Comm,
    /// Bulk data.
    pub(super) bulk: ffi::MPI_Comm,
    pub(super) rank: usize,
    pub(super) size: usize,
    /// First line of the library's version text.
    pub(super) library: String,
}

/// Name and version of the MPI library, on one line.
pub(super) fn library() -> String {
    let text = ::mpi::environment::library_version().unwrap_or_default();
    let line = text.trim_matches(['\0', '\n', ' ']).lines().next().unwrap_or_default();
    // MPICH separates name and version by tabs.
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns why this program cannot call the MPI library that it is linked to, if its handles are of another kind; `handle_bytes` is
/// their size by the headers that the program was built with, and `library` the first line of the library's version text.
///
/// MPICH and the libraries derived from it use numbers of 32 bits, Open MPI pointers, so that every call with a handle would crash. A
/// program that was built for Open MPI needs symbols that only Open MPI has, and does not start with another library.
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

/// MPI for use by this thread, on the communicator that is `given`, or on that of all processes. It is initialised if it is not in
/// use already. The simulator grants only the level SINGLE, which is accepted: a simulated rank has no second thread.
///
/// # Errors
/// If the library is of another kind than the headers, MPI was in use in this process and is no more, grants too low a thread level, or sees one rank where the launcher
/// promised several.
pub(super) fn start(given: Option<&Given>) -> Result<World> {
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
        // SAFETY: as above; the predefined handler is a constant, too.
        let code = unsafe { ffi::MPI_Comm_set_errhandler(world, ffi::RSMPI_ERRORS_RETURN) };
        check(code, "MPI_Comm_set_errhandler")?;
    }
    let (_, all) = place(world, &library)?;
    if let Some(facts) = facts
        && let Some(why) = launcher::broken_promise(&facts, all, &library)
    {
        return Err(transport(why));
    }
    let world = given.map_or(Ok(world), Given::raw)?;
    sleep_precisely();
    if !simulated {
        memory::tune_allocator();
    }
    World::on(world, universe, library)
}

impl World {
    /// Communicators of our own for the ranks of `communicator`, all of which must be here.
    pub(super) fn on(
        communicator: ffi::MPI_Comm,
        universe: Option<ManuallyDrop<Universe>>,
        library: String,
    ) -> Result<Self> {
        let (rank, size) = place(communicator, &library)?;
        // SAFETY: MPI is initialised, and the communicator exists.
        let (control, bulk) = unsafe { (duplicate(communicator)?, duplicate(communicator)?) };
        Ok(World { universe, control, bulk, rank, size, library })
    }
}

/// This process's rank in a communicator, and how many there are.
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

/// Initialises MPI.
fn initialise(
    library: &str,
    facts: Option<&LauncherFacts>,
    simulated: bool,
) -> Result<ManuallyDrop<Universe>> {
    if !simulated {
        wait_without_yielding(library);
    }
    let waits = facts.and_then(|facts| facts.rank).filter(|_| !simulated).and_then(Start::of);
    let used = || transport("MPI has come into use in this process while a run started".into());
    let (universe, level) = ::mpi::initialize_with_threading(Threading::Funneled).ok_or_else(used)?;
    drop(waits);
    // Held from here on: an error below is reported by this process, not by a hang in MPI_Finalize.
    let universe = ManuallyDrop::new(universe);
    if level < Threading::Funneled && !simulated {
        return Err(transport(format!(
            "{library} grants only {}; armature needs FUNNELED, because user code computes beside the thread \
             that communicates",
            format!("{level:?}").to_uppercase()
        )));
    }
    Ok(universe)
}

/// A communicator of our own, so that a program's other use of MPI does not interfere.
///
/// # Safety
/// MPI is initialised and `world` is a communicator.
// SAFETY: the caller's part is said above; a handle alone does not tell whether its communicator exists.
unsafe fn duplicate(world: ffi::MPI_Comm) -> Result<ffi::MPI_Comm> {
    // SAFETY: as the caller promises.
    unsafe {
        let mut comm = ffi::RSMPI_COMM_NULL;
        check(ffi::MPI_Comm_dup(world, &mut comm), "MPI_Comm_dup")?;
        check(ffi::MPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN), "MPI_Comm_set_errhandler")?;
        Ok(comm)
    }
}

/// A duplicate of `ours` for the caller, who calls MPI as it likes: errors end the job there, as the bindings do not look at them.
///
/// All ranks of `ours` must be here.
pub(super) fn for_the_caller(ours: ffi::MPI_Comm) -> Result<Communicator> {
    // SAFETY: `ours` is a communicator of this crate, on which errors are returned.
    unsafe {
        let theirs = duplicate(ours)?;
        check(ffi::MPI_Comm_set_errhandler(theirs, ffi::RSMPI_ERRORS_ARE_FATAL), "MPI_Comm_set_errhandler")?;
        Ok(Communicator::from_raw(theirs))
    }
}

/// Asks Open MPI not to give the core away each time nothing has come, unless the user has said what it is to do.
///
/// It does that where ranks share cores, and for a rank that would otherwise spin it is right. Ours sleep between looks
/// anyway; and newer kernels (Linux from 6.18 on) take from a thread that yields the turn that it did not use, so that
/// beside a load from elsewhere one that only communicates waits for its core nearly all the time.
fn wait_without_yielding(library: &str) {
    if library.starts_with("Open MPI") && std::env::var_os(YIELD_WHEN_IDLE).is_none() {
        // SAFETY: no thread of ours runs yet; and whoever starts MPI has to keep other threads from the environment
        // anyway, since Open MPI writes into it while it starts.
        unsafe { std::env::set_var(YIELD_WHEN_IDLE, "0") };
    }
}

/// Asks the kernel to end this thread's sleeps on time: by default it adds 50 µs.
fn sleep_precisely() {
    #[cfg(target_os = "linux")]
    {
        let nanosecond = std::num::NonZeroU64::MIN;
        if let Err(error) = rustix::thread::set_current_timer_slack(Some(nanosecond)) {
            log::debug!("short sleeps stay imprecise: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_with_other_handles_than_the_headers_is_refused() {
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
