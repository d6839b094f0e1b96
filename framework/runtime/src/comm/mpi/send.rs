//! Sends in flight: their buffers, and finding out which have left.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::c_int;

use ::mpi::ffi;
use bytes::Bytes;

use super::call::{check, transport};
use crate::error::Result;

/// How many sends one look tests, so that a look's cost does not grow with the queue.
const WINDOW: usize = 64;

/// Sends that MPI has been given and may still read from.
///
/// Invariant: `requests[i]` reads from `sends[i].data`, which is neither moved nor freed before the request
/// is complete. (`Bytes` may move; what it points to does not.)
pub(super) struct Outbox {
    requests: Vec<ffi::MPI_Request>,
    sends: Vec<Send>,
    /// Where the next look begins.
    cursor: usize,
    done: [c_int; WINDOW],
    at_once: AtOnce,
}

/// What is done about a send as soon as it has begun.
pub(super) enum AtOnce {
    /// One of at most this number of bytes is tested: most have left by then.
    Test(usize),
    /// One of fewer bytes is waited for, because it is known to be over, and a test would cost simulated time.
    Wait(usize),
}

struct Send {
    to: usize,
    /// The message that it is a piece of.
    message: u64,
    data: Bytes,
}

impl Outbox {
    pub(super) fn new(at_once: AtOnce) -> Self {
        Outbox { requests: Vec::new(), sends: Vec::new(), cursor: 0, done: [0; WINDOW], at_once }
    }

    /// Starts sending `data`, which must be at most `i32::MAX` bytes: a piece of this message to this rank.
    pub(super) fn push(
        &mut self,
        comm: ffi::MPI_Comm,
        (to, message): (usize, u64),
        tag: c_int,
        data: Bytes,
    ) -> Result<()> {
        let too_large = || transport(format!("{} bytes to rank {to} do not fit an MPI count", data.len()));
        let count = c_int::try_from(data.len()).map_err(|_| too_large())?;
        let rank = c_int::try_from(to).map_err(|_| too_large())?;
        // SAFETY: reading a constant of the MPI library after MPI_Init.
        let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
        // SAFETY: `data` holds `count` readable bytes and lives, unmoved on the heap and never written to,
        // until the request is complete: it is dropped below or in `forget` only after MPI said so.
        let code = unsafe {
            ffi::MPI_Isend(data.as_ptr().cast(), count, ffi::RSMPI_UINT8_T, rank, tag, comm, &mut request)
        };
        check(code, "MPI_Isend")?;
        let mut gone = 0;
        // SAFETY: the request is active and the pointers are valid for the calls.
        let code = unsafe {
            match self.at_once {
                AtOnce::Test(most) if data.len() <= most => {
                    ffi::MPI_Test(&mut request, &mut gone, ffi::RSMPI_STATUS_IGNORE)
                }
                AtOnce::Wait(limit) if data.len() < limit => {
                    gone = 1;
                    ffi::MPI_Wait(&mut request, ffi::RSMPI_STATUS_IGNORE)
                }
                _ => ffi::MPI_SUCCESS as c_int,
            }
        };
        if let Err(error) = check(code, "looking at a send that has begun") {
            std::mem::forget(data);
            return Err(error);
        }
        if gone != 0 {
            return Ok(());
        }
        self.requests.push(request);
        self.sends.push(Send { to, message, data });
        Ok(())
    }

    /// Looks at some of the sends and frees the buffers of those that have left.
    pub(super) fn look(&mut self) -> Result<()> {
        if self.requests.is_empty() {
            return Ok(());
        }
        if self.cursor >= self.requests.len() {
            self.cursor = 0;
        }
        let window = (self.requests.len() - self.cursor).min(WINDOW);
        let mut count: c_int = 0;
        // SAFETY: `window` active requests start at the cursor, and `done` has room for as many indices.
        let code = unsafe {
            ffi::MPI_Testsome(
                window as c_int,
                self.requests.as_mut_ptr().add(self.cursor),
                &mut count,
                self.done.as_mut_ptr(),
                ffi::RSMPI_STATUSES_IGNORE,
            )
        };
        check(code, "MPI_Testsome of sends")?;
        // MPI_UNDEFINED, "none is active", is negative.
        let count = usize::try_from(count).unwrap_or(0);
        let (from, mut done) = (self.cursor, self.done);
        let done = &mut done[..count];
        // From the last to the first, so that filling a gap from the end moves no send that is done.
        done.sort_unstable();
        for &index in done.iter().rev() {
            self.remove(from + index as usize);
        }
        self.cursor += window - count;
        Ok(())
    }

    /// The requests in flight; an index into them is good for [`remove`](Outbox::remove).
    pub(super) fn requests(&self) -> &[ffi::MPI_Request] {
        &self.requests
    }

    /// Frees the buffer of a send that is complete.
    pub(super) fn remove(&mut self, index: usize) {
        self.requests.swap_remove(index);
        self.sends.swap_remove(index);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether a piece of this message has not left.
    pub(super) fn holds(&self, message: u64) -> bool {
        self.sends.iter().any(|send| send.message == message)
    }

    /// Receivers of what has not left.
    pub(super) fn receivers(&self) -> BTreeSet<usize> {
        self.sends.iter().map(|send| send.to).collect()
    }

    /// What has not left, by receiver, for an error message.
    pub(super) fn stuck(&self) -> String {
        let mut by_rank = std::collections::BTreeMap::<usize, (usize, usize)>::new();
        for send in &self.sends {
            let (count, bytes) = by_rank.entry(send.to).or_default();
            *count += 1;
            *bytes += send.data.len();
        }
        let all = by_rank.iter().map(|(to, (n, bytes))| format!("{n} sends ({bytes} bytes) to rank {to}"));
        all.collect::<Vec<_>>().join(", ")
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        // MPI may still read from these: a leak at the end of a failed process is harmless, a read of freed
        // memory is not.
        std::mem::forget(std::mem::take(&mut self.sends));
    }
}
