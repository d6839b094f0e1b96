//! Ending this process without the other ranks.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io::Write;
use std::time::Duration;

/// Ends this process at once. Not as [`std::process::exit`] does: what libraries do at the end may wait for the other ranks.
pub(super) fn exit(code: c_int) -> ! {
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().flush();
    // SAFETY: this is `_exit` of the system's C library, which takes any code and does not come back.
    unsafe extern "C" {
        fn _exit(code: c_int) -> !;
    }
    // SAFETY: see above.
    unsafe { _exit(code) }
}

/// Ends this process with code 1 after `grace`, whatever its threads do then.
pub(super) fn exit_within(grace: Duration) {
    let end = move || {
        std::thread::sleep(grace);
        exit(1)
    };
    // Without a thread for it the rank still ends when user code comes back.
    let _ = std::thread::Builder::new().name("leaving".to_string()).spawn(end);
}
