//! Facts about this machine, its launchers, and the batch job in which this process runs.
//!
//! [`Environment`] is plain data, so that tests can pass simulated environments to [`command_line`](mod@crate::command_line), which chooses the
//! command that starts a job.

mod launchers;
pub(crate) mod slurm;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Variable;
use crate::hostfile::{Hostfile, MAX_SLOTS};
pub(crate) use launchers::version as launcher_version;
use slurm::{Allocation, Overrides};

/// Environment variable that selects the algorithm by which Slurm's PMIx synchronises ranks of several nodes.
pub(crate) const FENCE: &str = "SLURM_PMIX_FENCE";

/// Environment variable that selects the plug-in with which `srun` starts processes, like its option `--mpi`.
pub(crate) const PLUGIN: &str = "SLURM_MPI_TYPE";

/// Facts about this machine, its launchers and its batch job on which the launcher's command line depends.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Environment {
    /// True if this process runs as root, which Open MPI refuses unless an option permits it.
    pub root: bool,
    /// Number of cores of this machine that this process may use: those in its affinity mask and within its CPU quota. Two hardware threads of
    /// one core count once.
    pub cores: usize,
    /// Path of Open MPI's `mpirun`, if it was found.
    pub openmpi: Option<PathBuf>,
    /// True if Open MPI's `mpirun` is that of version 5 or newer, which is PRRTE's and has options of its own.
    pub has_prrte: bool,
    /// Path of MPICH's `mpirun`, or that of a compatible MPI, if it was found.
    pub mpich: Option<PathBuf>,
    /// True if the `mpirun` in `mpich` is that of Intel MPI, which binds ranks by environment variables.
    pub has_intel_mpi: bool,
    /// Path of Slurm's `srun`, if it was found.
    pub srun: Option<PathBuf>,
    /// Batch job that contains this process.
    pub batch: Option<Batch>,
    /// Names of environment variables that are set here and needed by ranks on other hosts: `ARMATURE_*`, `RUST_LOG`, `RUST_BACKTRACE`.
    pub variables: Vec<String>,
    /// True if `SLURM_PMIX_FENCE` is set, which means that the user has selected the algorithm by which Slurm's PMIx synchronises ranks.
    pub fence: bool,
    /// True if `SLURM_MPI_TYPE` is set, which means that the user has selected the plug-in with which `srun` starts processes.
    pub plugin: bool,
    /// Slurm job step that contains this process, from `SLURM_STEP_ID`. Batch scripts and shells of `salloc` do not count as job steps.
    pub step: Option<String>,
    /// True if the Slurm job step of this process has one task, as with `srun -n 1`, so that this process runs once.
    pub is_only_task: bool,
}

/// Batch job in which this process runs, with its resources.
#[derive(Clone, Debug, PartialEq)]
pub enum Batch {
    /// The batch job is one of Slurm.
    Slurm {
        /// Total number of tasks on all nodes of the allocation.
        tasks: Result<usize, Variable>,
        /// Number of cores for each task of the allocation, if `srun` needs an option for it.
        cores_per_task: Option<usize>,
    },
    /// The batch job is one of PBS or Torque, with the hosts of its node file, which Debian's Open MPI does not read.
    Pbs(Result<Hostfile, Variable>),
    /// The batch job is one of Grid Engine, whose hosts Open MPI's and MPICH's `mpirun` find without options.
    Sge {
        /// Total number of slots of the batch job on all hosts.
        slots: Result<usize, Variable>,
    },
}

impl Environment {
    /// Examines this machine and the environment of this process. If `has_hosts` is true, the user has named the hosts. The node file of a PBS job is
    /// then not read, and may be missing.
    pub fn survey(has_hosts: bool) -> Environment {
        let path = search_path();
        let launchers = launchers::find(&path);
        Environment {
            root: rustix::process::geteuid().is_root(),
            cores: armature_host::Cores::read(&armature_host::Here).whole(),
            openmpi: launchers.openmpi,
            has_prrte: launchers.has_prrte,
            mpich: launchers.mpich,
            has_intel_mpi: launchers.has_intel_mpi,
            srun: launchers.srun,
            batch: batch(|name| std::env::var(name).ok(), has_hosts),
            variables: variables(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok())),
            fence: std::env::var_os(FENCE).is_some(),
            plugin: std::env::var_os(PLUGIN).is_some(),
            step: step(|name| std::env::var(name).ok()),
            is_only_task: std::env::var("SLURM_STEP_NUM_TASKS").is_ok_and(|tasks| tasks.trim() == "1"),
        }
    }

    /// Asks Slurm which nodes of the allocation remain. If nodes were lost, returns the environment with the remaining nodes, and changes of
    /// environment variables for the launcher.
    pub(crate) fn after_lost_nodes(&self) -> Option<(Environment, Overrides)> {
        if !matches!(self.batch, Some(Batch::Slurm { .. })) {
            return None;
        }
        let get = |name: &str| std::env::var(name).ok();
        let mut scontrol = Command::new("scontrol");
        scontrol
            .args(["-o", "show", "job", &get("SLURM_JOB_ID")?])
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        let description = scontrol.output().ok()?.stdout;
        let overrides = Allocation::parse(&String::from_utf8_lossy(&description))?.overrides(get)?;
        let renewed = |name: &str| match overrides.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => value.clone(),
            None => get(name),
        };
        Some((Environment { batch: batch(renewed, false), ..self.clone() }, overrides))
    }
}

