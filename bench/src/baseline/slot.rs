//! A buffer with at most one message under way in it.
//!
//! rsmpi's own requests borrow their buffer for a whole scope, so a ring of buffers that are used again and again
//! cannot be written with them. Here the buffer belongs to the slot, which gives it out only while no message is
//! under way.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use mpi::{
    ffi,
    topology::SimpleCommunicator,
    traits::{AsRaw, Equivalence},
};

/// A buffer of words and the message that is under way in it, if any.
pub(super) struct Slot<T: Equivalence = u64> {
    words: Vec<T>,
    request: Option<ffi::MPI_Request>,
}

impl<T: Equivalence + Default + Copy> Slot<T> {
    /// A slot of so many words, on pages that are there already.
    ///
    /// # Panics
    /// If MPI cannot count them in one message.
    pub(super) fn new(words: usize) -> Self {
        assert!(i32::try_from(words).is_ok(), "{words} words are too many for one message");
        // Written once, so that no page fault falls into the measurement.
        let mut buffer = Vec::with_capacity(words);
        buffer.extend((0..words).map(|_| T::default()));
        Slot { words: buffer, request: None }
    }

    /// Starts to send all words.
    pub(super) fn send(&mut self, world: &SimpleCommunicator, to: i32, tag: i32) {
        self.wait();
        let mut request = MaybeUninit::uninit();
        // SAFETY: the buffer has `words.len()` initialised words of this type (which fits an i32, see `new`). It neither moves nor is
        // written nor freed before the request completes: `words` is reachable through `wait` alone, and `drop` waits.
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

    /// Starts to receive words, as many as the slot has.
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

    /// Whether no message is under way any more. MPI gets on with its work here.
    pub(super) fn ready(&mut self) -> bool {
        let Some(request) = &mut self.request else { return true };
        let mut done = 0;
        // SAFETY: the request was started by `send` or `receive` and has not been waited for; if it is over, MPI has set
        // it to null, and it is forgotten here.
        unsafe {
            ffi::MPI_Test(request, &mut done, ffi::RSMPI_STATUS_IGNORE);
        }
        if done != 0 {
            self.request = None;
        }
        done != 0
    }

    /// Waits until no message is under way, then gives the words out.
    pub(super) fn wait(&mut self) -> &mut [T] {
        self.complete();
        &mut self.words
    }
}

impl<T: Equivalence> Slot<T> {
    fn complete(&mut self) {
        if let Some(mut request) = self.request.take() {
            // SAFETY: the request was started by `send` or `receive`, and `take` makes sure that it is waited for once.
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
