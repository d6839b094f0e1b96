//! One writer at a time: a lock that the system takes back when its holder dies.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{io_error, refused};
use crate::error::Result;

/// How often a lock is tried, every [`PAUSE`]: a job that has just been killed may still be ending.
pub(super) const TRIES: u32 = 200;
/// The time between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// Gives the lock back at once: the thread that syncs may have the file open for a while yet.
pub(super) fn unlock(file: &File) {
    // If it cannot, the lock goes when the file is closed.
    let _ = flock(file, FlockOperation::Unlock);
}

/// Locks the file for as long as it is open.
///
/// # Errors
/// When another process (or another journal of this one) holds the lock at each of the `tries`.
pub(super) fn lock(file: &File, path: &Path, tries: u32) -> Result<()> {
    for tried in 0..tries {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK | Errno::INTR) => {}
            Err(error) => return Err(io_error("lock", path, &error.into())),
        }
        if tried == 0 {
            log::info!("the journal {} is in use; waiting for its lock", path.display());
        }
        std::thread::sleep(PAUSE);
    }
    let waited = (PAUSE * tries).as_secs_f64();
    Err(refused(path, &format!("another process uses it, and has not let go of its lock within {waited} s")))
}
