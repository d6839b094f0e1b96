//! Reads from cgroups the memory and processor time that a Slurm job has used on this host.

use std::fs;
use std::path::{Path, PathBuf};

use armature_host::cgroup;

/// Memory and processor time of all processes of a Slurm job on this host; `None` if not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct JobUsage {
    /// Peak memory of the job in bytes, with the page cache of its files.
    pub(crate) memory: Option<u64>,
    pub(crate) cpu_seconds: Option<f64>,
}

impl JobUsage {
    pub(crate) fn read() -> Self {
        let text = fs::read_to_string(cgroup::OWN).unwrap_or_default();
        JobUsage::find(&text, Path::new(cgroup::MOUNTS))
    }

    /// `text` is the content of `/proc/self/cgroup`, and `root` the directory of the cgroup hierarchies. Only cgroups of a Slurm job count, because
    /// others contain more than the job.
    fn find(text: &str, root: &Path) -> Self {
        let groups = |controller: &str| job_groups(text, root, controller);
        let first = |controller: &str, files: &[&str]| {
            let paths = groups(controller)
                .into_iter()
                .flat_map(|group| files.iter().map(move |file| group.join(file)));
            paths.into_iter().find_map(|path| fs::read_to_string(path).ok())
        };
        let number = |text: String| text.trim().parse::<u64>().ok();
        let memory = first("memory", &["memory.peak", "memory.max_usage_in_bytes"]).and_then(number);
        let microseconds = first("cpu", &["cpu.stat"]).and_then(|text| cgroup::entry(&text, "usage_usec "));
        let nanoseconds = || first("cpuacct", &["cpuacct.usage"]).and_then(number);
        let cpu_seconds =
            microseconds.map(|value| value as f64 / 1e6).or_else(|| Some(nanoseconds()? as f64 / 1e9));
        JobUsage { memory, cpu_seconds }
    }
}

/// Returns the cgroups of the Slurm job in the hierarchies of version 2 and of `controller` of version 1.
fn job_groups(text: &str, root: &Path, controller: &str) -> Vec<PathBuf> {
    let groups = cgroup::memberships(text, controller);
    let own = groups.map(|(hierarchy, path)| root.join(hierarchy).join(path.trim_start_matches('/')));
    own.filter_map(|own| group_of_job(&own).map(Path::to_path_buf)).collect()
}

/// Returns the cgroup of the whole Slurm job that contains `group`: the directory `job_N` among its ancestors.
pub(super) fn group_of_job(group: &Path) -> Option<&Path> {
    group.ancestors().find(|group| {
        let name = group.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.strip_prefix("job_").is_some_and(|number| number.parse::<u64>().is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(group: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(group).unwrap();
        files.iter().for_each(|(name, text)| fs::write(group.join(name), text).unwrap());
    }

    #[test]
    fn job_is_measured_as_a_whole_in_both_versions_of_cgroups() {
        let root = tempfile::tempdir().unwrap();
        let job = root.path().join("system.slice/slurmstepd.scope/job_7");
        write(&job, &[("memory.peak", "3000\n"), ("cpu.stat", "usage_usec 2500000\nuser_usec 1\n")]);
        let text = "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_1\n";
        let used = JobUsage { memory: Some(3000), cpu_seconds: Some(2.5) };
        assert_eq!(JobUsage::find(text, root.path()), used);

        let root = tempfile::tempdir().unwrap();
        write(&root.path().join("memory/slurm/uid_0/job_7"), &[("memory.max_usage_in_bytes", "4000\n")]);
        write(&root.path().join("cpuacct/slurm/uid_0/job_7"), &[("cpuacct.usage", "1500000000\n")]);
        let text = "5:memory:/slurm/uid_0/job_7/step_batch\n4:cpu,cpuacct:/slurm/uid_0/job_7/step_batch\n1:name=systemd:/\n";
        let used = JobUsage { memory: Some(4000), cpu_seconds: Some(1.5) };
        assert_eq!(JobUsage::find(text, root.path()), used);
    }

    #[test]
    fn group_that_is_not_that_of_a_job_is_not_measured() {
        let root = tempfile::tempdir().unwrap();
        write(&root.path().join("user.slice"), &[("memory.peak", "3000\n"), ("cpu.stat", "usage_usec 1\n")]);
        assert_eq!(JobUsage::find("0::/user.slice\n", root.path()), JobUsage::default());
    }
}
