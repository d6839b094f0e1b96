//! End of this rank's process alone, without waiting for the other ranks.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Ends this process at once. Unlike [`std::process::exit`] this function runs no exit handlers, because exit handlers of libraries may wait for
/// other ranks.
pub(super) fn exit(code: c_int) -> ! {
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().flush();
    // SAFETY: this is `_exit` of the system's C library, which takes any code and does not return.
    unsafe extern "C" {
        fn _exit(code: c_int) -> !;
    }
    // SAFETY: `_exit` takes any code and does not return.
    unsafe { _exit(code) }
}

/// Guard of a thread that ends this process with code 1 after a grace period, even if other threads still run. If the guard is dropped, the process
/// is not ended.
#[derive(Debug)]
pub(super) struct ExitWithin(#[expect(dead_code, reason = "it is dropped")] Sender<()>);

impl ExitWithin {
    pub(super) fn new(grace: Duration) -> Self {
        let (guard, dropped) = channel::<()>();
        let end = move || {
            if dropped.recv_timeout(grace) == Err(RecvTimeoutError::Timeout) {
                exit(1);
            }
        };
        // An error is ignored: without the thread that ends the process, the rank still ends when its user code returns.
        let _ = std::thread::Builder::new().name("leaving".to_string()).spawn(end);
        ExitWithin(guard)
    }
}
