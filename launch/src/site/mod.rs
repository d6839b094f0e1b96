//! Where we are: the machine, its launchers, and the batch job that we may be part of.
//!
//! [`Site`] is plain data, so that the decision in [`line`](mod@crate::line) can be tested for places that we are not at.

mod launchers;
mod slurm;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::LaunchError;
use crate::hostfile::Hostfile;

/// Chooses how Slurm's PMIx lets the ranks of several nodes wait for each other.
pub(crate) const FENCE: &str = "SLURM_PMIX_FENCE";

/// What the choice of a launcher line depends on, apart from the job itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    /// We are root, which Open MPI refuses unless told otherwise.
    pub root: bool,
    /// Cores of this machine that we may use; two hardware threads of one core count once.
    pub cores: usize,
    /// Open MPI's `mpirun`.
    pub openmpi: Option<PathBuf>,
    /// MPICH's `mpirun`.
    pub mpich: Option<PathBuf>,
    /// Slurm's `srun`.
    pub srun: Option<PathBuf>,
    /// The batch job that we run in.
    pub batch: Option<Batch>,
    /// Names of set variables that the ranks on other hosts need: `ARMATURE_*`, `RUST_LOG`, `RUST_BACKTRACE`.
    pub variables: Vec<String>,
    /// `SLURM_PMIX_FENCE` is set: somebody has chosen how Slurm's PMIx lets ranks wait for each other.
    pub fence: bool,
}

/// A batch job and what it has been given.
#[derive(Clone, Debug, PartialEq)]
pub enum Batch {
    /// Slurm, with the number of tasks of the allocation.
    Slurm {
        /// Tasks on all nodes together.
        tasks: usize,
    },
    /// PBS or Torque, with the hosts of its node file. Debian's Open MPI does not know PBS.
    Pbs(Hostfile),
    /// Grid Engine, whose hosts both launchers find by themselves.
    Sge {
        /// Slots on all hosts together.
        slots: usize,
    },
}

impl Site {
    /// Looks at this machine and the environment of this process.
    ///
    /// # Errors
    /// When the node file of a PBS job cannot be read.
    pub fn survey() -> Result<Site, LaunchError> {
        let path = search_path();
        let launchers = launchers::find(&path);
        Ok(Site {
            root: rustix::process::geteuid().is_root(),
            cores: cores(Path::new("/sys/devices/system/cpu")),
            openmpi: launchers.openmpi,
            mpich: launchers.mpich,
            srun: launchers.srun,
            batch: batch(|name| std::env::var(name).ok())?,
            variables: variables(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())),
            fence: std::env::var_os(FENCE).is_some(),
        })
    }
}

/// The directories of `PATH`.
pub fn search_path() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

/// The batch job that an environment tells of.
fn batch(get: impl Fn(&str) -> Option<String>) -> Result<Option<Batch>, LaunchError> {
    if get("SLURM_JOB_ID").is_some() {
        let tasks = get("SLURM_NTASKS").and_then(|n| n.parse().ok());
        let per_node = || get("SLURM_TASKS_PER_NODE").and_then(|list| slurm::sum(&list));
        return Ok(Some(Batch::Slurm { tasks: tasks.or_else(per_node).unwrap_or(1) }));
    }
    if let Some(file) = get("PBS_NODEFILE") {
        return Ok(Some(Batch::Pbs(Hostfile::read(Path::new(&file))?)));
    }
    if get("PE_HOSTFILE").is_some() {
        let slots = get("NSLOTS").and_then(|n| n.parse().ok()).unwrap_or(1);
        return Ok(Some(Batch::Sge { slots }));
    }
    Ok(None)
}

fn variables(names: impl Iterator<Item = String>) -> Vec<String> {
    let wanted =
        |name: &String| name.starts_with("ARMATURE_") || name == "RUST_LOG" || name == "RUST_BACKTRACE";
    let mut names: Vec<String> = names.filter(wanted).collect();
    names.sort_unstable();
    names
}

/// Cores by the kernel's list of threads that share one, limited to what this process may use.
fn cores(cpus: &Path) -> usize {
    let allowed = std::thread::available_parallelism().map_or(1, usize::from);
    let siblings: BTreeSet<String> = std::fs::read_dir(cpus)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|cpu| std::fs::read_to_string(cpu.path().join("topology/thread_siblings_list")).ok())
        .collect();
    if siblings.is_empty() { allowed } else { siblings.len().min(allowed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(environment: &[(&str, &str)]) -> Option<Batch> {
        batch(|name| environment.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()))
            .unwrap()
    }

    #[test]
    fn slurm_tasks_are_counted() {
        assert_eq!(of(&[("SLURM_JOB_ID", "7"), ("SLURM_NTASKS", "6")]), Some(Batch::Slurm { tasks: 6 }));
        assert_eq!(
            of(&[("SLURM_JOB_ID", "7"), ("SLURM_TASKS_PER_NODE", "2(x3),1")]),
            Some(Batch::Slurm { tasks: 7 })
        );
    }

    #[test]
    fn a_pbs_node_file_is_a_hostfile() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "node01\nnode01\nnode02\n").unwrap();
        let Some(Batch::Pbs(hosts)) = of(&[("PBS_NODEFILE", file.path().to_str().unwrap())]) else {
            panic!()
        };
        assert_eq!(hosts.for_openmpi(), "node01 slots=2\nnode02 slots=1\n");
    }

    #[test]
    fn grid_engine_tells_its_slots() {
        assert_eq!(of(&[("PE_HOSTFILE", "/x"), ("NSLOTS", "12")]), Some(Batch::Sge { slots: 12 }));
        assert_eq!(of(&[("HOME", "/root")]), None);
    }

    #[test]
    fn only_our_variables_travel() {
        let names = ["HOME", "RUST_LOG", "ARMATURE_BIND", "XARMATURE_"].map(String::from);
        assert_eq!(variables(names.into_iter()), ["ARMATURE_BIND", "RUST_LOG"]);
    }

    #[test]
    fn two_threads_of_a_core_count_once() {
        let dir = tempfile::tempdir().unwrap();
        for (cpu, siblings) in [("cpu0", "0-1"), ("cpu1", "0-1")] {
            let topology = dir.path().join(cpu).join("topology");
            std::fs::create_dir_all(&topology).unwrap();
            std::fs::write(topology.join("thread_siblings_list"), siblings).unwrap();
        }
        assert_eq!(cores(dir.path()), 1);
        assert!(cores(Path::new("/nowhere")) >= 1);
    }
}
