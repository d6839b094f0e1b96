//! Memory for messages: ordinary vectors, so that a received buffer can become an item without a copy.
//!
//! By default glibc returns large freed blocks of memory to the system and obtains them again, page by page, at the next allocation. For messages of
//! 64 KiB to 1 MiB these page faults cost several times as much as the message itself, and they also slow down items that stages allocate. Therefore
//! the allocator is configured at start to keep freed memory. A run with a limit on its memory configures it to return freed memory.
#![allow(unsafe_code)]

use std::collections::TryReserveError;

use super::envelope::Unit;
use crate::comm::Part;

pub(super) fn buffer(length: usize) -> Result<Vec<u8>, TryReserveError> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(length)?;
    Ok(buffer)
}

/// Receive buffer for bulk data: a vector of the data's unit (bytes, or words of four or eight bytes), so that its memory has the right
/// alignment.
pub(super) enum Landing {
    Bytes(Vec<u8>),
    Words32(Vec<u32>),
    Words64(Vec<u64>),
}

impl Landing {
    pub(super) fn empty(unit: Unit) -> Self {
        match unit {
            Unit::Byte => Landing::Bytes(Vec::new()),
            Unit::Word32 => Landing::Words32(Vec::new()),
            Unit::Word64 => Landing::Words64(Vec::new()),
        }
    }

    /// Reserves capacity for exactly `length` bytes, which must be a multiple of the size of an element of the vector (byte or word).
    pub(super) fn reserve(&mut self, length: usize) -> Result<(), TryReserveError> {
        match self {
            Landing::Bytes(bytes) => bytes.try_reserve_exact(length),
            Landing::Words32(words) => words.try_reserve_exact(length / size_of::<u32>()),
            Landing::Words64(words) => words.try_reserve_exact(length / size_of::<u64>()),
        }
    }

    pub(super) fn start(&mut self) -> *mut u8 {
        match self {
            Landing::Bytes(bytes) => bytes.as_mut_ptr(),
            Landing::Words32(words) => words.as_mut_ptr().cast(),
            Landing::Words64(words) => words.as_mut_ptr().cast(),
        }
    }

    /// Returns the received data without a copy.
    ///
    /// # Safety
    /// `length` bytes have been reserved, `length` is a multiple of the size of an element (byte or word), and all bytes have been written.
    // SAFETY: the caller's obligation is stated above. The function is unsafe, because MPI writes through the raw pointer `start` and the vectors do
    // not know how many bytes it has written.
    pub(super) unsafe fn filled(self, length: usize) -> Part {
        // SAFETY: the caller guarantees that all `length` bytes have been written; every bit pattern is a value of `u8`, `u32` and `u64`.
        unsafe {
            match self {
                Landing::Bytes(mut bytes) => {
                    bytes.set_len(length);
                    Part::Bytes(bytes.into())
                }
                Landing::Words32(mut words) => {
                    words.set_len(length / size_of::<u32>());
                    Part::Words32(words.into())
                }
                Landing::Words64(mut words) => {
                    words.set_len(length / size_of::<u64>());
                    Part::Words64(words.into())
                }
            }
        }
    }
}

/// Configures the allocator to keep freed memory for later allocations, and asks the kernel to back the first part of the heap with huge
/// pages. Settings of the user in `MALLOC_…_` variables take precedence; other allocators are not changed.
///
/// Huge pages matter for large messages: MPI libraries let the kernel copy from process to process, which looks up every page. With small
/// pages a message of 1 MiB takes three times as long.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn tune_allocator() {
    if !keep_freed(true) {
        return;
    }
    // The heap grows by the memory of `blocks`, which is marked for huge pages and then freed. Nothing is written to the blocks, so they cost
    // only address space until the memory is used.
    let mut blocks: Vec<Vec<u8>> = (0..HUGE_BLOCKS).map(|_| Vec::with_capacity(BLOCK)).collect();
    for block in &mut blocks {
        let room = block.spare_capacity_mut();
        let start = room.as_mut_ptr().addr().next_multiple_of(PAGE);
        let end = (room.as_mut_ptr().addr() + room.len()) / PAGE * PAGE;
        let offset = start - room.as_mut_ptr().addr();
        // SAFETY: the range lies within a memory block that this function owns, and `madvise` does not change the contents of the block.
        let advised = unsafe {
            rustix::mm::madvise(
                room.as_mut_ptr().add(offset).cast(),
                end.saturating_sub(start),
                rustix::mm::Advice::LinuxHugepage,
            )
        };
        if let Err(error) = advised {
            log::debug!("no huge pages for the heap: {error}");
            return;
        }
    }
}

