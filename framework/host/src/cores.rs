//! Cores that the processes of a job may use on their host.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Source, amount, cgroup};

/// Limit of the CPU time that processes of a host may use together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CoreLimit {
    /// Limit in thousandths of a core, at least 1.
    pub thousandths: u64,
    /// Origin of the limit: the directory of a cgroup, or an environment variable of the batch system. Processes of a host whose limits have the same
    /// origin share the limit.
    pub set_by: String,
}

/// Cores that this thread may use, and the limit of the CPU time on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// Numbers of the hardware threads in the affinity mask, ascending; empty if the kernel does not report them.
    pub threads: Vec<usize>,
    /// Number of cores (not of hardware threads) in the affinity mask, at least 1.
    pub count: usize,
    /// Smallest of the CPU quotas and the limit of the batch system, if there is one.
    pub limit: Option<CoreLimit>,
}

impl CoreLimit {
    /// Creates a limit of `cores` cores; `set_by` is the cgroup or the environment variable from which it comes.
    pub fn new(cores: f64, set_by: impl Into<String>) -> Self {
        CoreLimit { thousandths: ((1000.0 * cores).round() as u64).max(1), set_by: set_by.into() }
    }

    /// Reads the smallest limit of the CPU quotas of this process's cgroups and of the batch system.
    pub fn read(source: &dyn Source) -> Option<Self> {
        let quota = cgroup::quota(source).map(|(cores, group)| CoreLimit::new(cores, group));
        quota.into_iter().chain(allotted(source)).min_by_key(|limit| limit.thousandths)
    }

    /// Returns the limit in cores.
    pub fn cores(&self) -> f64 {
        self.thousandths as f64 / 1000.0
    }
}

impl Cores {
    /// Reads the cores in the affinity mask of this thread, and the limit of the CPU time on them.
    pub fn read(source: &dyn Source) -> Self {
        let threads = allowed_threads(source);
        let first = |&thread: &usize| threads_of_core(source, thread).into_iter().min();
        let count = threads.iter().map(first).collect::<BTreeSet<_>>().len().max(1);
        Cores { threads, count, limit: CoreLimit::read(source) }
    }

    /// Returns the number of cores that the affinity mask and the limit leave, which need not be whole.
    pub fn usable(&self) -> f64 {
        let count = self.count as f64;
        self.limit.as_ref().map_or(count, |limit| limit.cores().min(count))
    }

    /// Returns the number of processes that can compute at the same time with a whole core each, at least 1.
    pub fn whole(&self) -> usize {
        (self.usable() as usize).max(1)
    }
}

/// Returns the number of cores that the batch system has given to the job on this host.
fn allotted(source: &dyn Source) -> Option<CoreLimit> {
    let of = |name: &str| Some(CoreLimit::new(amount(source, name)? as f64, name));
    match amount(source, "SLURM_JOB_ID") {
        Some(_) => of("SLURM_CPUS_ON_NODE"),
        // `NSLOTS` of Grid Engine counts the slots of all hosts.
        None => of("NSLOTS").filter(|_| amount(source, "NHOSTS") == Some(1)),
    }
}

