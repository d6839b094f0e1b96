//! Detection of received messages without a request test, for the simulator.
//!
//! SimGrid charges simulated time for every test of a request, and never frees a receive that was completed by a test (release 3.32), which
//! makes all later messages of the rank slower. A wait costs nothing and frees the receive. Therefore a simulated rank writes a sentinel at the
//! start of its buffers, detects by the missing sentinel that a buffer has been filled, and then waits for that receive, which is complete. A
//! message that begins with the bytes of the sentinel is not detected in this way; it is received when the rank waits for any request.
//!
//! On a real MPI a program must not read a buffer of an active receive. The simulator's ranks take turns on one thread, and the simulator
//! fills a buffer as a whole when the message has arrived.
#![allow(unsafe_code)]

/// Bytes at the start of a buffer in which no message has arrived.
const SENTINEL: [u8; LENGTH] = [0xa7, 0x1c, 0xe5, 0x93, 0xd8, 0x6f, 0xb2, 0x4d];

/// Size of a sentinel in bytes; a shorter buffer has no sentinel.
pub(super) const LENGTH: usize = 8;

/// Writes the sentinel at the start of a buffer.
///
/// # Safety
/// `buffer` is valid for writing [`LENGTH`] bytes.
// SAFETY: the caller's obligation is stated above; a raw pointer does not carry the length of its buffer.
pub(super) unsafe fn set(buffer: *mut u8) {
    // SAFETY: as above; a byte array needs no alignment.
    unsafe { buffer.cast::<[u8; LENGTH]>().write(SENTINEL) }
}

/// Returns true if the sentinel has been overwritten.
///
/// # Safety
/// `buffer` has a sentinel, has not been freed, and is written only by the simulator, which does not write to it now.
// SAFETY: the caller's obligation is stated above; a raw pointer does not show who writes to its buffer.
pub(super) unsafe fn is_overwritten(buffer: *const u8) -> bool {
    // SAFETY: as above. The read is volatile, because the compiler does not see the write.
    unsafe { buffer.cast::<[u8; LENGTH]>().read_volatile() != SENTINEL }
}
