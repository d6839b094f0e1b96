//! Reads the cgroups of this process: their directories, limits and counters.

use std::time::Duration;

use crate::Source;

/// File that lists the cgroups of the process that reads it.
pub const OWN: &str = "/proc/self/cgroup";
/// Directory below which the hierarchies of cgroups are mounted.
pub const MOUNTS: &str = "/sys/fs/cgroup";

/// Returns the cgroups in the text of [`OWN`] that `controller` can limit: the name of the hierarchy, which is empty for cgroups version 2 and
/// `controller` for version 1, and the path of the cgroup in the hierarchy.
pub fn memberships<'a>(text: &'a str, controller: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    text.lines().filter_map(move |line| {
        // A line of `/proc/self/cgroup` is `number:controllers:path`, without controllers for version 2.
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let hierarchy = controllers.split(',').find(|&its| its.is_empty() || its == controller)?;
        Some((hierarchy, path))
    })
}

/// Returns the directories of this process's cgroup for `controller` and of all enclosing cgroups, each of which can have a limit. An enclosing group
/// precedes the groups in it.
pub fn groups(source: &dyn Source, controller: &str) -> Vec<String> {
    let text = source.read(OWN).unwrap_or_default();
    let mut directories = Vec::new();
    for (hierarchy, path) in memberships(&text, controller) {
        let tops = match hierarchy {
            "" => vec![format!("{MOUNTS}/unified"), MOUNTS.to_string()],
            hierarchy => vec![format!("{MOUNTS}/{hierarchy}")],
        };
        // In a container, the path of a cgroup may lie outside of the mounted files; then only the top directory exists.
        let parts = path.split('/').filter(|part| !part.is_empty() && *part != "..");
        for top in tops {
            directories.push(top.clone());
            directories.extend(parts.clone().scan(top, |directory, part| {
                *directory = format!("{directory}/{part}");
                Some(directory.clone())
            }));
        }
    }
    directories
}

