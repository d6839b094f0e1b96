//! Facts about a rank's process for the log of events.

use std::path::Path;
use std::time::Duration;

use armature_host::{Here, Memory, Source, cgroup};

pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

pub(crate) fn program() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    Path::new(&name).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

pub(crate) fn threads() -> Vec<usize> {
    armature_host::allowed_threads(&Here)
}

/// Returns the memory in bytes that this process and the other processes of its cgroup may use, if it is known.
pub(crate) fn memory_limit() -> Option<u64> {
    Some(Memory::read(&Here).total).filter(|&total| total > 0)
}

/// Returns the time for which a CPU quota has stopped this process and the other processes of its cgroup; zero if unknown.
pub(crate) fn throttled() -> Duration {
    cgroup::throttled(&Here).unwrap_or_default()
}

pub(crate) fn memory_peak() -> Option<u64> {
    cgroup::entry(&Here.read("/proc/self/status")?, "VmHWM:").map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_reports_memory_host_and_program() {
        let (peak, limit) = (memory_peak().unwrap(), memory_limit().unwrap());
        assert!(peak > 1024 && peak <= limit, "{peak} of {limit}");
        assert!(!host().is_empty() && program().starts_with("armature"), "{}", program());
    }
}
