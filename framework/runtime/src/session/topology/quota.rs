//! CPU quotas of cgroups: time in which a quota stopped the processes of a group.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::memory::{entry, groups};

/// Returns the longest time for which a CPU quota has stopped this process's cgroup or an enclosing cgroup, according to the files below `root`.
/// `None` if no group reports a time.
pub(super) fn throttled(root: &Path) -> Option<Duration> {
    let of_group = |group: &std::path::PathBuf| {
        let stat = fs::read_to_string(group.join("cpu.stat")).ok()?;
        // In the file `cpu.stat`, cgroups version 2 count microseconds, version 1 nanoseconds.
        let micros = entry(&stat, "throttled_usec ").map(Duration::from_micros);
        micros.or_else(|| entry(&stat, "throttled_time ").map(Duration::from_nanos))
    };
    groups(root, "cpu").iter().filter_map(of_group).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Option<Duration> {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        throttled(root.path())
    }

    #[test]
    fn longest_throttled_cgroup_counts_in_v1_and_v2() {
        let v2 = [
            ("proc/self/cgroup", "0::/slurm/job_7\n"),
            ("sys/fs/cgroup/cpu.stat", "usage_usec 9\n"),
            (
                "sys/fs/cgroup/slurm/cpu.stat",
                "usage_usec 9\nnr_periods 5\nnr_throttled 4\nthrottled_usec 2500000\n",
            ),
            ("sys/fs/cgroup/slurm/job_7/cpu.stat", "nr_throttled 0\nthrottled_usec 0\n"),
        ];
        assert_eq!(of(&v2), Some(Duration::from_millis(2500)));
        let v1 = [
            ("proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job\n"),
            ("sys/fs/cgroup/cpu/job/cpu.stat", "nr_periods 5\nnr_throttled 4\nthrottled_time 1500000000\n"),
        ];
        assert_eq!(of(&v1), Some(Duration::from_millis(1500)));
        assert_eq!(of(&[]), None);
    }
}
