//! Processes of a job, identified by an environment variable that they inherit.

use rustix::process::{Pid, Signal, kill_process};

/// Environment variable that identifies the processes of a job.
pub(super) const JOB_VARIABLE: &str = "ARMATURE_TEST_JOB";

/// A process of a job.
pub(super) struct Process {
    pub(super) id: i32,
    pub(super) command: String,
    pub(super) environ: Vec<u8>,
}

/// Returns the processes whose environment contains the job number `job_id`, without zombies.
pub(super) fn processes(job_id: &str) -> Vec<Process> {
    let entry = format!("{JOB_VARIABLE}={job_id}").into_bytes();
    let read = |entry_dir: std::fs::DirEntry| {
        let dir = entry_dir.path();
        let id = entry_dir.file_name().to_str()?.parse().ok()?;
        let environ = std::fs::read(dir.join("environ")).ok()?;
        let stat = std::fs::read_to_string(dir.join("stat")).ok()?;
        let dead = stat.rsplit(')').next()?.trim_start().starts_with(['Z', 'X']);
        let ours = !dead && environ.split(|b| *b == 0).any(|e| e == entry);
        let command = std::fs::read(dir.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        ours.then_some(Process { id, command, environ })
    };
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(read).collect()
}

/// Kills all processes whose environment contains the job number `job_id`.
pub(super) fn kill_all(job_id: &str) {
    for process in processes(job_id) {
        if let Some(pid) = Pid::from_raw(process.id) {
            // Errors are ignored, because the process may have ended in the meantime.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}
