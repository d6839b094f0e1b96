//! Counts processes of a job on this host that the kernel has killed for lack of memory.

use std::fs;
use std::path::{Path, PathBuf};

use armature_host::cgroup;

use super::job_usage::group_of_job;

/// Levels of cgroups that are searched below the cgroup of a batch job. Slurm creates three: step, user and task.
const DEPTH: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemoryGroup {
    directory: PathBuf,
}

/// Processes that the kernel has killed for lack of memory, in a memory cgroup and the groups in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) kills: u64,
    /// Memory limit in bytes of the innermost cgroup in which a process was killed.
    pub(super) limit: Option<u64>,
    /// Peak memory in bytes of the innermost cgroup in which a process was killed, if the kernel reports it.
    pub(super) used: Option<u64>,
}

impl MemoryGroup {
    /// Returns the memory cgroup of this process or, in a Slurm job, that of all steps of the job on this host.
    pub(crate) fn own() -> Option<Self> {
        let text = fs::read_to_string(cgroup::OWN).ok()?;
        MemoryGroup::find(&text, Path::new(cgroup::MOUNTS))
    }

    /// `text` is the content of `/proc/self/cgroup`, and `root` the directory of the cgroup hierarchies. In a container, the path in `text` may not
    /// exist; the root of the hierarchy is used then.
    fn find(text: &str, root: &Path) -> Option<Self> {
        cgroup::memberships(text, "memory").find_map(|(hierarchy, path)| {
            let mount = root.join(hierarchy);
            let own = mount.join(path.trim_start_matches('/'));
            let directory = if own.is_dir() { own } else { mount };
            let directory = group_of_job(&directory).unwrap_or(&directory).to_path_buf();
            kills_in(&directory).map(|_| MemoryGroup { directory })
        })
    }

    pub(crate) fn usage(&self) -> Usage {
        let mut groups = Vec::new();
        collect(&self.directory, DEPTH, &mut groups);
        // In version 2 of cgroups, the number of kills of a group includes its subgroups; in version 1 it does not.
        let is_hierarchical = self.directory.join("memory.events").exists();
        let total = |kills: &[(usize, PathBuf, u64)]| match is_hierarchical {
            true => kills.first().map_or(0, |(_, _, kills)| *kills),
            false => kills.iter().map(|(_, _, kills)| kills).sum(),
        };
        let kills = total(&groups);
        let innermost = groups.iter().filter(|(_, _, kills)| *kills > 0).max_by_key(|(depth, ..)| *depth);
        let above = innermost.into_iter().flat_map(|(_, group, _)| group.ancestors());
        let limited = above.take(2 * DEPTH).find_map(|group| limit_of(group).map(|limit| (group, limit)));
        let used = limited.and_then(|(group, _)| {
            let files = ["memory.peak", "memory.current", "memory.max_usage_in_bytes"];
            files.iter().find_map(|file| number(&group.join(file)))
        });
        Usage { kills, limit: limited.map(|(_, limit)| limit), used }
    }
}

/// Adds the cgroup `directory` and those in it, each with its depth and its number of killed processes. A group precedes its subgroups.
fn collect(directory: &Path, depth: usize, groups: &mut Vec<(usize, PathBuf, u64)>) {
    let Some(kills) = kills_in(directory) else { return };
    groups.push((DEPTH - depth, directory.to_path_buf(), kills));
    if depth > 0 {
        let below = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
        below.filter(|path| path.is_dir()).for_each(|path| collect(&path, depth - 1, groups));
    }
}

fn kills_in(group: &Path) -> Option<u64> {
    let files = ["memory.events", "memory.oom_control"];
    let text = files.iter().find_map(|file| fs::read_to_string(group.join(file)).ok())?;
    Some(cgroup::entry(&text, "oom_kill ").unwrap_or(0))
}