/// Size in bytes below which the allocator takes a block from the heap. This size is the maximum that glibc accepts.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGEST: i32 = 32 << 20;
/// Maximum size in bytes of the free memory at the end of the heap that the allocator keeps.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT: i32 = 256 << 20;
/// Number of memory blocks, each smaller than [`LARGEST`], for which huge pages are requested.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HUGE_BLOCKS: usize = 4;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const BLOCK: usize = LARGEST as usize - PAGE;
/// Largest page size in bytes of the machines that Linux runs on; a multiple of the other page sizes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const PAGE: usize = 64 << 10;

/// Default value in bytes of two thresholds of glibc's allocator: larger freed blocks, and free memory at the end of the heap beyond this size, are
/// returned to the system.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const GIVEN_BACK: i32 = 128 << 10;

/// Configures the allocator to keep freed memory or to return it to the system; memory that is already free is returned as well. Returns
/// true if all settings were accepted.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn keep_freed(keep: bool) -> bool {
    use std::ffi::c_int;
    // SAFETY: the declarations are those of mallopt and malloc_trim in glibc's malloc.h.
    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
        fn malloc_trim(pad: usize) -> c_int;
    }
    const SETTINGS: [(c_int, c_int, &str); 2] =
        [(-1, KEPT, "MALLOC_TRIM_THRESHOLD_"), (-3, LARGEST, "MALLOC_MMAP_THRESHOLD_")];
    let is_set = SETTINGS.into_iter().all(|(parameter, kept, variable)| {
        let value = if keep { kept } else { GIVEN_BACK };
        // SAFETY: mallopt is part of glibc, may be called at any time, and only changes when memory is returned to the system.
        std::env::var_os(variable).is_none() && unsafe { mallopt(parameter, value) } == 1
    });
    if !keep {
        // SAFETY: malloc_trim is part of glibc, may be called at any time, and only touches free memory.
        unsafe { malloc_trim(0) };
    }
    is_set
}

/// Does nothing: the allocators of other systems are not configured.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn tune_allocator() {}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn keep_freed(_keep: bool) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn land<P: bytemuck::Pod + PartialEq + std::fmt::Debug>(unit: Unit, expected: &[P]) {
        let bytes: &[u8] = bytemuck::cast_slice(expected);
        let mut landing = Landing::empty(unit);
        landing.reserve(bytes.len()).unwrap();
        let start = landing.start();
        // SAFETY: memory for this number of bytes has just been reserved, and all the bytes are written.
        let part = unsafe {
            start.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            landing.filled(bytes.len())
        };
        let values = part.into_values::<P>().unwrap();
        assert_eq!((values.as_ptr().cast::<u8>(), &values[..]), (start.cast_const(), expected));
    }

    #[test]
    fn received_bytes_become_values_without_a_copy() {
        land(Unit::Byte, &[1_u8, 2, 3]);
        land(Unit::Byte, &[[1_u8, 2], [3, 4]]);
        land(Unit::Word32, &[1.5_f32, -2.5, 3.5]);
        land(Unit::Word32, &[[1_i32; 100]; 3]);
        land(Unit::Word64, &[1_u64, 2, 3]);
        land(Unit::Word64, &[[0.5_f64; 128]; 64]);
    }

    #[test]
    fn impossible_allocation_is_an_error() {
        for unit in [Unit::Byte, Unit::Word32, Unit::Word64] {
            assert!(Landing::empty(unit).reserve(usize::MAX & !7).is_err());
        }
    }
}
