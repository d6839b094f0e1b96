//! MPI sends in flight: their buffers, and detection of their completion.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::ffi::c_int;

use ::mpi::ffi;
use bytes::Bytes;

use super::call::{check, transport};
use crate::error::Result;

/// Number of sends tested by one call of [`test_sends`](Outbox::test_sends), so that the cost of a call does not grow with the queue.
const WINDOW: usize = 64;

/// Sends that MPI has started and whose buffers it may still read.
///
/// Invariant: `requests[i]` reads from `sends[i].data`, whose memory is neither moved nor freed before the request is complete. (The
/// `Bytes` value may move; the memory that it points to does not.)
pub(super) struct Outbox {
    requests: Vec<ffi::MPI_Request>,
    sends: Vec<Send>,
    cursor: usize,
    done: [c_int; WINDOW],
    at_once: AtOnce,
}

/// Action that follows the start of an MPI send at once: a test for completion, or a wait.
pub(super) enum AtOnce {
    /// Test a send of at most this number of bytes for completion, because most short sends are complete at once.
    Test(usize),
    /// Wait for a send of fewer bytes than this number. Under the simulator such a send is complete at once, and a test would cost simulated
    /// time.
    Wait(usize),
}

struct Send {
    to: usize,
    message: u64,
    data: Bytes,
}

impl Outbox {
    pub(super) fn new(at_once: AtOnce) -> Self {
        Outbox { requests: Vec::new(), sends: Vec::new(), cursor: 0, done: [0; WINDOW], at_once }
    }

    /// Starts sending `data`, at most `i32::MAX` bytes, to rank `to`, as a part of message number `message`.
    pub(super) fn push(
        &mut self,
        comm: ffi::MPI_Comm,
        (to, message): (usize, u64),
        tag: c_int,
        data: Bytes,
    ) -> Result<()> {
        let too_large = || {
            transport(format!(
                "a send of {} bytes to rank {to} exceeds the range of an MPI count",
                data.len()
            ))
        };
        let count = c_int::try_from(data.len()).map_err(|_| too_large())?;
        let rank = c_int::try_from(to).map_err(|_| too_large())?;
        // SAFETY: reading a constant of the MPI library after MPI_Init.
        let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
        // SAFETY: `data` holds `count` readable bytes and lives, unmoved on the heap and never written to, until the request is complete:
        // it is dropped below or in `remove` only after MPI has completed the request, and leaked otherwise.
        let code = unsafe {
            ffi::MPI_Isend(data.as_ptr().cast(), count, ffi::RSMPI_UINT8_T, rank, tag, comm, &mut request)
        };
        check(code, "MPI_Isend")?;
        let mut completed = 0;
        // SAFETY: the request is active and the pointers are valid for the calls.
        let code = unsafe {
            match self.at_once {
                AtOnce::Test(most) if data.len() <= most => {
                    ffi::MPI_Test(&mut request, &mut completed, ffi::RSMPI_STATUS_IGNORE)
                }
                AtOnce::Wait(limit) if data.len() < limit => {
                    completed = 1;
                    ffi::MPI_Wait(&mut request, ffi::RSMPI_STATUS_IGNORE)
                }
                _ => ffi::MPI_SUCCESS as c_int,
            }
        };
        if let Err(error) = check(code, "MPI_Test or MPI_Wait of a send") {
            std::mem::forget(data);
            return Err(error);
        }
        if completed != 0 {
            return Ok(());
        }
        self.requests.push(request);
        self.sends.push(Send { to, message, data });
        Ok(())
    }

    pub(super) fn test_sends(&mut self) -> Result<()> {
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
        // If no request is active, MPI_Testsome returns MPI_UNDEFINED instead of a number of sends. It is negative, so the conversion fails and gives
        // 0.
        let count = usize::try_from(count).unwrap_or(0);
        let (from, mut done) = (self.cursor, self.done);
        let done = &mut done[..count];
        // The last send in the list is removed first, so that `swap_remove` does not move a completed send that is still to be removed.
        done.sort_unstable();
        for &index in done.iter().rev() {
            self.remove(from + index as usize);
        }
        self.cursor += window - count;
        Ok(())
    }

    /// Returns the requests of the sends in flight. Their indices are valid arguments of [`remove`](Outbox::remove).
    pub(super) fn requests(&self) -> &[ffi::MPI_Request] {
        &self.requests
    }

    pub(super) fn remove(&mut self, index: usize) {
        self.requests.swap_remove(index);
        self.sends.swap_remove(index);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub(super) fn holds(&self, message: u64) -> bool {
        self.sends.iter().any(|send| send.message == message)
    }

    pub(super) fn receivers(&self) -> BTreeSet<usize> {
        self.sends.iter().map(|send| send.to).collect()
    }

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
        // The buffers of unfinished sends are leaked, because MPI may still read from them. A leak at the end of a failed process is harmless; a
        // read of freed memory is not.
        std::mem::forget(std::mem::take(&mut self.sends));
    }
}
