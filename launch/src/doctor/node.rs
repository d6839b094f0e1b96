//! Checks of `armature doctor` for this node: cores, memory, shared memory, limits.

use armature_host::{Cores, Memory, cgroup};

use super::check::{Check, Facts, Finding};
use super::launchers::{is_open_mpi, mpirun_version};
use super::site::Site;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "single-copy",
        symptom: "Read -1, expected N, errno = 1, and slow messages, in a container",
        about: "For large messages within a host, MPI libraries read the memory of the other rank (process_vm_readv). Containers often forbid \
                that. Then the messages must take the way through shared memory.",
        examine: single_copy,
    },
    Check {
        id: "shared-memory",
        symptom: "SIGBUS in MPI_Init or at the first message",
        about: "Ranks of a host exchange messages through files in /dev/shm. Containers have 64 MB there by default. If it is full, the first \
                access to a page ends the process.",
        examine: shared_memory,
    },
    Check {
        id: "cores",
        symptom: "a job is much slower than its number of ranks promises",
        about: "The cores of a job are the smallest of those that its affinity, its cpuset and its CPU quota allow, and those that the batch \
                system allots. Two hardware threads of a core count once. With a quota, all processes stop for the rest of each period in which it is used up.",
        examine: cores,
    },
    Check {
        id: "hardware-threads",
        symptom: "a request was made to bind to more processes than there are cpus",
        about: "Launchers bind ranks to whole cores. A cpuset that contains one of two hardware threads of a core makes that fail.",
        examine: hardware_threads,
    },
    Check {
        id: "memory",
        symptom: "ranks are killed: out of memory",
        about: "The memory of a job is the smallest of what is free, what its cgroup allows, and what the batch system allots. The kernel ends a \
                process of a group that exceeds its limit.",
        examine: memory,
    },
    Check {
        id: "locked-memory",
        symptom: "errors of UCX or verbs about registering memory",
        about: "InfiniBand adapters need memory that cannot be swapped out. Jobs inherit the limit of the daemon of the batch system, not that of \
                a login.",
        examine: locked_memory,
    },
    Check {
        id: "temporary-files",
        symptom: "mpirun or MPI_Init fails to create a socket or a session directory",
        about: "MPI libraries put sockets and shared files into TMPDIR. The path of a socket has at most 107 bytes, of which the libraries use \
                about 60, and network file systems make shared files slow or impossible.",
        examine: temporary_files,
    },
    Check {
        id: "core-dumps",
        symptom: "nothing is left of a crash that could be examined",
        about: "A pattern that begins with `|` gives core dumps to a program on the node, and a limit of 0 suppresses them.",
        examine: core_dumps,
    },
];

/// Bytes of /dev/shm for each rank: the shared memory of Open MPI (4 MiB by default) and the buffers of a few neighbours. With less, a job can end by
/// SIGBUS.
const SHARED_PER_RANK: u64 = 16 << 20;

/// Bytes that Open MPI 4 and 5 append to TMPDIR for the path of a socket (the names of their session directories).
const SOCKET_NAME: usize = 60;

/// Longest path of a socket in bytes (`sun_path` of Linux).
const SOCKET_PATH: usize = 107;

fn is_in_container(site: &dyn Site) -> bool {
    site.read("/.dockerenv").is_some()
        || site.read("/run/.containerenv").is_some()
        || site.variable("APPTAINER_CONTAINER").is_some()
        || site.variable("SINGULARITY_CONTAINER").is_some()
        || site.variable("container").is_some()
}

fn single_copy(facts: &Facts<'_>) -> Finding {
    let site = facts.site;
    if site.reads_memory_of_children() {
        return Finding::ok("ranks may read each other's memory");
    }
    let is_off = |name: &str| site.variable(name).as_deref() == Some("none");
    if is_off("OMPI_MCA_btl_vader_single_copy_mechanism") || is_off("OMPI_MCA_smsc") {
        return Finding::ok("ranks may not read each other's memory, and Open MPI does not try to");
    }
    let place = if is_in_container(site) { "in this container" } else { "here" };
    let found = format!("ranks may not read each other's memory {place}");
    match mpirun_version(site) {
        Some(version) if !is_open_mpi(&version) => {
            Finding::warn(found, "start the container with --cap-add=SYS_PTRACE")
        }
        _ => Finding::fail(
            found,
            "export OMPI_MCA_btl_vader_single_copy_mechanism=none, or start the container with --cap-add=SYS_PTRACE",
        ),
    }
}

fn shared_memory(facts: &Facts<'_>) -> Finding {
    let Some(free) = facts.site.free_bytes("/dev/shm") else {
        return Finding::skipped("there is no /dev/shm");
    };
    let ranks = facts.ranks_per_host().unwrap_or_else(|| Cores::read(facts.site).whole());
    let free_mib = free >> 20;
    let needed = (ranks as u64).saturating_mul(SHARED_PER_RANK);
    if free >= needed {
        return Finding::ok(format!("/dev/shm has {free_mib} MiB free"));
    }
    let found = format!("/dev/shm has {free_mib} MiB free; {ranks} ranks may need {} MiB", needed >> 20);
    Finding::fail(
        found,
        "start the container with --shm-size=1g or --ipc=host, or export OMPI_MCA_btl=self,tcp",
    )
}