/// Returns the directories in the environment variable `PATH`.
pub fn search_path() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

fn batch(get: impl Fn(&str) -> Option<String>, has_hosts: bool) -> Option<Batch> {
    let get = |name: &str| get(name).filter(|value| !value.trim().is_empty());
    if get("SLURM_JOB_ID").is_some() {
        let per_node = || match get("SLURM_TASKS_PER_NODE") {
            Some(list) => slurm::sum(&list).filter(|&sum| sum <= MAX_SLOTS).ok_or_else(|| Variable {
                name: "SLURM_TASKS_PER_NODE",
                wrong: format!("`{list}`: expected numbers such as 2(x3),1, at most {MAX_SLOTS} together"),
            }),
            None => Ok(1),
        };
        let tasks = count(get, "SLURM_NTASKS").unwrap_or_else(per_node);
        // A number of cores per task that the user has set for srun takes precedence over that of the allocation.
        let is_set = get("SRUN_CPUS_PER_TASK").is_some();
        let cores = count(get, "SLURM_CPUS_PER_TASK").and_then(Result::ok);
        return Some(Batch::Slurm { tasks, cores_per_task: cores.filter(|_| !is_set) });
    }
    if let Some(file) = get("PBS_NODEFILE") {
        // Hosts that the user has named take the place of those of the batch job.
        let read = || Hostfile::read(Path::new(&file));
        let wrong = |error: String| Variable { name: "PBS_NODEFILE", wrong: error };
        return (!has_hosts).then(|| Batch::Pbs(read().map_err(|error| wrong(error.to_string()))));
    }
    if get("PE_HOSTFILE").is_some() {
        return Some(Batch::Sge { slots: count(get, "NSLOTS").unwrap_or(Ok(1)) });
    }
    None
}

pub(crate) fn step(get: impl Fn(&str) -> Option<String>) -> Option<String> {
    /// Ids that Slurm gives to the shell of an interactive `salloc` and to a batch script (`SLURM_INTERACTIVE_STEP`, `SLURM_BATCH_SCRIPT`). These are
    /// not steps with ranks.
    const SHELLS: [u32; 2] = [0xffff_fffa, 0xffff_fffb];
    let id = get("SLURM_STEP_ID").filter(|id| !id.trim().is_empty())?;
    (!id.trim().parse().is_ok_and(|number| SHELLS.contains(&number))).then_some(id)
}

fn count(get: impl Fn(&str) -> Option<String>, name: &'static str) -> Option<Result<usize, Variable>> {
    let value = get(name)?;
    let wrong =
        || Variable { name, wrong: format!("`{value}`: expected a whole number from 1 to {MAX_SLOTS}") };
    Some(value.trim().parse().ok().filter(|number| (1..=MAX_SLOTS).contains(number)).ok_or_else(wrong))
}

