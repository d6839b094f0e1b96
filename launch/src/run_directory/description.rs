//! Reads and writes `run.json`, which describes a run: its program, its environment and its batch job.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::RunDirectory;
use crate::error::LaunchError;

pub(crate) const FILE: &str = "run.json";
const SCHEMA: u32 = 1;

/// Beginnings of the names of environment variables that are recorded: of armature, MPI libraries, OpenMP, batch systems and Rust programs.
const PREFIXES: [&str; 11] =
    ["ARMATURE_", "OMPI_", "PRTE_", "PMIX_", "MPICH_", "I_MPI_", "UCX_", "OMP_", "SLURM_", "PBS_", "RUST_"];
/// Other environment variables that are recorded: search paths and loaded modules.
const NAMES: [&str; 4] = ["PATH", "LD_LIBRARY_PATH", "LOADEDMODULES", "CONDA_PREFIX"];

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Description {
    pub(crate) schema: u32,
    pub(crate) command: Vec<String>,
    /// Current directory of the command that created the run.
    pub(crate) directory: String,
    pub(crate) host: String,
    pub(crate) created: String,
    pub(crate) version: String,
    pub(crate) batch: Option<BatchJob>,
    /// Names of the runs of a job array's elements; empty for other runs.
    pub(crate) elements: Vec<String>,
    /// Options of `armature submit` by which the run was submitted.
    pub(crate) options: Vec<String>,
    pub(crate) modules: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BatchJob {
    /// Name of the batch system: `slurm`, `pbs` or `sge`.
    pub(crate) system: String,
    /// Number of a batch job; for an element of a job array in the form `48211_3`.
    pub(crate) job: String,
}

impl BatchJob {
    pub(crate) fn of(get: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let get =
            |name: &str| get(name).map(|value| value.trim().to_string()).filter(|value| !value.is_empty());
        let job = |system: &str, job: String| BatchJob { system: system.into(), job };
        if let Some(number) = get("SLURM_JOB_ID") {
            let element = get("SLURM_ARRAY_JOB_ID").zip(get("SLURM_ARRAY_TASK_ID"));
            return Some(job("slurm", element.map_or(number, |(array, task)| format!("{array}_{task}"))));
        }
        if let Some(number) = get("PBS_JOBID") {
            return Some(job("pbs", number));
        }
        get("JOB_ID")
            .filter(|_| get("SGE_ROOT").is_some() || get("PE_HOSTFILE").is_some())
            .map(|number| job("sge", number))
    }

    pub(crate) fn own() -> Option<Self> {
        BatchJob::of(|name| std::env::var(name).ok())
    }
}

impl Description {
    pub(crate) fn new(command: &[OsString]) -> Self {
        let variables = std::env::vars_os();
        let text = |text: &OsString| text.to_string_lossy().into_owned();
        let is_of_run =
            |name: &str| NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        let mut environment: Vec<(String, String)> = variables
            .map(|(name, value)| (text(&name), text(&value)))
            .filter(|(name, _)| is_of_run(name))
            .collect();
        environment.sort_unstable();
        let modules = std::env::var("LOADEDMODULES").unwrap_or_default();
        Description {
            schema: SCHEMA,
            command: command.iter().map(text).collect(),
            directory: std::env::current_dir().map(|path| path.display().to_string()).unwrap_or_default(),
            host: crate::supervise::host(),
            created: now(),
            version: env!("CARGO_PKG_VERSION").into(),
            batch: BatchJob::own(),
            elements: Vec::new(),
            options: Vec::new(),
            modules: modules.split(':').filter(|name| !name.is_empty()).map(str::to_string).collect(),
            environment,
        }
    }

    pub(crate) fn read(run: &RunDirectory) -> Option<Self> {
        serde_json::from_slice(&fs::read(run.path().join(FILE)).ok()?).ok()
    }

    pub(crate) fn write(&self, run: &RunDirectory) -> Result<(), LaunchError> {
        write_json(&run.path().join(FILE), self)
    }
}

/// Writes a file as JSON so that a reader sees the old or the new content, and never a part of it.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), LaunchError> {
    let write = || {
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        armature_files::output::publish(path, &text)
    };
    write().map_err(LaunchError::io(format!("write {}", path.display())))
}

pub(crate) fn seconds_since_1970() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |time| time.as_secs())
}

/// Returns the current time in the form `2026-11-28T10:15:00Z`.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Option<BatchJob> {
        BatchJob::of(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_string()))
    }

    #[test]
    fn batch_jobs_are_recognised_by_their_variables() {
        let job = |system: &str, job: &str| Some(BatchJob { system: system.into(), job: job.into() });
        assert_eq!(of(&[("SLURM_JOB_ID", "7")]), job("slurm", "7"));
        let array = [("SLURM_JOB_ID", "9"), ("SLURM_ARRAY_JOB_ID", "7"), ("SLURM_ARRAY_TASK_ID", "2")];
        assert_eq!(of(&array), job("slurm", "7_2"));
        assert_eq!(of(&[("PBS_JOBID", "7.server")]), job("pbs", "7.server"));
        assert_eq!(of(&[("JOB_ID", "7"), ("SGE_ROOT", "/x")]), job("sge", "7"));
        assert_eq!([of(&[("JOB_ID", "7")]), of(&[("SLURM_JOB_ID", " ")])], [None, None]);
    }

    #[test]
    fn description_round_trips_and_damaged_ones_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDirectory::at(dir.path());
        assert_eq!(Description::read(&run), None);
        let description = Description::new(&["a b".into(), "$(id)".into()]);
        description.write(&run).unwrap();
        assert_eq!(Description::read(&run), Some(description));
        fs::write(dir.path().join(FILE), "{").unwrap();
        assert_eq!(Description::read(&run), None);
    }
}
