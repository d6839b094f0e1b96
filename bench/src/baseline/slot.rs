//! Buffer with at most one message in flight.
//!
//! Requests of the crate rsmpi borrow their buffer for a whole scope, which prevents a ring of reused buffers. A slot owns its buffer and gives
//! access to it only while no message is in flight.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use mpi::{
    ffi,
    topology::SimpleCommunicator,
    traits::{AsRaw, Equivalence},
};

/// Message buffer, and the request of the message in flight, if any.
pub(super) struct Slot<T: Equivalence = u64> {
    words: Vec<T>,
    request: Option<ffi::MPI_Request>,
}

impl<T: Equivalence + Default + Copy> Slot<T> {
    /// Creates a buffer of `words` values on memory pages that are already mapped.
    ///
    /// # Panics
    /// If the number of words exceeds the count limit of an MPI message.
    pub(super) fn new(words: usize) -> Self {
        assert!(i32::try_from(words).is_ok(), "{words} words are too many for one message");
        // Writing all values once prevents page faults during the measurement.
        let mut buffer = Vec::with_capacity(words);
        buffer.extend((0..words).map(|_| T::default()));
        Slot { words: buffer, request: None }
    }

    pub(super) fn send(&mut self, world: &SimpleCommunicator, to: i32, tag: i32) {
        self.wait();
        let mut request = MaybeUninit::uninit();
        // SAFETY: the buffer has `words.len()` initialised words of this type (the length fits an i32, see `new`).
        // The buffer is neither moved nor written nor freed before the request completes: `words` is accessible only
        // through `wait`, and `drop` waits.
        unsafe {
            ffi::MPI_Isend(
                self.words.as_ptr().cast(),
                self.words.len() as i32,
                T::equivalent_datatype().as_raw(),
                to,
                tag,
                world.as_raw(),
                request.as_mut_ptr(),
            );
            self.request = Some(request.assume_init());
        }
    }

    pub(super) fn receive(&mut self, world: &SimpleCommunicator, from: i32, tag: i32) {
        self.wait();
        let mut request = MaybeUninit::uninit();
        // SAFETY: as in `send`; here MPI writes into the buffer, which is not read before the request completes.
        unsafe {
            ffi::MPI_Irecv(
                self.words.as_mut_ptr().cast(),
                self.words.len() as i32,
                T::equivalent_datatype().as_raw(),
                from,
                tag,
                world.as_raw(),
                request.as_mut_ptr(),
            );
            self.request = Some(request.assume_init());
        }
    }

    /// Returns true if no message is in flight, and lets MPI make progress.
    pub(super) fn ready(&mut self) -> bool {
        let Some(request) = &mut self.request else { return true };
        let mut done = 0;
        // SAFETY: the request was started by `send` or `receive` and has not been waited for. When the request
        // completes, MPI sets it to null, and it is dropped below.
        unsafe {
            ffi::MPI_Test(request, &mut done, ffi::RSMPI_STATUS_IGNORE);
        }
        if done != 0 {
            self.request = None;
        }
        done != 0
    }

    pub(super) fn wait(&mut self) -> &mut [T] {
        self.complete();
        &mut self.words
    }
}

impl<T: Equivalence> Slot<T> {
    fn complete(&mut self) {
        if let Some(mut request) = self.request.take() {
            // SAFETY: the request was started by `send` or `receive`, and `take` ensures that it is waited for once.
            unsafe {
                ffi::MPI_Wait(&mut request, ffi::RSMPI_STATUS_IGNORE);
            }
        }
    }
}

impl<T: Equivalence> Drop for Slot<T> {
    fn drop(&mut self) {
        self.complete();
    }
}
