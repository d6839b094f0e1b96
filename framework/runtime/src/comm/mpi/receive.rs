//! Receives of control messages (short messages, and envelopes of long ones) from any sender. The receives are posted ahead.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ffi::c_int;

use ::mpi::ffi;
use bytes::Bytes;

use super::call::{check, transport};
use super::{memory, sentinel};
use crate::error::Result;

/// A received control message: a short message, or the envelope of a long one.
pub(super) struct Control {
    pub(super) from: usize,
    pub(super) tag: i32,
    pub(super) data: Bytes,
}

/// Posted receives for control messages (short messages, and envelopes of long ones), so that an arriving message always finds a buffer.
///
/// Invariant: the request of each slot is active and writes to the buffer of that slot, which has room for `room` bytes and is neither grown nor
/// freed before the request is complete.
pub(super) struct Slots {
    comm: ffi::MPI_Comm,
    room: usize,
    /// Posted receives with their buffers, in the order of posting, which is the order in which MPI fills them.
    slots: VecDeque<Slot>,
    /// Index of the posted receive that the function [`another`](Slots::another) tested last.
    turn: usize,
    /// Set under the simulator: a known pattern at the start of each buffer (see `sentinel.rs`) shows whether a receive is complete, and
    /// requests are not tested.
    has_sentinels: bool,
}

struct Slot {
    request: ffi::MPI_Request,
    buffer: Vec<u8>,
}

impl Slots {
    /// Posts `count` receives of up to `room` bytes each; `room` is at least [`sentinel::LENGTH`] and at most `i32::MAX`. `has_sentinels` is set
    /// under the simulator, where complete receives are detected by a pattern in the buffer.
    pub(super) fn post(comm: ffi::MPI_Comm, count: usize, room: usize, has_sentinels: bool) -> Result<Self> {
        let mut slots =
            Slots { comm, room, slots: VecDeque::with_capacity(count + 1), turn: 0, has_sentinels };
        for _ in 0..count {
            let buffer = slots.empty()?;
            slots.add(buffer)?;
        }
        Ok(slots)
    }

    fn empty(&self) -> Result<Vec<u8>> {
        let no_room = |e| transport(format!("no memory for a receive of {} bytes: {e}", self.room));
        memory::buffer(self.room).map_err(no_room)
    }

    fn add(&mut self, mut buffer: Vec<u8>) -> Result<()> {
        debug_assert!(buffer.capacity() >= self.room);
        if self.has_sentinels {
            // SAFETY: the receive buffer has capacity for `room` bytes.
            unsafe { sentinel::set(buffer.as_mut_ptr()) };
        }
        // SAFETY: reading a constant of the MPI library after MPI_Init.
        let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
        // SAFETY: the buffer has room for `room` bytes on the heap and is kept in a slot until the request is complete or the transport
        // leaks it.
        let code = unsafe {
            ffi::MPI_Irecv(
                buffer.as_mut_ptr().cast(),
                self.room as c_int,
                ffi::RSMPI_UINT8_T,
                ffi::RSMPI_ANY_SOURCE,
                ffi::RSMPI_ANY_TAG,
                self.comm,
                &mut request,
            )
        };
        check(code, "MPI_Irecv")?;
        self.slots.push_back(Slot { request, buffer });
        Ok(())
    }

    #[inline]
    pub(super) fn first(&mut self) -> Result<Option<Control>> {
        if self.has_sentinels { self.filled() } else { self.test(0) }
    }

    /// Tests one of the posted receives after the first, a different one at each call. Returns its message if the receive is complete.
    ///
    /// Without this test, a receive that is filled slowly, because its sender computes, would delay the message of another sender in a later receive.
    pub(super) fn another(&mut self) -> Result<Option<Control>> {
        if self.has_sentinels || self.slots.len() < 2 {
            return Ok(None);
        }
        self.turn = self.turn % (self.slots.len() - 1) + 1;
        self.test(self.turn)
    }

    fn test(&mut self, index: usize) -> Result<Option<Control>> {
        let Some(slot) = self.slots.get_mut(index) else { return Ok(None) };
        let mut done = 0;
        let mut status = empty_status();
        // SAFETY: the request is active and the pointers are valid for the call.
        let code = unsafe { ffi::MPI_Test(&mut slot.request, &mut done, &mut status) };
        check(code, "MPI_Test of a receive")?;
        if done == 0 { Ok(None) } else { self.take(index, &status).map(Some) }
    }

