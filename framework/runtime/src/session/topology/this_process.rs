//! What a rank says of its own process in the log of events.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::memory::{self, KIB};
use super::quota;

/// The name of this host.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The file name of the program.
pub(crate) fn program() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    Path::new(&name).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The memory that this process and those beside it may have, in bytes, if that is known.
pub(crate) fn memory_limit() -> Option<u64> {
    Some(memory::read(Path::new("/")).total).filter(|&total| total > 0)
}

/// Returns the time in which a CPU quota has kept this process and those beside it from running; zero if that is not known.
pub(crate) fn throttled() -> Duration {
    quota::throttled(Path::new("/")).unwrap_or_default()
}

/// The most memory that this process has had so far, in bytes, if the system tells.
pub(crate) fn memory_peak() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    memory::entry(&status, "VmHWM:").map(|kib| kib * KIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_memory_and_names() {
        let (peak, limit) = (memory_peak().unwrap(), memory_limit().unwrap());
        assert!(peak > KIB && peak <= limit, "{peak} of {limit}");
        assert!(!host().is_empty() && program().starts_with("armature"), "{}", program());
    }
}