/// Returns the memory limit of a cgroup in bytes. In version 1 of cgroups, a number near 2^63 means that there is no limit.
fn limit_of(group: &Path) -> Option<u64> {
    let limit = number(&group.join("memory.max")).or_else(|| number(&group.join("memory.limit_in_bytes")));
    limit.filter(|&limit| limit < 1 << 60)
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

impl Usage {
    /// Describes the processes that the kernel has killed on `host` since `before`. `rank` is the killed rank, if known.
    pub(super) fn since(&self, before: &Usage, rank: Option<usize>, host: &str) -> Option<String> {
        let kills = self.kills.saturating_sub(before.kills);
        if kills == 0 {
            return None;
        }
        let killed_process = match (rank, kills) {
            (Some(rank), 1) => format!("rank {rank} was killed"),
            (_, 1) => "a process of the job was killed".to_string(),
            _ => format!("{kills} processes of the job were killed"),
        };
        let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        let limit = self.limit.map_or_else(
            || "the host had no memory left".to_string(),
            |limit| format!("the memory cgroup is limited to {}", mebibytes(limit)),
        );
        let used = self.used.map(|used| format!(" and has used {}", mebibytes(used))).unwrap_or_default();
        Some(format!(
            "{killed_process} on {host} because it was out of memory: {limit}{used} (oom_kill {})",
            self.kills
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn write(group: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(group).unwrap();
        files.iter().for_each(|(name, text)| fs::write(group.join(name), text).unwrap());
    }

    #[test]
    fn cgroup_v2_counts_oom_kills_of_all_steps_and_finds_the_limit() {
        let root = tempfile::tempdir().unwrap();
        let job = root.path().join("system.slice/slurmstepd.scope/job_7");
        let (batch, task) = (job.join("step_batch/user/task_0"), job.join("step_0/user/task_1"));
        let set = |kills: u64| {
            let events = format!("low 0\nhigh 0\nmax 3\noom 1\noom_kill {kills}\n");
            for group in [&job, &job.join("step_0"), &job.join("step_0/user"), &task] {
                write(group, &[("memory.events", &events), ("memory.max", "max\n")]);
            }
            write(&job.join("step_0"), &[("memory.max", "125829120\n"), ("memory.peak", "124780544\n")]);
        };
        write(&batch, &[("memory.events", "oom_kill 0\n"), ("memory.max", "max\n")]);
        set(0);
        let text = "0::/system.slice/slurmstepd.scope/job_7/step_batch/user/task_0\n";
        let group = MemoryGroup::find(text, root.path()).unwrap();
        assert_eq!(group.directory, job);
        let before = group.usage();
        assert_eq!(before, Usage::default());
        set(1);
        let after = group.usage();
        assert_eq!(after, Usage { kills: 1, limit: Some(120 * MIB), used: Some(119 * MIB) });
        let text = "rank 1 was killed on n4 because it was out of memory: the memory cgroup is limited to 120.0 MiB and has used \
                    119.0 MiB (oom_kill 1)";
        assert_eq!(after.since(&before, Some(1), "n4").as_deref(), Some(text));
        assert_eq!(after.since(&after, None, "n4"), None);
    }

    #[test]
    fn cgroup_v1_sums_oom_kills_and_encodes_no_limit_as_a_number() {
        let root = tempfile::tempdir().unwrap();
        let job = root.path().join("memory/slurm/uid_0/job_7");
        let none = [
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n"),
            ("memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        write(&job, &none);
        write(&job.join("step_batch"), &none);
        write(
            &job.join("step_0"),
            &[
                ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
                ("memory.limit_in_bytes", "104857600\n"),
                ("memory.max_usage_in_bytes", "104857600\n"),
            ],
        );
        let text = "10:cpuset:/\n9:memory:/slurm/uid_0/job_7/step_batch\n";
        let group = MemoryGroup::find(text, root.path()).unwrap();
        let usage = group.usage();
        assert_eq!(usage, Usage { kills: 2, limit: Some(100 * MIB), used: Some(100 * MIB) });
        let text = usage.since(&Usage::default(), Some(1), "n4").unwrap();
        assert!(text.starts_with("2 processes of the job were killed on n4"), "{text}");
    }

    #[test]
    fn memory_usage_is_unknown_without_a_memory_cgroup() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(MemoryGroup::find("0::/init.scope\n1:cpu:/x\n", root.path()), None);
        assert_eq!(MemoryGroup::find("", root.path()), None);
        // In a container, `/proc/self/cgroup` names a path of the host that does not exist.
        write(root.path(), &[("memory.events", "oom_kill 0\n")]);
        let group = MemoryGroup::find("0::/../../docker\n", root.path()).unwrap();
        assert_eq!(group.usage(), Usage::default());
    }
}
