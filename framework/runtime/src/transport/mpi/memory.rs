//! Memory for messages: ordinary vectors, so that a received buffer can become an item without a copy.
//!
//! By default glibc gives large freed blocks back to the system and gets them anew, page by page, with the next
//! allocation. For messages of 64 KiB to 1 MiB these page faults cost several times as much as the message itself,
//! and the items that stages make fare no better. So at start the allocator is asked to keep what is freed.
#![allow(unsafe_code)]

use std::collections::TryReserveError;

/// An empty buffer with room for `length` bytes.
pub(super) fn buffer(length: usize) -> Result<Vec<u8>, TryReserveError> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(length)?;
    Ok(buffer)
}

/// Asks the allocator to keep freed memory for the next allocation, and the kernel to back the first part of the heap
/// with huge pages. What the user has set by `MALLOC_…_` variables is left alone; other allocators are not touched.
///
/// Huge pages matter for large messages: MPI libraries let the kernel copy from process to process, which looks up
/// every page. With small pages a message of 1 MiB takes three times as long.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn tune_allocator() {
    if !keep_freed() {
        return;
    }
    // The heap grows by these blocks, is marked, and keeps them as free memory. Nothing is touched, so this costs
    // address space only, until it is used.
    let mut blocks: Vec<Vec<u8>> = (0..HUGE_BLOCKS).map(|_| Vec::with_capacity(BLOCK)).collect();
    for block in &mut blocks {
        let room = block.spare_capacity_mut();
        let start = room.as_mut_ptr().addr().next_multiple_of(PAGE);
        let end = (room.as_mut_ptr().addr() + room.len()) / PAGE * PAGE;
        let offset = start - room.as_mut_ptr().addr();
        // SAFETY: the range lies within a block that is ours, and the advice changes no contents.
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

/// Blocks below this come from the heap, which is the most that glibc takes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGEST: i32 = 32 << 20;
/// Free memory that is kept at the end of the heap.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT: i32 = 256 << 20;
/// How much of the heap gets huge pages: so many blocks of this size, each below [`LARGEST`].
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const HUGE_BLOCKS: usize = 4;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const BLOCK: usize = 31 << 20;
/// The largest page size of the machines that Linux runs on; a multiple of the others.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const PAGE: usize = 64 << 10;

/// Returns whether the allocator will keep what is freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn keep_freed() -> bool {
    use std::ffi::c_int;
    // SAFETY: this is mallopt of glibc's malloc.h.
    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }
    const SETTINGS: [(c_int, c_int, &str); 2] =
        [(-1, KEPT, "MALLOC_TRIM_THRESHOLD_"), (-3, LARGEST, "MALLOC_MMAP_THRESHOLD_")];
    SETTINGS.into_iter().all(|(parameter, value, variable)| {
        // SAFETY: mallopt is part of glibc, may be called at any time, and only changes when memory is given back.
        std::env::var_os(variable).is_none() && unsafe { mallopt(parameter, value) } == 1
    })
}

/// Other systems' allocators are left as they are.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn tune_allocator() {}
