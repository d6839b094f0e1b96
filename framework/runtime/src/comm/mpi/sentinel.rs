//! Detection of received messages without a request test, for the simulator.
//!
//! SimGrid charges simulated time for every test of a request, and never frees a receive that was completed by a test (release 3.32), which
//! makes all later messages of the rank slower. A wait costs nothing and frees the receive. Therefore a simulated rank writes a *sentinel*, a
//! fixed pattern of bytes, at the start of its buffers, detects by the missing sentinel that a buffer has been filled, and then waits for that
//! receive, which is complete. A message that begins with the bytes of the sentinel is not detected in this way; such a message is received when
//! the rank waits for any request.
//!
//! On a real MPI a program must not read a buffer of an active receive. The simulator's ranks take turns on one thread, and the simulator fills
//! a buffer as a whole when the message has arrived.
#![allow(unsafe_code)]

/// Bytes that mark the start of a buffer in which no message has arrived.
const SENTINEL: [u8; LENGTH] = [0xa7, 0x1c, 0xe5, 0x93, 0xd8, 0x6f, 0xb2, 0x4d];

/// Size in bytes of the pattern that marks an empty buffer; a shorter buffer is not marked.
pub(super) const LENGTH: usize = 8;

/// Writes the sentinel at the start of a buffer.
///
/// # Safety
/// `buffer` is valid for writing [`LENGTH`] bytes.
// SAFETY: the caller's obligation is stated above; a raw pointer does not carry the length of its buffer.
pub(super) unsafe fn set(buffer: *mut u8) {
    // SAFETY: the caller guarantees a valid buffer; a byte array needs no alignment.
    unsafe { buffer.cast::<[u8; LENGTH]>().write(SENTINEL) }
}

/// Returns true if a message has overwritten the pattern at the start of `buffer`.
///
/// # Safety
/// `buffer` has a sentinel, has not been freed, and is written only by the simulator, which does not write to it now.
// SAFETY: the caller's obligation is stated above; a raw pointer does not show who writes to its buffer.
pub(super) unsafe fn is_overwritten(buffer: *const u8) -> bool {
    // SAFETY: the caller guarantees a valid buffer. The read is volatile, because the compiler does not see the simulator's write.
    unsafe { buffer.cast::<[u8; LENGTH]>().read_volatile() != SENTINEL }
}