fn cores(facts: &Facts<'_>) -> Finding {
    let cores = Cores::read(facts.site);
    if cores.threads.is_empty() {
        return Finding::skipped("/proc/thread-self/status has no list of cores");
    }
    let plural = if cores.count == 1 { "" } else { "s" };
    let mut found = format!("{} core{plural}", cores.count);
    if cores.threads.len() != cores.count {
        found += &format!(" with {} hardware threads", cores.threads.len());
    }
    let quota = cores.limit.as_ref().filter(|limit| limit.set_by.starts_with('/'));
    found += &match &cores.limit {
        Some(limit) if quota.is_some() => format!(", and a CPU quota of {:.1} cores", limit.cores()),
        Some(limit) => format!(", and {:.1} cores allotted ({})", limit.cores(), limit.set_by),
        None => String::new(),
    };
    if let Some(ranks) = facts.ranks_per_host().filter(|&ranks| ranks as f64 > cores.usable()) {
        let most = cores.whole() * facts.host_count();
        let remedy = format!("-n {most}, or --bind none so that ranks can share cores");
        return Finding::warn(format!("{found} for {ranks} ranks on each host"), remedy);
    }
    let stopped = cgroup::counter(facts.site, "cpu", "cpu.stat", "nr_throttled ");
    match stopped.filter(|&stopped| stopped > 0 && quota.is_some()) {
        Some(stopped) => Finding::warn(
            format!("{found}, which has stopped all processes in {stopped} periods"),
            "ask for more cores, or start fewer ranks",
        ),
        None => Finding::ok(found),
    }
}

fn hardware_threads(facts: &Facts<'_>) -> Finding {
    let allowed = armature_host::allowed_threads(facts.site);
    let siblings = |cpu: usize| armature_host::threads_of_core(facts.site, cpu);
    match allowed.iter().find(|&&cpu| siblings(cpu).iter().any(|other| !allowed.contains(other))) {
        None => Finding::ok("all hardware threads of each core are allowed"),
        Some(cpu) => Finding::warn(
            format!("hardware thread {cpu} is allowed, but the other one of its core is not"),
            "armature run --bind none, or mpirun --bind-to hwthread",
        ),
    }
}

fn memory(facts: &Facts<'_>) -> Finding {
    let Memory { total, available: bytes, limit: what } = Memory::read(facts.site);
    if total == 0 {
        return Finding::skipped("/proc/meminfo cannot be read");
    }
    let found = match facts.ranks_per_host() {
        Some(ranks) => {
            format!("{} MiB ({what}), {} MiB per rank", bytes >> 20, (bytes / ranks.max(1) as u64) >> 20)
        }
        None => format!("{} MiB ({what})", bytes >> 20),
    };
    let killed = cgroup::counter(facts.site, "memory", "memory.events", "oom_kill ");
    match killed.filter(|&killed| killed > 0) {
        Some(killed) => Finding::warn(
            format!("{found}; the kernel has already ended {killed} processes of this group for memory"),
            "ask for more memory (#SBATCH --mem-per-cpu), or give the plan the limit (--memory)",
        ),
        None => Finding::ok(found),
    }
}

fn locked_memory(facts: &Facts<'_>) -> Finding {
    let site = facts.site;
    if site.list("/sys/class/infiniband").is_empty() {
        return Finding::skipped("there is no InfiniBand adapter");
    }
    let limits = site.read("/proc/self/limits").unwrap_or_default();
    let soft =
        limits.lines().find_map(|line| line.strip_prefix("Max locked memory")?.split_whitespace().next());
    match soft {
        Some("unlimited") => Finding::ok("memory can be locked without limit"),
        Some(bytes) => Finding::fail(
            format!("at most {bytes} bytes can be locked"),
            "LimitMEMLOCK=infinity for slurmd (systemctl edit slurmd), or ulimit -l unlimited",
        ),
        None => Finding::skipped("/proc/self/limits cannot be read"),
    }
}

fn file_system(site: &dyn Site, path: &str) -> Option<String> {
    let mounts = site.read("/proc/mounts")?;
    let of = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        Some((words.next()?.to_string(), words.next()?.to_string()))
    };
    let holds = |point: &str| point == "/" || path == point || path.starts_with(&format!("{point}/"));
    let found =
        mounts.lines().filter_map(of).filter(|(point, _)| holds(point)).max_by_key(|(point, _)| point.len());
    found.map(|(_, kind)| kind)
}

fn temporary_files(facts: &Facts<'_>) -> Finding {
    let path = facts.site.variable("TMPDIR").unwrap_or_else(|| "/tmp".into());
    if path.len() + SOCKET_NAME > SOCKET_PATH {
        return Finding::fail(
            format!("TMPDIR has {} bytes, too long for paths of sockets", path.len()),
            "export TMPDIR=/tmp",
        );
    }
    let kind = file_system(facts.site, &path).unwrap_or_default();
    let is_network =
        ["nfs", "lustre", "gpfs", "beegfs", "ceph", "afs", "panfs"].iter().any(|name| kind.starts_with(name));
    if is_network {
        return Finding::warn(format!("{path} is on a network file system ({kind})"), "export TMPDIR=/tmp");
    }
    Finding::ok(format!("{path} is local"))
}

fn core_dumps(facts: &Facts<'_>) -> Finding {
    let Some(pattern) = facts.site.read("/proc/sys/kernel/core_pattern") else {
        return Finding::skipped("/proc/sys/kernel/core_pattern cannot be read");
    };
    let limits = facts.site.read("/proc/self/limits").unwrap_or_default();
    let soft =
        limits.lines().find_map(|line| line.strip_prefix("Max core file size")?.split_whitespace().next());
    let pattern = pattern.trim();
    match (soft, pattern.strip_prefix('|')) {
        (_, Some(program)) => {
            let program = program.split_whitespace().next().unwrap_or_default();
            Finding::ok(format!("core dumps go to the program {program} of each node"))
        }
        (Some("0"), None) => Finding::ok("no core dumps are written; ulimit -c unlimited allows them"),
        _ => Finding::ok(format!("core dumps are written to {pattern}")),
    }
}
