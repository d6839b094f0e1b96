//! Finds and ends the descendants of this process, by the numbers of their parent processes.
//!
//! Launchers start ranks in separate process groups and sessions. A signal to one group does not reach all of them. Instead, this process becomes the
//! "subreaper" of its descendants: it adopts their orphans, and no process leaves its tree.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    id: i32,
    parent: i32,
    /// True if the process has ended and its parent has not yet waited for it.
    dead: bool,
}

pub(super) fn adopt_orphans() -> std::io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

pub(super) fn living() -> Vec<Pid> {
    let (all, me) = (processes(), getpid().as_raw_nonzero().get());
    descendants(&all, me).into_iter().filter(|p| !p.dead).filter_map(|p| Pid::from_raw(p.id)).collect()
}

pub(super) fn signal(signal: Signal) {
    for process in living() {
        // Errors are ignored, because a process may have ended before it gets the signal.
        let _ = kill_process(process, signal);
    }
}

/// Waits for adopted children that have ended, except for `launcher`, for which its `Child` waits.
pub(super) fn reap(launcher: u32) {
    let me = getpid().as_raw_nonzero().get();
    let ours = |p: &Process| p.dead && p.parent == me && u32::try_from(p.id) != Ok(launcher);
    for process in processes().into_iter().filter(ours) {
        let _ = waitpid(Pid::from_raw(process.id), WaitOptions::NOHANG);
    }
}

/// Environment variables with the number of a rank, set before MPI starts: by Open MPI's mpirun, by MPICH's mpirun and `srun --mpi=pmi2`, and by
/// `srun --mpi=pmix`.
const RANK: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];

/// Returns the ranks that live on this machine, found by the path of the job's status file in the environments of all processes. (Ranks of srun are
/// not descendants of this process.) A rank is missed if this process may not read its environment.
pub(super) fn ranks(job_status: &Path) -> BTreeSet<usize> {
    let own = RANK.iter().filter(|name| std::env::var_os(name).is_some());
    // If a rank of another job has started this process, all processes that this one starts inherit the rank variables. They are therefore ignored.
    let own: Vec<&str> = own.copied().collect();
    let rank = |entry: std::fs::DirEntry| {
        entry.file_name().to_str()?.parse::<i32>().ok()?;
        rank_in(&std::fs::read(entry.path().join("environ")).ok()?, job_status, &own)
    };
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(rank).collect()
}

/// Returns the rank number in the environment of a process of this job. Rank variables in `but` are ignored.
fn rank_in(environment: &[u8], job_status: &Path, but: &[&str]) -> Option<usize> {
    let of = |name: &str| {
        let value =
            |entry: &'_ [u8]| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec);
        environment.split(|&byte| byte == 0).find_map(value)
    };
    of(super::JOB_STATUS).filter(|path| *path == job_status.as_os_str().as_bytes())?;
    let number = |name: &&str| String::from_utf8(of(name)?).ok()?.parse().ok();
    RANK.iter().filter(|name| !but.contains(name)).find_map(number)
}

pub(crate) fn is_alive(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"));
    stat.is_ok_and(|stat| parse(&stat).is_none_or(|process| !process.dead))
}

/// Returns the time at which a process started, in ticks since the last boot of the machine.
pub(crate) fn began(id: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The start time is field 22 of `/proc/PID/stat`, counted from 1; field 3 is the first one after the name of the program.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn processes() -> Vec<Process> {
    let read = |entry: std::fs::DirEntry| {
        entry.file_name().to_str()?.parse::<i32>().ok()?;
        parse(&std::fs::read_to_string(entry.path().join("stat")).ok()?)
    };
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(read).collect()
}

/// Parses `/proc/N/stat`, in which the name of the program is in parentheses and may contain any characters.
fn parse(stat: &str) -> Option<Process> {
    let (id, _) = stat.split_once(' ')?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X");
    Some(Process { id: id.parse().ok()?, parent: fields.next()?.parse().ok()?, dead })
}

fn descendants(all: &[Process], of: i32) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        let children = all.iter().filter(|p| p.parent == parent && p.id != of && !found.contains(p));
        let children: Vec<Process> = children.copied().collect();
        parents.extend(children.iter().map(|p| p.id));
        found.extend(children);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_are_parsed_with_any_process_name() {
        let process = |id, parent, dead| Some(Process { id, parent, dead });
        assert_eq!(parse("7 (sh) S 3 7 7 0"), process(7, 3, false));
        assert_eq!(parse("8 (a) Z 1 (b)) Z 4 8"), process(8, 4, true));
        assert_eq!(parse("8 (a"), None);
    }

    #[test]
    fn only_descendants_are_found() {
        let all: Vec<Process> = [(1, 0), (2, 1), (3, 2), (4, 3), (5, 1), (6, 4), (7, 5)]
            .map(|(id, parent)| Process { id, parent, dead: false })
            .into();
        let mut found: Vec<i32> = descendants(&all, 2).iter().map(|p| p.id).collect();
        found.sort_unstable();
        assert_eq!(found, [3, 4, 6]);
        assert_eq!(descendants(&all, 7), []);
    }

    #[test]
    fn rank_is_read_from_processes_of_the_same_job_only() {
        let job_status = Path::new("/v");
        let rank = |environment: &[u8], but: &[&str]| rank_in(environment, job_status, but);
        let open_mpi = b"A=b\0ARMATURE_JOB_STATUS=/v\0OMPI_COMM_WORLD_RANK=7\0PMIX_RANK=7\0";
        assert_eq!(rank(open_mpi, &[]), Some(7));
        assert_eq!(rank(b"PMI_RANK=3\0ARMATURE_JOB_STATUS=/v", &[]), Some(3));
        assert_eq!(rank(b"ARMATURE_JOB_STATUS=/v\0", &[]), None, "the launcher");
        assert_eq!(rank(b"PMI_RANK=3\0ARMATURE_JOB_STATUS=/v2\0", &[]), None, "another job");
        assert_eq!(rank(b"PMI_RANK=3\0PMIX_RANK=1\0ARMATURE_JOB_STATUS=/v\0", &["PMI_RANK"]), Some(1));
        assert_eq!(rank(b"", &[]), None, "a process that has ended");
    }

    #[test]
    fn is_alive_is_true_for_this_process_only() {
        assert!(is_alive(std::process::id()));
        assert!(!is_alive(u32::MAX));
    }
}
