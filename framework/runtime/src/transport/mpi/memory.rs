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

/// Asks the allocator to keep freed memory for the next allocation. What the user has set by `MALLOC_…_` variables
/// is left alone; other allocators are not touched.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn keep_freed() {
    use std::ffi::c_int;
    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }
    /// Parameter, its value, and the variable by which a user sets it. Blocks below 32 MiB (the most that glibc
    /// takes) come from the heap, and up to 256 MiB at its end are kept.
    const SETTINGS: [(c_int, c_int, &str); 2] =
        [(-1, 256 << 20, "MALLOC_TRIM_THRESHOLD_"), (-3, 32 << 20, "MALLOC_MMAP_THRESHOLD_")];
    for (parameter, value, variable) in SETTINGS {
        if std::env::var_os(variable).is_some() {
            continue;
        }
        // SAFETY: mallopt is part of glibc, may be called at any time, and only changes when memory is given back.
        if unsafe { mallopt(parameter, value) } != 1 {
            log::debug!("the allocator refuses parameter {parameter} = {value}");
        }
    }
}

/// Other systems' allocators are left as they are.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn keep_freed() {}
