//! Converts the return codes of MPI calls to errors.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

use ::mpi::ffi;

use crate::error::{Error, ErrorKind, Result};

/// Returns `Ok` if an MPI call succeeded; `what` names the call in the error message.
#[inline]
pub(super) fn check(code: c_int, what: &str) -> Result<()> {
    if code == ffi::MPI_SUCCESS as c_int { Ok(()) } else { Err(failed(code, what)) }
}

#[cold]
fn failed(code: c_int, what: &str) -> Error {
    // The buffer for error texts is larger than MPI_MAX_ERROR_STRING of all MPI libraries in use (256 to 1024).
    let mut text = [0u8; 4096];
    let mut length: c_int = 0;
    // SAFETY: the buffer is larger than MPI_MAX_ERROR_STRING and both pointers are valid for the call.
    let known = unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &mut length) };
    let why = if known == ffi::MPI_SUCCESS as c_int {
        let length = usize::try_from(length).unwrap_or(0).min(text.len());
        String::from_utf8_lossy(&text[..length]).into_owned()
    } else {
        format!("error code {code}")
    };
    transport(format!("{what} failed: {why}"))
}

pub(super) fn transport(message: String) -> Error {
    Error::new(ErrorKind::Transport, message)
}