/// Returns the number after `name` in a text with lines of the form `name number`, such as `oom_kill 3`.
pub fn entry(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

/// Returns the counter `name` in the file `file` of this process's cgroup or of an enclosing one, whichever is largest.
pub fn counter(source: &dyn Source, controller: &str, file: &str, name: &str) -> Option<u64> {
    let of_group = |group: &String| entry(&source.read(&format!("{group}/{file}"))?, name);
    groups(source, controller).iter().filter_map(of_group).max()
}

/// Returns the longest time for which a CPU quota has stopped this process's cgroup or an enclosing cgroup. `None` if no group reports a time.
pub fn throttled(source: &dyn Source) -> Option<Duration> {
    // The file `cpu.stat` has microseconds in version 2 of cgroups, and nanoseconds in version 1.
    let count = |name| counter(source, "cpu", "cpu.stat", name);
    let micros = count("throttled_usec ").map(Duration::from_micros);
    micros.max(count("throttled_time ").map(Duration::from_nanos))
}

/// Returns the smallest CPU quota in cores, with the directory of the cgroup that sets it.
pub(crate) fn quota(source: &dyn Source) -> Option<(f64, String)> {
    let of_group = |group: String| {
        let read = |name: &str| source.read(&format!("{group}/{name}"));
        let text = match read("cpu.max") {
            Some(both) => both,
            None => format!("{} {}", read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?),
        };
        // If there is no CPU quota, the file has `max` in version 2 of cgroups, and -1 in version 1.
        let (quota, period) = text.trim().split_once(' ')?;
        let cores = quota.parse::<f64>().ok()? / period.trim().parse::<f64>().ok()?;
        (cores > 0.0 && cores.is_finite()).then_some((cores, group))
    };
    groups(source, "cpu").into_iter().filter_map(of_group).min_by(|a, b| a.0.total_cmp(&b.0))
}

/// Returns the memory limit of a cgroup and the memory that is still available below it, in bytes.
pub(crate) fn memory_limit(source: &dyn Source, group: &str) -> Option<(u64, u64)> {
    let read = |name: &str| source.read(&format!("{group}/{name}"));
    let (total, used, cache) = match read("memory.max") {
        Some(max) => (max, read("memory.current"), "inactive_file "),
        None => (read("memory.limit_in_bytes")?, read("memory.usage_in_bytes"), "total_inactive_file "),
    };
    // If there is no memory limit, the file has `max` in version 2 of cgroups, and a number near 2^63 in version 1.
    let total: u64 = total.trim().parse().ok().filter(|&total| total < 1 << 60)?;
    let used: u64 = used.and_then(|used| used.trim().parse().ok()).unwrap_or(0);
    // Cached file pages count as available, because the kernel reclaims them before it refuses memory.
    let cache = read("memory.stat").and_then(|stat| entry(&stat, cache)).unwrap_or(0);
    Some((total, total.saturating_sub(used.saturating_sub(cache))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::host;

    #[test]
    fn longest_throttled_cgroup_counts_in_v1_and_v2() {
        let v2 = [
            ("/proc/self/cgroup", "0::/slurm/job_7\n"),
            ("/sys/fs/cgroup/cpu.stat", "usage_usec 9\n"),
            (
                "/sys/fs/cgroup/slurm/cpu.stat",
                "usage_usec 9\nnr_periods 5\nnr_throttled 4\nthrottled_usec 2500000\n",
            ),
            ("/sys/fs/cgroup/slurm/job_7/cpu.stat", "nr_throttled 0\nthrottled_usec 0\n"),
        ];
        assert_eq!(throttled(&host(&v2)), Some(Duration::from_millis(2500)));
        assert_eq!(counter(&host(&v2), "cpu", "cpu.stat", "nr_throttled "), Some(4));
        let v1 = [
            ("/proc/self/cgroup", "5:memory:/job\n4:cpu,cpuacct:/job\n"),
            ("/sys/fs/cgroup/cpu/job/cpu.stat", "nr_periods 5\nnr_throttled 4\nthrottled_time 1500000000\n"),
        ];
        assert_eq!(throttled(&host(&v1)), Some(Duration::from_millis(1500)));
        assert_eq!(throttled(&host(&[])), None);
    }

    #[test]
    fn enclosing_groups_precede_inner_groups() {
        let v2 = host(&[("/proc/self/cgroup", "0::/a/b\n")]);
        assert_eq!(
            groups(&v2, "cpu")[3..],
            ["/sys/fs/cgroup", "/sys/fs/cgroup/a", "/sys/fs/cgroup/a/b"].map(String::from)
        );
        assert_eq!(
            groups(&host(&[("/proc/self/cgroup", "4:memory:/\n1:name=systemd:/\n\n")]), "cpu"),
            [""; 0]
        );
    }

    #[test]
    fn quotas_are_fractions_of_cores() {
        let v1 = |quota, period| {
            quota_of(&[
                ("/proc/self/cgroup", "2:cpuacct:/x\n1:cpu:/job/step\n0::/\n"),
                ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
                ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
                ("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", quota),
                ("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", period),
            ])
        };
        assert_eq!(v1("150000\n", "100000\n"), Some((1.5, "/sys/fs/cgroup/cpu/job".to_string())));
        assert_eq!([v1("-1\n", "100000\n"), v1("5\n", "0\n"), v1("many\n", "100000\n")], [None, None, None]);
        let nested = |outer, inner| {
            quota_of(&[
                ("/proc/self/cgroup", "0::/job/step\n"),
                ("/sys/fs/cgroup/job/cpu.max", outer),
                ("/sys/fs/cgroup/job/step/cpu.max", inner),
            ])
        };
        assert_eq!(nested("40000 100000\n", "max 100000\n").unwrap().0, 0.4);
        assert_eq!(nested("400000 100000\n", "25000 50000\n").unwrap().1, "/sys/fs/cgroup/job/step");
        assert_eq!(nested("max 100000\n", "max 100000\n"), None);
    }

    fn quota_of(files: &[(&str, &str)]) -> Option<(f64, String)> {
        quota(&host(files))
    }
}