fn variables(names: impl Iterator<Item = String>) -> Vec<String> {
    let wanted =
        |name: &String| name.starts_with("ARMATURE_") || name == "RUST_LOG" || name == "RUST_BACKTRACE";
    let mut names: Vec<String> = names.filter(wanted).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(environment: &[(&str, &str)]) -> Option<Batch> {
        let get =
            |name: &str| environment.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        batch(get, false)
    }

    #[test]
    fn slurm_tasks_are_counted() {
        let slurm = |tasks| Some(Batch::Slurm { tasks: Ok(tasks), cores_per_task: None });
        assert_eq!(of(&[("SLURM_JOB_ID", "7"), ("SLURM_NTASKS", "6")]), slurm(6));
        assert_eq!(of(&[("SLURM_JOB_ID", "7"), ("SLURM_TASKS_PER_NODE", "2(x3),1")]), slurm(7));
        assert_eq!(of(&[("SLURM_JOB_ID", "7")]), slurm(1));
        assert_eq!(of(&[("SLURM_JOB_ID", ""), ("SLURM_NTASKS", "6")]), None);
    }

    #[test]
    fn slurm_cores_per_task_are_read() {
        let cores = |more: &[(&str, &str)]| {
            let job = [&[("SLURM_JOB_ID", "7"), ("SLURM_NTASKS", "6")], more].concat();
            let Some(Batch::Slurm { cores_per_task, .. }) = of(&job) else { panic!() };
            cores_per_task
        };
        assert_eq!(cores(&[("SLURM_CPUS_PER_TASK", "4")]), Some(4));
        assert_eq!(cores(&[("SLURM_CPUS_PER_TASK", "4"), ("SRUN_CPUS_PER_TASK", "2")]), None, "srun knows");
        assert_eq!([cores(&[]), cores(&[("SLURM_CPUS_PER_TASK", "")])], [None; 2]);
    }

    #[test]
    fn pbs_node_file_is_a_hostfile() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "node01\nnode01\nnode02\n").unwrap();
        let Some(Batch::Pbs(Ok(hosts))) = of(&[("PBS_NODEFILE", file.path().to_str().unwrap())]) else {
            panic!()
        };
        assert_eq!(hosts.for_openmpi(), "node01 slots=2\nnode02 slots=1\n");
    }

    #[test]
    fn unusable_variables_are_named_and_empty_ones_are_ignored() {
        let Some(Batch::Pbs(Err(wrong))) = of(&[("PBS_NODEFILE", "/nowhere")]) else { panic!() };
        assert!(wrong.to_string().starts_with("PBS_NODEFILE of the batch job: /nowhere: "), "{wrong}");
        assert_eq!(batch(|name| (name == "PBS_NODEFILE").then(|| "/nowhere".to_owned()), true), None);
        for name in ["PBS_NODEFILE", "PE_HOSTFILE", "SLURM_JOB_ID"] {
            assert_eq!([of(&[(name, "")]), of(&[(name, " ")])], [None, None], "{name}");
        }
        let jobs: [(&str, &[(&str, &str)]); 3] = [
            (
                "SLURM_NTASKS",
                &[("SLURM_JOB_ID", "7"), ("SLURM_NTASKS", "many"), ("SLURM_TASKS_PER_NODE", "2")],
            ),
            ("SLURM_TASKS_PER_NODE", &[("SLURM_JOB_ID", "7"), ("SLURM_TASKS_PER_NODE", "2(x")]),
            ("NSLOTS", &[("PE_HOSTFILE", "/x"), ("NSLOTS", "0")]),
        ];
        for (name, job) in jobs {
            let (Some(Batch::Slurm { tasks: Err(wrong), .. }) | Some(Batch::Sge { slots: Err(wrong) })) =
                of(job)
            else {
                panic!("{name}")
            };
            assert_eq!(wrong.name, name);
        }
    }

    #[test]
    fn job_step_is_distinguished_from_batch_and_interactive_shells() {
        let of = |id: &str| step(|name| (name == "SLURM_STEP_ID").then(|| id.to_string()));
        assert_eq!(of("0").as_deref(), Some("0"));
        assert_eq!([of(""), of("4294967290"), of("4294967291"), step(|_| None)], [const { None }; 4]);
    }

    #[test]
    fn more_ranks_than_mpi_can_number_are_refused() {
        let too_many = [("SLURM_JOB_ID", "7"), ("SLURM_NTASKS", "2147483648")];
        let Some(Batch::Slurm { tasks: Err(wrong), .. }) = of(&too_many) else { panic!() };
        assert!(wrong.to_string().ends_with("expected a whole number from 1 to 2147483647"), "{wrong}");
    }

    #[test]
    fn grid_engine_slots_are_read_from_nslots() {
        assert_eq!(of(&[("PE_HOSTFILE", "/x"), ("NSLOTS", "12")]), Some(Batch::Sge { slots: Ok(12) }));
        assert_eq!(of(&[("HOME", "/root")]), None);
    }

    #[test]
    fn only_armature_and_rust_log_variables_are_forwarded() {
        let names = ["HOME", "RUST_LOG", "ARMATURE_BIND", "XARMATURE_"].map(String::from);
        assert_eq!(variables(names.into_iter()), ["ARMATURE_BIND", "RUST_LOG"]);
    }
}
