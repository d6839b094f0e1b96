//! Memory available to a process: the memory of the node, bounded by the limits of its cgroups.

use std::{
    fs,
    path::{Path, PathBuf},
};

pub(super) const KIB: u64 = 1 << 10;

/// Total and available memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) total: u64,
    pub(super) available: u64,
}

/// Reads the memory of the node and the limits of this process from `/proc` and the cgroup files below `root`. A missing file imposes no limit.
pub(super) fn read(root: &Path) -> Memory {
    let info = fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    let total = entry(&info, "MemTotal:").map_or(0, |kib| kib * KIB);
    let available = entry(&info, "MemAvailable:").or(entry(&info, "MemFree:")).map_or(0, |kib| kib * KIB);
    let node = Memory { total, available };
    groups(root, "memory").iter().filter_map(|group| limit(group)).fold(node, |memory, limit| Memory {
        total: memory.total.min(limit.total),
        available: memory.available.min(limit.available),
    })
}

/// Returns the number in the line of `text` that begins with `name`.
pub(super) fn entry(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

/// Returns the directories of this process's cgroup and of all enclosing cgroups, each of which can limit the resource of `controller`.
pub(super) fn groups(root: &Path, controller: &str) -> Vec<PathBuf> {
    let mounts = root.join("sys/fs/cgroup");
    let mut folders = Vec::new();
    for line in fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default().lines() {
        // Format of a line in `/proc/self/cgroup`: `hierarchy:controllers:path`, with hierarchy 0 and no controllers for cgroups version 2.
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let tops = if controllers.is_empty() {
            vec![mounts.join("unified"), mounts.clone()]
        } else if controllers.split(',').any(|its| its == controller) {
            vec![mounts.join(controller)]
        } else {
            continue;
        };
        // In a container the path of the cgroup may not exist below the mounted cgroup files, except for their top directory. Directories
        // that do not exist impose no limit.
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != "..").collect();
        for top in tops {
            for depth in 0..=parts.len() {
                folders.push(parts[..depth].iter().fold(top.clone(), |folder, part| folder.join(part)));
            }
        }
    }
    folders
}

/// Returns the memory limit of one cgroup and the memory that is still available in it; `None` if the cgroup has no limit.
fn limit(group: &Path) -> Option<Memory> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let (total, used, cache) = match read("memory.max") {
        Some(max) => (max, read("memory.current"), "inactive_file "),
        None => (read("memory.limit_in_bytes")?, read("memory.usage_in_bytes"), "total_inactive_file "),
    };
    // cgroups version 2 write `max` for no limit, version 1 a number near 2^63.
    let total: u64 = total.trim().parse().ok().filter(|&total| total < 1 << 60)?;
    let used: u64 = used.and_then(|used| used.trim().parse().ok()).unwrap_or(0);
    // The cgroup's file cache counts as available memory: the kernel reclaims file pages before it refuses memory.
    let cache = read("memory.stat").and_then(|stat| entry(&stat, cache)).unwrap_or(0);
    Some(Memory { total, available: total.saturating_sub(used.saturating_sub(cache)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str =
        "MemTotal:       16777216 kB\nMemFree:         1000000 kB\nMemAvailable:    8388608 kB\n";
    const GIB: u64 = 1 << 30;

    fn memory(files: &[(&str, &str)]) -> Memory {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files.iter().chain(&[("proc/meminfo", INFO)]) {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        read(root.path())
    }

    #[test]
    fn memory_is_that_of_the_node_without_cgroups() {
        assert_eq!(memory(&[]), Memory { total: 16 * GIB, available: 8 * GIB });
    }

    #[test]
    fn cgroup_v2_limit_of_any_ancestor_counts() {
        let found = memory(&[
            ("proc/self/cgroup", "0::/slurm/job_7/step_0\n"),
            ("sys/fs/cgroup/slurm/memory.max", "max\n"),
            ("sys/fs/cgroup/slurm/job_7/memory.max", "4294967296\n"),
            ("sys/fs/cgroup/slurm/job_7/memory.current", "3221225472\n"),
            ("sys/fs/cgroup/slurm/job_7/memory.stat", "anon 5\ninactive_file 1073741824\n"),
            ("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n"),
        ]);
        assert_eq!(found, Memory { total: 4 * GIB, available: 2 * GIB });
    }

    #[test]
    fn cgroup_v1_limit_counts() {
        let found = memory(&[
            ("proc/self/cgroup", "5:devices:/\n4:memory,hugetlb:/job\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2147483648\n"),
            ("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1073741824\n"),
        ]);
        assert_eq!(found, Memory { total: 2 * GIB, available: GIB });
    }

    #[test]
    fn cgroup_over_its_limit_has_no_available_memory() {
        let found = memory(&[
            ("proc/self/cgroup", "0::/../other\n"),
            ("sys/fs/cgroup/memory.max", "1000\n"),
            ("sys/fs/cgroup/memory.current", "2000\n"),
        ]);
        assert_eq!(found, Memory { total: 1000, available: 0 });
    }
}
