//! Seeing that a message has arrived without asking the simulator.
//!
//! SimGrid charges simulated time for every test of a request, and never forgets a receive that a test completed (release
//! 3.32): each of them makes all later messages of the rank dearer. Waiting costs nothing and leaves nothing
//! behind. So a simulated rank marks the start of its buffers, sees by the mark that one has been filled, and then waits for
//! that receive, which is complete. A message that begins like the mark is not seen by this, but found when the rank
//! waits for any.
//!
//! On a real MPI nobody may look at a buffer that is being received into. The simulator's ranks take turns on one thread,
//! and it fills a buffer as a whole when the message has arrived.
#![allow(unsafe_code)]

/// What stands at the start of a buffer until something arrives in it.
const MARK: [u8; LENGTH] = [0xa7, 0x1c, 0xe5, 0x93, 0xd8, 0x6f, 0xb2, 0x4d];

/// Bytes of a mark; what is shorter has none.
pub(super) const LENGTH: usize = 8;

/// Marks a buffer.
///
/// # Safety
/// `buffer` is valid for writing [`LENGTH`] bytes.
// SAFETY: the caller's part is said above; a raw pointer alone does not tell how long its buffer is.
pub(super) unsafe fn set(buffer: *mut u8) {
    // SAFETY: as above; a byte array needs no alignment.
    unsafe { buffer.cast::<[u8; LENGTH]>().write(MARK) }
}

/// Whether something else has been written over the mark.
///
/// # Safety
/// `buffer` has been marked, is still there, and is written to by the simulator alone, which is not at it now.
// SAFETY: the caller's part is said above; a raw pointer alone does not tell who writes to its buffer.
pub(super) unsafe fn is_gone(buffer: *const u8) -> bool {
    // SAFETY: as above. Volatile, because the compiler does not see who writes.
    unsafe { buffer.cast::<[u8; LENGTH]>().read_volatile() != MARK }
}