    /// Returns the message in the first buffer whose sentinel, a pattern at its start, has been overwritten.
    fn filled(&mut self) -> Result<Option<Control>> {
        // SAFETY: a buffer has a sentinel (a pattern at its start) when its receive is posted, and only the simulator writes to the buffer.
        let is_filled = |slot: &Slot| unsafe { sentinel::is_overwritten(slot.buffer.as_ptr()) };
        let Some(index) = self.slots.iter().position(is_filled) else { return Ok(None) };
        let mut status = empty_status();
        // SAFETY: the request is active and the pointers are valid for the call.
        let code = unsafe { ffi::MPI_Wait(&mut self.slots[index].request, &mut status) };
        check(code, "MPI_Wait for a receive")?;
        self.take(index, &status).map(Some)
    }

    /// Returns the message of a complete receive, and posts the receive again.
    pub(super) fn take(&mut self, index: usize, status: &ffi::MPI_Status) -> Result<Control> {
        let length = count(status)?;
        let none = || transport(format!("MPI completed a receive that was never posted (slot {index})"));
        let mut buffer = self.slots.remove(index).ok_or_else(none)?.buffer;
        if length > buffer.capacity() {
            return Err(transport(format!(
                "{length} bytes arrived in a buffer of {} bytes",
                buffer.capacity()
            )));
        }
        // SAFETY: MPI has written `length` bytes, which is within the capacity of the buffer.
        unsafe { buffer.set_len(length) };
        // A message that fills more than a quarter of its buffer keeps the buffer. For a smaller message a copy is cheaper than a new buffer.
        let data = if length > self.room / 4 {
            let full = std::mem::replace(&mut buffer, self.empty()?);
            Bytes::from(full)
        } else {
            Bytes::copy_from_slice(&buffer)
        };
        buffer.clear();
        self.add(buffer)?;
        Ok(Control { from: sender(status)?, tag: status.MPI_TAG, data })
    }

    /// Returns the posted requests. Their indices are valid arguments of [`take`](Slots::take).
    pub(super) fn requests(&self) -> impl Iterator<Item = ffi::MPI_Request> + '_ {
        self.slots.iter().map(|slot| slot.request)
    }

    /// Cancels all receives. Returns the number of messages that had arrived and were not read.
    pub(super) fn withdraw(&mut self) -> Result<usize> {
        let mut unread = 0;
        while let Some(slot) = self.slots.front_mut() {
            let mut status = empty_status();
            let mut cancelled = 0;
            // SAFETY: the request is active; after MPI_Cancel, MPI_Wait is local and ends at once.
            unsafe {
                check(ffi::MPI_Cancel(&mut slot.request), "MPI_Cancel")?;
                check(ffi::MPI_Wait(&mut slot.request, &mut status), "MPI_Wait")?;
                check(ffi::MPI_Test_cancelled(&status, &mut cancelled), "MPI_Test_cancelled")?;
            }
            unread += usize::from(cancelled == 0);
            self.slots.pop_front();
        }
        Ok(unread)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // The buffers of unfinished receives are leaked, because MPI may still write to them.
        std::mem::forget(std::mem::take(&mut self.slots));
    }
}

pub(super) fn empty_status() -> ffi::MPI_Status {
    // SAFETY: MPI_Status is a C struct of numbers, for which zeros are valid.
    unsafe { std::mem::zeroed() }
}

pub(super) fn count(status: &ffi::MPI_Status) -> Result<usize> {
    let mut length: c_int = 0;
    // SAFETY: the pointers to the status and to the count are valid for the call.
    check(unsafe { ffi::MPI_Get_count(status, ffi::RSMPI_UINT8_T, &mut length) }, "MPI_Get_count")?;
    usize::try_from(length).map_err(|_| transport(format!("a message of {length} bytes arrived")))
}

fn sender(status: &ffi::MPI_Status) -> Result<usize> {
    let from = status.MPI_SOURCE;
    usize::try_from(from).map_err(|_| transport(format!("a message arrived from rank {from}")))
}
