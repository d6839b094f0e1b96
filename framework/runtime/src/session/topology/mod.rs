//! The node that a rank runs on: cores, caches, memory; and where its threads may run.
//!
//! What the hardware is comes from hwloc, or from `/sys` where hwloc is left out (feature `hwloc`) or fails.
//! How much of it this process may use comes from the kernel: the affinity mask (which the launcher and the
//! batch system's cpuset shape) and the memory limits of its cgroups.
//!
//! hwloc is named in `hwloc` alone, which keeps to the calls of its binding that are known to be sound.

mod bind;
mod hardware;
#[cfg(feature = "hwloc")]
mod hwloc;
mod memory;
mod quota;
mod sysfs;
pub(crate) mod this_process;

use std::{collections::BTreeSet, fmt, path::Path, sync::OnceLock};

use serde::{Deserialize, Serialize};

pub(crate) use bind::{bind_current_thread, cores_of_rank, current_binding, launcher_has_bound};
use hardware::Hardware;
pub use hardware::{Core, Source};

/// What one rank sees of its node.
///
/// ```
/// let node = armature::Topology::of_this_node();
/// assert!(!node.cores.is_empty() && node.processing_units().count() >= node.cores.len());
/// println!("{node}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Topology {
    /// The node's host name.
    pub host: String,
    /// Physical packages (sockets) that have a core in `cores`.
    pub packages: usize,
    /// The physical cores that this process may use, in the order of their first processing unit.
    pub cores: Vec<Core>,
    /// Size in bytes of one L1 data, L2 and L3 cache, as the first of `cores` has them; `None` if unknown.
    pub caches: [Option<u64>; 3],
    /// Memory in bytes that this process could have at most: the node's, or its cgroup's limit if that is less.
    pub memory_total: u64,
    /// Memory in bytes that it could have now, without anything being swapped out.
    pub memory_available: u64,
    /// Where `cores` and `caches` come from.
    pub source: Source,
}

impl Topology {
    /// Looks at the node that this process runs on, as the calling thread may use it.
    ///
    /// Takes some milliseconds the first time. It does not fail: what cannot be found out is `None`, and there is always at
    /// least one core.
    pub fn of_this_node() -> Self {
        let root = Path::new("/");
        // Reading it is most of the time that the start of a session takes, and it stays the same.
        static HARDWARE: OnceLock<Hardware> = OnceLock::new();
        let hardware = HARDWARE.get_or_init(|| read_hardware(root));
        Topology::new(this_process::host(), hardware.clone(), current_binding(), memory::read(root))
    }

    /// The part of `hardware` that a process may use that is allowed on the processing units `allowed`
    /// (all if `None`).
    fn new(
        host: String,
        hardware: Hardware,
        allowed: Option<BTreeSet<usize>>,
        memory: memory::Memory,
    ) -> Self {
        let Hardware { cores, caches, source } = hardware;
        let mut cores = match &allowed {
            None => cores,
            Some(allowed) => cores.into_iter().filter_map(|core| core.within(allowed)).collect(),
        };
        cores.sort_by_key(|core| core.processing_units.first().copied());
        if cores.is_empty() {
            // The process runs, so there is something to run on, whatever the description says.
            let units =
                allowed.into_iter().flatten().map(|unit| Core { package: 0, processing_units: vec![unit] });
            cores = units.collect();
        }
        if cores.is_empty() {
            cores.push(Core { package: 0, processing_units: vec![0] });
        }
        let packages = cores.iter().map(|core| core.package).collect::<BTreeSet<_>>().len();
        let memory::Memory { total, available } = memory;
        Topology { host, packages, cores, caches, memory_total: total, memory_available: available, source }
    }

    /// All processing units that this process may use, core by core.
    pub fn processing_units(&self) -> impl Iterator<Item = usize> {
        self.cores.iter().flat_map(|core| core.processing_units.iter().copied())
    }
}

fn read_hardware(root: &Path) -> Hardware {
    #[cfg(feature = "hwloc")]
    if let Some(hardware) = hwloc::hardware() {
        return hardware;
    }
    #[cfg(feature = "hwloc")]
    log::warn!("hwloc could not read this node's topology; taking it from /sys");
    sysfs::hardware(root)
}

/// One line for people.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let (cores, units) = (self.cores.len(), self.processing_units().count());
        write!(f, "{}: {} package{}", self.host, self.packages, plural(self.packages))?;
        write!(f, ", {cores} core{}", plural(cores))?;
        if units != cores {
            write!(f, " with {units} hardware threads")?;
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

/// A number of bytes in the largest unit that leaves at least one before the point.
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut value, mut unit) = (self.0 as f64, "B");
        for larger in ["KiB", "MiB", "GiB", "TiB"] {
            if value < memory::KIB as f64 {
                break;
            }
            (value, unit) = (value / memory::KIB as f64, larger);
        }
        let digits = if value.fract() == 0.0 { 0 } else { 1 };
        write!(f, "{value:.digits$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::{memory::Memory, *};

    fn hardware() -> Hardware {
        let core = |package, units: [usize; 2]| Core { package, processing_units: units.to_vec() };
        let cores = vec![core(0, [0, 4]), core(0, [1, 5]), core(1, [2, 6]), core(1, [3, 7])];
        Hardware { cores, caches: [Some(48 << 10), Some(1 << 20), None], source: Source::Sysfs }
    }

    fn seen(allowed: &[usize]) -> Topology {
        let allowed = Some(allowed.iter().copied().collect());
        Topology::new("n1".into(), hardware(), allowed, Memory { total: 3 << 29, available: 1 << 30 })
    }

    #[test]
    fn the_affinity_mask_takes_cores_and_packages_away() {
        let node = seen(&[1, 5, 0]);
        assert_eq!((node.packages, node.cores.len()), (1, 2));
        assert_eq!(node.processing_units().collect::<Vec<_>>(), [0, 1, 5]);
    }

    #[test]
    fn units_that_the_description_does_not_know_count_as_cores() {
        assert_eq!(seen(&[17]).cores, [Core { package: 0, processing_units: vec![17] }]);
    }

    #[test]
    fn the_line_for_people_names_what_is_known() {
        let line = seen(&[0, 4, 2]).to_string();
        assert_eq!(
            line,
            "n1: 2 packages, 2 cores with 3 hardware threads, L1 48 KiB, L2 1 MiB, memory 1.5 GiB, 1 GiB free (/sys)"
        );
    }

    #[cfg(feature = "hwloc")]
    #[test]
    fn hwloc_and_sys_agree_on_this_machine() {
        let by_hwloc = hwloc::hardware().expect("hwloc is installed where these tests run");
        let by_sysfs = sysfs::hardware(Path::new("/"));
        let see = |hardware| {
            Topology::new("here".into(), hardware, current_binding(), memory::read(Path::new("/")))
        };
        let (by_hwloc, by_sysfs) = (see(by_hwloc), see(by_sysfs));
        assert_eq!(by_hwloc.cores, by_sysfs.cores);
        assert_eq!(by_hwloc.caches, by_sysfs.caches);
        assert_eq!(by_hwloc.packages, by_sysfs.packages);
    }

    #[test]
    fn this_node_has_memory_and_no_more_free_than_there_is() {
        let node = Topology::of_this_node();
        assert!(node.memory_available > 0 && node.memory_available <= node.memory_total, "{node}");
        let allowed = current_binding().expect("Linux tells the mask");
        assert_eq!(node.processing_units().collect::<BTreeSet<_>>(), allowed);
    }
}
