//! Embedding in a program that uses MPI itself: the ranks use the communicator of the program, and an MPI library that the program has
//! initialised.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::thread::ThreadId;

use ::mpi::environment::Threading;
use ::mpi::ffi;
use ::mpi::traits::AsRaw;

use super::bindings::Communicator;
use super::call::{check, transport};
use crate::error::{Error, ErrorKind, Result};

/// Advice at the end of error messages, for programs that need MPI after a run has ended.
const BEFORE: &str = "initialise MPI yourself before the first run, by armature::mpi::initialize_with_threading(Threading::Funneled), and \
                      finalise it after the last one";

/// A communicator of the program, whose ranks are the ranks of the session.
#[derive(Clone)]
pub(crate) struct EmbeddedCommunicator(Arc<Held>);

struct Held {
    communicator: ManuallyDrop<Communicator>,
    /// Thread that has set the communicator; only this thread may call MPI.
    owner: ThreadId,
}

// SAFETY: the communicator is used and freed only by the thread that set it; `raw` and `drop` check that they run on this thread.
unsafe impl Send for Held {}
// SAFETY: the communicator is used and freed only by the thread that set it, as for `Send`.
unsafe impl Sync for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        // Freeing the communicator calls MPI. On another thread, or after MPI has been finalised, the handle is leaked instead.
        if std::thread::current().id() == self.owner && is_initialised().unwrap_or(false) {
            // SAFETY: the communicator is dropped only here, once.
            unsafe { ManuallyDrop::drop(&mut self.communicator) };
        }
    }
}

impl EmbeddedCommunicator {
    pub(crate) fn new(communicator: Communicator) -> Self {
        let communicator = ManuallyDrop::new(communicator);
        EmbeddedCommunicator(Arc::new(Held { communicator, owner: std::thread::current().id() }))
    }

    /// Returns the handle of the communicator.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] on a thread other than the one that has set the communicator.
    pub(super) fn raw(&self) -> Result<ffi::MPI_Comm> {
        if std::thread::current().id() == self.0.owner {
            return Ok(self.0.communicator.as_raw());
        }
        let text = "the communicator was set on another thread: set it on the thread that starts the run";
        Err(Error::new(ErrorKind::Config, text))
    }
}

impl std::fmt::Debug for EmbeddedCommunicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Communicator")
    }
}

/// Returns true if MPI is initialised in this process.
///
/// # Errors
/// [`ErrorKind::Transport`] if MPI has been finalised.
pub(crate) fn is_initialised() -> Result<bool> {
    let (mut finalised, mut initialised): (c_int, c_int) = (0, 0);
    // SAFETY: both MPI functions may be called at any time, and the pointers are valid for the calls.
    unsafe {
        check(ffi::MPI_Finalized(&mut finalised), "MPI_Finalized")?;
        check(ffi::MPI_Initialized(&mut initialised), "MPI_Initialized")?;
    }
    if finalised != 0 {
        return Err(transport(format!(
            "MPI has been finalised in this process and cannot start again: {BEFORE}"
        )));
    }
    Ok(initialised != 0)
}

/// Checks an MPI library that the program has initialised: its thread level must permit a second thread that computes, and the calling thread must be
/// permitted to call MPI.
///
/// # Errors
/// [`ErrorKind::Transport`] if a requirement is not met, with advice.
pub(super) fn check_initialised(library: &str) -> Result<()> {
    let (mut level, mut is_main): (c_int, c_int) = (0, 0);
    // SAFETY: MPI is initialised, and the pointers are valid for the calls.
    unsafe {
        check(ffi::MPI_Query_thread(&mut level), "MPI_Query_thread")?;
        check(ffi::MPI_Is_thread_main(&mut is_main), "MPI_Is_thread_main")?;
    }
    let level = Threading::from(level);
    if level < Threading::Funneled {
        return Err(transport(format!(
            "MPI ({library}) has been initialised with thread level SINGLE, expected FUNNELED or more, because user code may \
             run on another thread than the one that communicates: initialise it by \
             armature::mpi::initialize_with_threading(Threading::Funneled), in C by MPI_Init_thread with MPI_THREAD_FUNNELED"
        )));
    }
    if level == Threading::Funneled && is_main == 0 {
        return Err(transport(format!(
            "MPI ({library}) has been initialised on another thread, with thread level FUNNELED: start the run on that thread"
        )));
    }
    Ok(())
}
