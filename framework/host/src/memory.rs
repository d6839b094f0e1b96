//! Memory that the processes of a job may use on their host.

use crate::cgroup::{entry, groups, memory_limit};
use crate::{Source, amount};

/// Total and available memory of this host in bytes; 0 if unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Memory of the host in bytes, or the smallest limit of the job if that is less.
    pub total: u64,
    /// Bytes of memory that are available now, without swapping.
    pub available: u64,
    /// Reason why no more memory is available, such as `the limit of the cgroup`.
    pub limit: &'static str,
}

impl Memory {
    /// Reads the memory of the host and its limits. A missing file or variable imposes no limit.
    pub fn read(source: &dyn Source) -> Self {
        let info = source.read("/proc/meminfo").unwrap_or_default();
        let kib = |name: &str| entry(&info, name).map(|kib| kib << 10);
        let available = kib("MemAvailable:").or(kib("MemFree:")).unwrap_or(0);
        let host = Memory { total: kib("MemTotal:").unwrap_or(0), available, limit: "free on this host" };
        let of_group = |group: &String| memory_limit(source, group);
        let limits = groups(source, "memory").iter().filter_map(of_group).collect::<Vec<_>>();
        let limits =
            limits.into_iter().map(|(total, available)| (total, available, "the limit of the cgroup"));
        let allotted = allotted(source).map(|(bytes, variable)| (bytes, bytes, variable));
        limits.chain(allotted).fold(host, |memory, (total, available, limit)| Memory {
            total: memory.total.min(total),
            available: memory.available.min(available),
            limit: if available < memory.available { limit } else { memory.limit },
        })
    }
}

/// Returns the bytes that Slurm has given to the job on this host, and the name of the environment variable. In Slurm's variables, 0 means the whole
/// memory of the host.
fn allotted(source: &dyn Source) -> Option<(u64, &'static str)> {
    let mib = |name: &str| Some(amount(source, name)?.saturating_mul(1 << 20));
    let per_node = mib("SLURM_MEM_PER_NODE").map(|bytes| (bytes, "SLURM_MEM_PER_NODE"));
    per_node.or_else(|| {
        let bytes = mib("SLURM_MEM_PER_CPU")?.saturating_mul(amount(source, "SLURM_CPUS_ON_NODE")?);
        Some((bytes, "SLURM_MEM_PER_CPU"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::host;

    const INFO: &str =
        "MemTotal:       16777216 kB\nMemFree:         1000000 kB\nMemAvailable:    8388608 kB\n";
    const GIB: u64 = 1 << 30;

    fn memory(texts: &[(&str, &str)]) -> (u64, u64, &'static str) {
        let Memory { total, available, limit } =
            Memory::read(&host(&[&[("/proc/meminfo", INFO)], texts].concat()));
        (total, available, limit)
    }

    #[test]
    fn memory_is_that_of_the_host_without_cgroups() {
        assert_eq!(memory(&[]), (16 * GIB, 8 * GIB, "free on this host"));
    }

    #[test]
    fn cgroup_v2_limit_of_any_ancestor_counts() {
        let found = memory(&[
            ("/proc/self/cgroup", "0::/slurm/job_7/step_0\n"),
            ("/sys/fs/cgroup/slurm/memory.max", "max\n"),
            ("/sys/fs/cgroup/slurm/job_7/memory.max", "4294967296\n"),
            ("/sys/fs/cgroup/slurm/job_7/memory.current", "3221225472\n"),
            ("/sys/fs/cgroup/slurm/job_7/memory.stat", "anon 5\ninactive_file 1073741824\n"),
            ("/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n"),
        ]);
        assert_eq!(found, (4 * GIB, 2 * GIB, "the limit of the cgroup"));
    }

    #[test]
    fn cgroup_v1_limit_counts() {
        let found = memory(&[
            ("/proc/self/cgroup", "5:devices:/\n4:memory,hugetlb:/job\n0::/\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2147483648\n"),
            ("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1073741824\n"),
        ]);
        assert_eq!(found, (2 * GIB, GIB, "the limit of the cgroup"));
    }

    #[test]
    fn cgroup_over_its_limit_has_no_available_memory() {
        let found = memory(&[
            ("/proc/self/cgroup", "0::/../other\n"),
            ("/sys/fs/cgroup/memory.max", "1000\n"),
            ("/sys/fs/cgroup/memory.current", "2000\n"),
        ]);
        assert_eq!(found, (1000, 0, "the limit of the cgroup"));
    }

    #[test]
    fn allotment_of_slurm_counts() {
        assert_eq!(memory(&[("SLURM_MEM_PER_NODE", "4096")]), (4 * GIB, 4 * GIB, "SLURM_MEM_PER_NODE"));
        assert_eq!(memory(&[("SLURM_MEM_PER_NODE", "12288")]), (12 * GIB, 8 * GIB, "free on this host"));
        let per_cpu = [("SLURM_MEM_PER_CPU", "1024"), ("SLURM_CPUS_ON_NODE", "2")];
        assert_eq!(memory(&per_cpu), (2 * GIB, 2 * GIB, "SLURM_MEM_PER_CPU"));
        assert_eq!(memory(&per_cpu[..1]).0, 16 * GIB, "the number of cores is unknown");
        assert_eq!(memory(&[("SLURM_MEM_PER_NODE", "0")]).0, 16 * GIB, "all memory of the host");
    }
}
