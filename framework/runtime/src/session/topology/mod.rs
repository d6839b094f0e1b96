//! Topology of the node that a rank runs on: cores, caches and memory, and the binding of its threads.
//!
//! The hardware is determined by hwloc, or from `/sys` if the feature `hwloc` is off or hwloc fails. The share that this process may use is
//! counted by the crate `armature-host`, from the affinity mask (which is set by the launcher and by the cpuset of the batch system), the
//! quotas and memory limits of its cgroups, and the allotment of the batch system.
//!
//! Only the module `hwloc` depends on hwloc; that module uses only functions of the Rust binding of hwloc that are known to be sound.

mod bind;
mod hardware;
#[cfg(feature = "hwloc")]
mod hwloc;
mod sysfs;
pub(crate) mod this_process;

use std::{collections::BTreeSet, fmt, sync::OnceLock};

pub use armature_host::CoreLimit;
use armature_host::Here;
use serde::{Deserialize, Serialize};

pub(crate) use bind::{bind_current_thread, cores_of_rank, current_binding, launcher_has_bound};
use hardware::Hardware;
pub use hardware::{Core, Source};

/// Topology of a node, as available to one rank.
///
/// ```
/// let node = armature::Topology::of_this_node();
/// assert!(!node.cores.is_empty() && node.processing_units().count() >= node.cores.len());
/// println!("{node}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Topology {
    /// Host name of the node.
    pub host: String,
    /// Number of physical packages (sockets) that have a core in `cores`.
    pub packages: usize,
    /// Physical cores that this process may use, in the order of their first processing unit.
    pub cores: Vec<Core>,
    /// Limit of the CPU time that this process may use together with other processes: the smallest of the CPU quotas of its cgroups and of the
    /// allotment of the batch system. `None` if there is no limit.
    pub core_limit: Option<CoreLimit>,
    /// Sizes in bytes of one L1 data, L2 and L3 cache of the node's first core; `None` if unknown.
    pub caches: [Option<u64>; 3],
    /// Maximum memory of this process in bytes: the memory of the node, or the limit of its cgroup or batch job if that is less.
    pub memory_total: u64,
    /// Memory in bytes that is available to this process now, without swapping.
    pub memory_available: u64,
    /// Origin of the data about cores and caches: hwloc or `/sys`.
    pub source: Source,
}

impl Topology {
    /// Returns the topology of the node that this process runs on, as available to the calling thread.
    ///
    /// The first call takes some milliseconds. The function does not fail: unknown values are `None`, and there is always at least one
    /// core.
    pub fn of_this_node() -> Self {
        // The hardware is read once per process: reading takes most of the time of the start of a session, and the hardware does not change.
        static HARDWARE: OnceLock<Hardware> = OnceLock::new();
        let hardware = HARDWARE.get_or_init(read_hardware);
        Topology::new(this_process::host(), hardware.clone(), current_binding()).limited_by(&Here)
    }

    fn new(host: String, hardware: Hardware, allowed: Option<BTreeSet<usize>>) -> Self {
        let Hardware { cores, caches, source } = hardware;
        let mut cores = match &allowed {
            None => cores,
            Some(allowed) => cores.into_iter().filter_map(|core| core.within(allowed)).collect(),
        };
        cores.sort_by_key(|core| core.processing_units.first().copied());
        if cores.is_empty() {
            // If the hardware description has no cores, each permitted processing unit counts as a core. There is at least one, because the process
            // runs.
            let units =
                allowed.into_iter().flatten().map(|unit| Core { package: 0, processing_units: vec![unit] });
            cores = units.collect();
        }
        if cores.is_empty() {
            cores.push(Core { package: 0, processing_units: vec![0] });
        }
        let packages = cores.iter().map(|core| core.package).collect::<BTreeSet<_>>().len();
        let (core_limit, memory_total, memory_available) = (None, 0, 0);
        Topology { host, packages, cores, core_limit, caches, memory_total, memory_available, source }
    }

    fn limited_by(self, files: &dyn armature_host::Source) -> Self {
        let memory = armature_host::Memory::read(files);
        let core_limit = CoreLimit::read(files);
        Topology { core_limit, memory_total: memory.total, memory_available: memory.available, ..self }
    }

    /// Returns the number of cores that this process may use, which need not be whole: those in `cores`, or fewer because of `core_limit`.
    pub fn usable_cores(&self) -> f64 {
        let cores = self.cores.len() as f64;
        self.core_limit.as_ref().map_or(cores, |limit| limit.cores().min(cores))
    }

