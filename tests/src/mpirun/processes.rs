//! Finds the processes of a test's job by an environment variable that they inherit.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Environment variable by which the processes of a test's job are found.
pub(super) const JOB_VARIABLE: &str = "ARMATURE_TEST_JOB";

pub(super) struct Process {
    pub(super) id: i32,
    pub(super) command: String,
    pub(super) environ: Vec<u8>,
}

pub(super) fn processes(job_id: &str) -> Vec<Process> {
    let entry = format!("{JOB_VARIABLE}={job_id}").into_bytes();
    let read = |entry_dir: std::fs::DirEntry| {
        let dir = entry_dir.path();
        let id = entry_dir.file_name().to_str()?.parse().ok()?;
        let environ = std::fs::read(dir.join("environ")).ok()?;
        let ours = !has_ended(id) && environ.split(|b| *b == 0).any(|e| e == entry);
        let command = std::fs::read(dir.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        ours.then_some(Process { id, command, environ })
    };
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(read).collect()
}

/// Returns true if the process does not exist or is a zombie.
fn has_ended(id: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_none_or(|rest| rest.trim_start().is_empty() || rest.trim_start().starts_with(['Z', 'X']))
}

/// Kills the processes of a job and waits until they have ended, because the kernel needs time to release their memory.
pub(super) fn kill_all(job_id: &str) {
    let start = Instant::now();
    let processes = processes(job_id);
    for pid in processes.iter().filter_map(|process| Pid::from_raw(process.id)) {
        let _ = kill_process(pid, Signal::KILL);
    }
    while processes.iter().any(|process| !has_ended(process.id)) && start.elapsed() < Duration::from_secs(10)
    {
        std::thread::sleep(Duration::from_millis(1));
    }
}
