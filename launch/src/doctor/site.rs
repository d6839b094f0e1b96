//! Access of the checks of `armature doctor` to variables, files and programs of a machine.
//!
//! Checks use [`Site`] only, so that tests can run each check on a simulated machine.

use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(super) use armature_host::Here;
use rustix::process::Pid;

use crate::{Mpi, detect};

/// Time limit of a program that a check runs. A batch system that takes longer counts as unavailable.
const LIMIT: Duration = Duration::from_secs(3);

const POLL: Duration = Duration::from_millis(5);

/// Machine that the checks of `armature doctor` examine: this one, or a simulated one in tests.
pub(super) trait Site: armature_host::Source {
    fn variables(&self, prefix: &str) -> Vec<String>;
    fn list(&self, path: &str) -> Vec<String>;
    fn run(&self, program: &str, arguments: &[&str]) -> Option<String>;
    fn linked_mpi(&self, program: &Path) -> Option<Mpi>;
    fn free_bytes(&self, path: &str) -> Option<u64>;
    fn is_root(&self) -> bool;
    /// Returns true if this process may read the memory of its child processes. MPI libraries use such reads for large messages within a host.
    fn reads_memory_of_children(&self) -> bool;
    fn is_locked(&self, path: &str) -> bool;
}

impl Site for Here {
    fn variables(&self, prefix: &str) -> Vec<String> {
        let mut names: Vec<String> =
            std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
        names.retain(|name| name.starts_with(prefix));
        names.sort();
        names
    }

    fn list(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Option<String> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        output_within(command, LIMIT)
    }

    fn linked_mpi(&self, program: &Path) -> Option<Mpi> {
        detect::linked_mpi(program)
    }

    fn free_bytes(&self, path: &str) -> Option<u64> {
        let found = rustix::fs::statvfs(path).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    fn is_root(&self) -> bool {
        rustix::process::geteuid().is_root()
    }

    fn reads_memory_of_children(&self) -> bool {
        let Ok(mut child) = Command::new("sleep").arg("10").stdin(Stdio::null()).spawn() else { return true };
        let readable = Pid::from_raw(child.id().cast_signed()).is_none_or(is_readable);
        let _ = child.kill();
        let _ = child.wait();
        readable
    }

    fn is_locked(&self, path: &str) -> bool {
        let Ok(file) = std::fs::File::open(Path::new(path)) else { return false };
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared)
            == Err(rustix::io::Errno::WOULDBLOCK)
    }
}

/// Returns true if this process may read the memory of `process`. The kernel applies the same rule to `/proc/PID/mem` as to `process_vm_readv`, by
/// which MPI libraries copy messages.
fn is_readable(process: Pid) -> bool {
    std::fs::File::open(format!("/proc/{}/mem", process.as_raw_nonzero())).is_ok()
}

pub(super) fn output_within(mut command: Command, limit: Duration) -> Option<String> {
    // The output of the program goes to a file. With a pipe, the program would block as soon as the buffer of the pipe is full, because it is read
    // only at the end.
    let mut file = tempfile::tempfile().ok()?;
    command.stdout(file.try_clone().ok()?).stderr(file.try_clone().ok()?);
    let mut child = command.spawn().ok()?;
    let end = Instant::now() + limit;
    let status = loop {
        match child.try_wait().ok()? {
            Some(status) => break status,
            None if Instant::now() < end => std::thread::sleep(POLL),
            None => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    let mut text = Vec::new();
    file.rewind().ok()?;
    file.read_to_end(&mut text).ok()?;
    status.success().then(|| String::from_utf8_lossy(&text).into_owned())
}