/// Returns the hardware threads that this thread may run on, ascending; none if the kernel does not report them.
pub fn allowed_threads(source: &dyn Source) -> Vec<usize> {
    let status = source.read("/proc/thread-self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.and_then(parse_list).unwrap_or_default()
}

/// Returns the hardware threads that share a core with `thread`, and `thread` itself.
pub fn threads_of_core(source: &dyn Source, thread: usize) -> Vec<usize> {
    // Kernels before 5.3 list the threads of a core only under the older name `thread_siblings_list`.
    let read = |name: &str| {
        let list = parse_list(&source.read(&format!("/sys/devices/system/cpu/cpu{thread}/topology/{name}"))?);
        list.filter(|list| list.contains(&thread))
    };
    read("core_cpus_list").or_else(|| read("thread_siblings_list")).unwrap_or_else(|| vec![thread])
}

/// Parses a list of numbers in the format of the kernel: `0-3,8,10-11`. `None` if the text is malformed.
pub fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for range in text.trim().split(',').map(str::trim) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        // Larger numbers are refused: no machine has more hardware threads, and a damaged file must not exhaust memory.
        if last > 1 << 16 {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up::host;

    const STATUS: (&str, &str) = ("/proc/thread-self/status", "Name:\tx\nCpus_allowed_list:\t0-3,8\n");
    const CGROUP: (&str, &str) = ("/proc/self/cgroup", "0::/job\n");

    fn usable(more: &[(&str, &str)]) -> (f64, Option<String>) {
        let cores = Cores::read(&host(&[&[STATUS, CGROUP], more].concat()));
        (cores.usable(), cores.limit.map(|limit| limit.set_by))
    }

    #[test]
    fn hardware_threads_of_a_core_count_once() {
        let siblings =
            |thread: usize| format!("/sys/devices/system/cpu/cpu{thread}/topology/thread_siblings_list");
        let (zero, one, eight) = (siblings(0), siblings(1), siblings(8));
        let cores = Cores::read(&host(&[STATUS, (&zero, "0,8\n"), (&eight, "0,8\n"), (&one, "2\n")]));
        assert_eq!((cores.threads, cores.count, cores.limit), (vec![0, 1, 2, 3, 8], 4, None));
        let unknown = Cores::read(&host(&[]));
        assert_eq!((unknown.threads.len(), unknown.whole()), (0, 1));
    }

    #[test]
    fn smallest_limit_of_affinity_quota_and_batch_system_counts() {
        let quota = |text| ("/sys/fs/cgroup/job/cpu.max", text);
        let set_by = |name: &str| Some(name.to_string());
        assert_eq!(usable(&[]), (5.0, None));
        assert_eq!(usable(&[quota("max 100000\n")]), (5.0, None));
        assert_eq!(usable(&[quota("150000 100000\n")]), (1.5, set_by("/sys/fs/cgroup/job")));
        assert_eq!(usable(&[quota("40000 100000\n")]).0, 0.4);
        assert_eq!(usable(&[quota("900000 100000\n")]).0, 5.0, "the affinity mask is smaller");
        let slurm = |cores| [("SLURM_JOB_ID", "7"), ("SLURM_CPUS_ON_NODE", cores), quota("300000 100000\n")];
        assert_eq!(usable(&slurm("2")), (2.0, set_by("SLURM_CPUS_ON_NODE")));
        assert_eq!(usable(&slurm("4")), (3.0, set_by("/sys/fs/cgroup/job")));
        assert_eq!(usable(&slurm("many")).0, 3.0);
        assert_eq!(usable(&[("SLURM_CPUS_ON_NODE", "2")]).0, 5.0, "there is no job");
        assert_eq!(usable(&[("NSLOTS", "4"), ("NHOSTS", "1")]), (4.0, set_by("NSLOTS")));
        assert_eq!(usable(&[("NSLOTS", "4"), ("NHOSTS", "2")]).0, 5.0, "the slots are on two hosts");
    }

    #[test]
    fn part_of_a_core_runs_one_process() {
        let cores =
            |quota| Cores::read(&host(&[STATUS, CGROUP, ("/sys/fs/cgroup/job/cpu.max", quota)])).whole();
        assert_eq!(["40000 100000", "199000 100000", "200000 100000", "max 100000"].map(cores), [1, 1, 2, 5]);
        assert_eq!(CoreLimit::new(1e-9, "x").thousandths, 1);
    }

    #[test]
    fn malformed_lists_are_refused() {
        assert_eq!(parse_list("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        for bad in ["", "a", "1-", "0-99999999999", "0-4000000000"] {
            assert_eq!(parse_list(bad), None, "{bad:?}");
        }
    }
}
