//! Ends this process without the other ranks.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io::Write;
use std::time::Duration;

/// Ends this process at once. Unlike [`std::process::exit`] it runs no exit handlers, because those of libraries may wait for other ranks.
pub(super) fn exit(code: c_int) -> ! {
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().flush();
    // SAFETY: this is `_exit` of the system's C library, which takes any code and does not return.
    unsafe extern "C" {
        fn _exit(code: c_int) -> !;
    }
    // SAFETY: see above.
    unsafe { _exit(code) }
}

/// Ends this process with code 1 after `grace`, regardless of its threads.
pub(super) fn exit_within(grace: Duration) {
    let end = move || {
        std::thread::sleep(grace);
        exit(1)
    };
    // If the thread cannot be started, the rank still ends when its user code returns.
    let _ = std::thread::Builder::new().name("leaving".to_string()).spawn(end);
}