    /// Returns all processing units that this process may use, core by core.
    pub fn processing_units(&self) -> impl Iterator<Item = usize> {
        self.cores.iter().flat_map(|core| core.processing_units.iter().copied())
    }
}

fn read_hardware() -> Hardware {
    #[cfg(feature = "hwloc")]
    if let Some(hardware) = hwloc::hardware() {
        return hardware;
    }
    #[cfg(feature = "hwloc")]
    log::warn!("hwloc could not read this node's topology; taking it from /sys");
    sysfs::hardware(&Here)
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let (cores, units) = (self.cores.len(), self.processing_units().count());
        write!(f, "{}: {} package{}", self.host, self.packages, plural(self.packages))?;
        write!(f, ", {cores} core{}", plural(cores))?;
        if units != cores {
            write!(f, " with {units} hardware threads")?;
        }
        if let Some(limit) = &self.core_limit {
            write!(f, ", limited to {} cores", limit.cores())?;
        }
        for (level, size) in (1..).zip(self.caches) {
            if let Some(size) = size {
                write!(f, ", L{level} {}", Size(size))?;
            }
        }
        write!(f, ", memory {}, {} free", Size(self.memory_total), Size(self.memory_available))?;
        match self.source {
            Source::Hwloc => write!(f, " (hwloc)"),
            Source::Sysfs => write!(f, " (/sys)"),
        }
    }
}

/// Number of bytes for display: in the largest of the units B to TiB in which the number is at least one.
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut value, mut unit) = (self.0 as f64, "B");
        for larger in ["KiB", "MiB", "GiB", "TiB"] {
            if value < 1024.0 {
                break;
            }
            (value, unit) = (value / 1024.0, larger);
        }
        let digits = if value.fract() == 0.0 { 0 } else { 1 };
        write!(f, "{value:.digits$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hardware() -> Hardware {
        let core = |package, units: [usize; 2]| Core { package, processing_units: units.to_vec() };
        let cores = vec![core(0, [0, 4]), core(0, [1, 5]), core(1, [2, 6]), core(1, [3, 7])];
        Hardware { cores, caches: [Some(48 << 10), Some(1 << 20), None], source: Source::Sysfs }
    }

    fn seen(allowed: &[usize]) -> Topology {
        let allowed = Some(allowed.iter().copied().collect());
        let seen = Topology::new("n1".into(), hardware(), allowed);
        Topology { memory_total: 3 << 29, memory_available: 1 << 30, ..seen }
    }

    #[test]
    fn affinity_mask_excludes_cores_and_packages() {
        let node = seen(&[1, 5, 0]);
        assert_eq!((node.packages, node.cores.len()), (1, 2));
        assert_eq!(node.processing_units().collect::<Vec<_>>(), [0, 1, 5]);
    }

    #[test]
    fn unknown_units_count_as_cores() {
        assert_eq!(seen(&[17]).cores, [Core { package: 0, processing_units: vec![17] }]);
    }

    #[test]
    fn display_shows_known_properties() {
        let node = seen(&[0, 4, 2]);
        let line = node.to_string();
        assert_eq!(
            line,
            "n1: 2 packages, 2 cores with 3 hardware threads, L1 48 KiB, L2 1 MiB, memory 1.5 GiB, 1 GiB free (/sys)"
        );
        assert_eq!(node.usable_cores(), 2.0);
        let node = Topology { core_limit: Some(CoreLimit::new(0.4, "/sys/fs/cgroup/job")), ..node };
        assert!(node.to_string().contains("hardware threads, limited to 0.4 cores, L1"), "{node}");
        assert_eq!(node.usable_cores(), 0.4);
    }

    #[cfg(feature = "hwloc")]
    #[test]
    fn hwloc_and_sysfs_agree_on_this_machine() {
        let by_hwloc = hwloc::hardware().expect("hwloc is installed where these tests run");
        let by_sysfs = sysfs::hardware(&Here);
        let see = |hardware| Topology::new("here".into(), hardware, current_binding());
        let (by_hwloc, by_sysfs) = (see(by_hwloc), see(by_sysfs));
        assert_eq!(by_hwloc.cores, by_sysfs.cores);
        assert_eq!(by_hwloc.caches, by_sysfs.caches);
        assert_eq!(by_hwloc.packages, by_sysfs.packages);
    }

    #[test]
    fn available_memory_of_this_node_is_within_the_total() {
        let node = Topology::of_this_node();
        assert!(node.memory_available > 0 && node.memory_available <= node.memory_total, "{node}");
        let allowed = current_binding().expect("Linux tells the mask");
        assert_eq!(node.processing_units().collect::<BTreeSet<_>>(), allowed);
    }
}
