//! Checks of `armature doctor` for the network, the batch system, and files and variables that earlier jobs have left behind.

use super::check::{Check, Facts, Finding, Version};
use super::launchers::{is_open_mpi, mpirun_version, slurm_setting};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "interfaces",
        symptom: "a job on several hosts hangs in its first message",
        about: "Bridges of Docker, libvirt and containers have the same addresses on every host. Open MPI may try to reach other hosts through \
                them. Its settings name the network to use.",
        examine: interfaces,
    },
    Check {
        id: "ssh",
        symptom: "mpirun hangs, or asks for a password",
        about: "Outside a batch system, mpirun starts ranks on other hosts by ssh, which must not ask for anything.",
        examine: ssh,
    },
    Check {
        id: "time-to-stop",
        symptom: "a job that was stopped or preempted has lost work",
        about: "After a time limit or a preemption Slurm sends SIGTERM, and SIGKILL after KillWait or the partition's GraceTime. A checkpoint must \
                be complete by then, or the warning must come earlier (#SBATCH --signal). With --recover, Slurm must not end the job when it \
                loses a node (#SBATCH --no-kill).",
        examine: time_to_stop,
    },
    Check {
        id: "files-in-use",
        symptom: "a job ends at once: another process uses its file",
        about: "Two jobs must not write the same events, job status or run directory. Elements of a job array need different names.",
        examine: files_in_use,
    },
    Check {
        id: "settings",
        symptom: "MPI behaves differently from what its documentation says",
        about: "Variables and files with parameters of Open MPI apply to every start. Settings for one version can break another.",
        examine: settings,
    },
    Check {
        id: "exported-variables",
        symptom: "ranks do not see the variables of the job script",
        about: "Some sites set SLURM_EXPORT_ENV=NONE, so that srun passes no variables to ranks.",
        examine: exported_variables,
    },
];

/// Beginnings of the names of network interfaces (of containers and virtual machines) that do not lead to other hosts.
const LOCAL_INTERFACES: [&str; 6] = ["docker", "virbr", "veth", "br-", "podman", "cni"];

/// Slurm's default for `KillWait`, the seconds between SIGTERM and SIGKILL at the end of a job. A warning is printed for less, which is often too
/// short to write a checkpoint.
const KILL_WAIT: u64 = 30;

fn interfaces(facts: &Facts<'_>) -> Finding {
    let names = facts.site.list("/sys/class/net");
    let local: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| LOCAL_INTERFACES.iter().any(|start| name.starts_with(start)))
        .collect();
    if local.is_empty() {
        return Finding::ok(format!("interfaces: {}", names.join(", ")));
    }
    let found = format!("{} lead to no other host", local.join(", "));
    if facts.host_count() == 1 {
        return Finding::ok(format!("{found}, and the job runs on one host"));
    }
    if facts
        .site
        .variable("OMPI_MCA_btl_tcp_if_include")
        .or_else(|| facts.site.variable("OMPI_MCA_btl_tcp_if_exclude"))
        .is_some()
    {
        return Finding::ok(format!("{found}, and settings of Open MPI select the interfaces"));
    }
    let exclude = format!("lo,{}", local.join(","));
    // The launcher of Open MPI 5 reads environment variables with other names than that of Open MPI 4.
    let version =
        mpirun_version(facts.site).filter(|text| is_open_mpi(text)).and_then(|text| Version::find(&text));
    let launcher = if version.is_some_and(|version| version >= Version(5, 0, 0)) { "PRTE" } else { "OMPI" };
    let remedy = format!("OMPI_MCA_btl_tcp_if_exclude={exclude} {launcher}_MCA_oob_tcp_if_exclude={exclude}");
    Finding::warn(found, format!("export {remedy}"))
}

fn ssh(facts: &Facts<'_>) -> Finding {
    if facts.site.variable("SLURM_JOB_ID").is_some() {
        return Finding::skipped("inside a job of Slurm, srun starts ranks on other hosts");
    }
    let here = facts.site.read("/proc/sys/kernel/hostname").unwrap_or_default();
    let others: Vec<&String> =
        facts.hosts.iter().filter(|host| *host != here.trim() && *host != "localhost").collect();
    if others.is_empty() {
        return Finding::skipped("there are no other hosts");
    }
    let options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=2"];
    let fails =
        |host: &&&String| facts.site.run("ssh", &[&options[..], &["--", host, "true"]].concat()).is_none();
    match others.iter().find(fails) {
        None => Finding::ok(format!("ssh reaches {} hosts without asking", others.len())),
        Some(host) => Finding::fail(
            format!("ssh to {host} fails, or asks for something"),
            format!("ssh-keygen -t ed25519; ssh-copy-id {host}; ssh {host} true"),
        ),
    }
}

fn time_to_stop(facts: &Facts<'_>) -> Finding {
    let Some(text) = slurm_setting(facts.site, "KillWait") else {
        return Finding::skipped("Slurm does not answer");
    };
    let Some(seconds) = text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()) else {
        return Finding::skipped(format!("KillWait is `{text}`"));
    };
    let preempt = slurm_setting(facts.site, "PreemptMode").unwrap_or_else(|| "OFF".into());
    let found = format!("Slurm waits {seconds} s between SIGTERM and SIGKILL; PreemptMode is {preempt}");
    if seconds < KILL_WAIT {
        return Finding::warn(
            found,
            "#SBATCH --signal=B:USR1@120, so that the job is warned two minutes before its time limit",
        );
    }
    Finding::ok(found)
}

fn files_in_use(facts: &Facts<'_>) -> Finding {
    let mut places: Vec<String> = facts.site.variable("ARMATURE_JOB_STATUS").into_iter().collect();
    places.extend(
        facts.site.variable("ARMATURE_EVENTS").map(|directory| format!("{directory}/job-status.json")),
    );
    if places.is_empty() {
        return Finding::skipped("neither ARMATURE_JOB_STATUS nor ARMATURE_EVENTS is set");
    }
    match places.iter().find(|place| facts.site.is_locked(place)) {
        None => Finding::ok("no other process uses the files of this job"),
        Some(place) => Finding::fail(
            format!("another process uses {place}"),
            "use another name, in a job array with $SLURM_ARRAY_TASK_ID",
        ),
    }
}

fn settings(facts: &Facts<'_>) -> Finding {
    let site = facts.site;
    let mut found: Vec<String> =
        ["OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_"].iter().flat_map(|prefix| site.variables(prefix)).collect();
    let home = site.variable("HOME").unwrap_or_default();
    for file in [format!("{home}/.openmpi/mca-params.conf"), format!("{home}/.prte/mca-params.conf")] {
        let is_setting = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        if site.read(&file).is_some_and(|text| text.lines().any(is_setting)) {
            found.push(file);
        }
    }
    if found.is_empty() {
        return Finding::ok("Open MPI uses its default settings");
    }
    Finding::warn(
        format!("these settings apply to every start: {}", found.join(", ")),
        "unset those that you do not need",
    )
}

fn exported_variables(facts: &Facts<'_>) -> Finding {
    match facts.site.variable("SLURM_EXPORT_ENV") {
        Some(value) if value.eq_ignore_ascii_case("none") || value.eq_ignore_ascii_case("nil") => {
            Finding::warn(
                format!("SLURM_EXPORT_ENV is {value}: ranks get no variables"),
                "export SLURM_EXPORT_ENV=ALL",
            )
        }
        _ => Finding::ok("ranks get the variables of the job script"),
    }
}
