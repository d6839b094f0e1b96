//! Checks of `armature doctor` for launchers: mpirun of the MPI libraries, srun, and the protocol by which started ranks find each other.

use super::check::{Check, Facts, Finding, Version};
use super::site::Site;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "pmi-plugin",
        symptom: "srun starts ranks that do not find each other, or MPI_Init fails",
        about: "Slurm starts the ranks of a job through a plug-in, which must speak the protocol of the MPI library: pmix for Open MPI, pmi2 \
                for MPICH. `srun --mpi=list` prints the plug-ins that are installed, and `MpiDefault` of the configuration is the one that is used \
                without an option.",
        examine: pmi_plugin,
    },
    Check {
        id: "slots",
        symptom: "mpirun: there are not enough slots available",
        about: "Open MPI refuses more ranks than slots unless an option allows it. The option has another name in version 5. `armature run` \
                passes it.",
        examine: slots,
    },
    Check {
        id: "root",
        symptom: "mpirun has detected an attempt to run as root",
        about: "Open MPI refuses to start ranks as root, as in a container, unless two variables allow it. The launcher prterun of version 5 has two \
                others. `armature run` passes an option that has the same effect.",
        examine: root,
    },
    Check {
        id: "step",
        symptom: "mpirun or armature run hangs inside srun",
        about: "A launcher inside a job step of Slurm waits for the resources that the step itself occupies. Start it from the batch script or \
                from a shell of salloc. `srun mpirun` and `srun armature run` start one launcher per task. In a step of one task, such as \
                `srun -n 1 --pty bash`, `armature run --launcher srun` adds --overlap.",
        examine: step,
    },
    Check {
        id: "pmix-security",
        symptom: "PMIX ERROR: ... psec ... when ranks connect to slurmd",
        about: "PMIx authenticates ranks with a module that both sides must have. If the server wants munge and this node has no munge daemon, \
                connections fail.",
        examine: pmix_security,
    },
    Check {
        id: "pmix-fence",
        symptom: "a crash in MPI_Init under srun, once in some dozen starts",
        about: "Slurm 22.05 synchronises ranks of several nodes with an algorithm that sometimes corrupts memory together with Open MPI 4.1. \
                The algorithm `ring` does not. `armature run` selects it.",
        examine: pmix_fence,
    },
    Check {
        id: "foreign-launcher",
        symptom: "MPICH's mpirun aborts in a Slurm job, or all ranks of Intel MPI run on one core",
        about: "MPICH's mpirun starts its proxies by srun, which fails if Slurm's default plug-in is pmix. Intel MPI binds ranks although \
                `-bind-to none` is given, unless I_MPI_PIN is off.",
        examine: foreign_launcher,
    },
];

pub(super) fn mpirun_version(site: &dyn Site) -> Option<String> {
    ["mpirun", "mpiexec", "mpirun.openmpi", "mpirun.mpich"]
        .iter()
        .find_map(|program| site.run(program, &["--version"]))
}

pub(super) fn is_open_mpi(version: &str) -> bool {
    ["Open MPI", "OpenRTE", "PRRTE"].iter().any(|name| version.contains(name))
}

pub(super) fn slurm_setting(site: &dyn Site, name: &str) -> Option<String> {
    let config = site.run("scontrol", &["show", "config"])?;
    let value =
        |line: &str| Some(line.strip_prefix(name)?.trim_start().strip_prefix('=')?.trim().to_string());
    config.lines().find_map(value)
}

fn pmi_plugin(facts: &Facts<'_>) -> Finding {
    let site = facts.site;
    let Some(list) = site.run("srun", &["--mpi=list"]) else {
        return Finding::skipped("srun is not installed");
    };
    let words: Vec<&str> = list.split_whitespace().collect();
    let has = |name: &str| words.iter().any(|word| *word == name || word.starts_with(&format!("{name}_")));
    let default = slurm_setting(site, "MpiDefault").unwrap_or_else(|| "none".into());
    let Some(version) = mpirun_version(site) else {
        return Finding::ok(format!("srun has the plug-ins {}; the default is {default}", plugins(&words)));
    };
    let wanted = if is_open_mpi(&version) { "pmix" } else { "pmi2" };
    if !has(wanted) {
        let found = format!("srun has no plug-in {wanted}, which this MPI needs; it has {}", plugins(&words));
        return Finding::fail(found, "armature run --launcher mpirun");
    }
    if default.starts_with(wanted) {
        Finding::ok(format!("srun has {wanted}, which is also the default"))
    } else {
        let found = format!("srun has {wanted}, but its default is {default}");
        Finding::warn(found, format!("srun --mpi={wanted} (armature run passes it)"))
    }
}

fn plugins(words: &[&str]) -> String {
    let names = words
        .iter()
        .filter(|word| ["none", "cray_shasta", "openmpi"].contains(word) || word.starts_with("pmi"));
    let names: Vec<&str> = names.copied().collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

fn slots(facts: &Facts<'_>) -> Finding {
    let Some(ranks) = facts.ranks else { return Finding::skipped("give the number of ranks with -n") };
    let Some(version) = mpirun_version(facts.site).filter(|version| is_open_mpi(version)) else {
        return Finding::skipped("only Open MPI counts slots");
    };
    let tasks =
        ["SLURM_NTASKS", "NSLOTS"].iter().find_map(|name| facts.site.variable(name)?.trim().parse().ok());
    let slots: usize = match tasks {
        Some(tasks) => tasks,
        None if facts.hosts.is_empty() => armature_host::Cores::read(facts.site).whole(),
        None => {
            return Finding::skipped("the hostfile sets the number of slots; armature run counts them");
        }
    };
    if ranks <= slots {
        return Finding::ok(format!("{ranks} ranks on {slots} slots"));
    }
    let option = match Version::find(&version) {
        Some(version) if version >= Version(5, 0, 0) => "mpirun --map-by :OVERSUBSCRIBE",
        _ => "mpirun --oversubscribe",
    };
    Finding::warn(format!("{ranks} ranks on {slots} slots"), format!("{option} (armature run passes it)"))
}

fn root(facts: &Facts<'_>) -> Finding {
    if !facts.site.is_root() {
        return Finding::ok("this is not root");
    }
    let Some(version) = mpirun_version(facts.site).filter(|version| is_open_mpi(version)) else {
        return Finding::ok("this is root, which only Open MPI refuses");
    };
    // Open MPI 5 has two launchers: mpirun reads the same environment variables as that of Open MPI 4, and prterun reads others.
    let mut names = vec!["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
    if names.iter().all(|name| facts.site.variable(name).is_some()) {
        return Finding::ok(format!("this is root, and {} allows it", names[0]));
    }
    if Version::find(&version).is_some_and(|version| version >= Version(5, 0, 0)) {
        names.extend(["PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"]);
    }
    let settings: Vec<String> = names.iter().map(|name| format!("{name}=1")).collect();
    let remedy = format!("export {} (armature run allows it itself)", settings.join(" "));
    Finding::warn("this is root, which Open MPI refuses", remedy)
}

fn step(facts: &Facts<'_>) -> Finding {
    let site = facts.site;
    let Some(id) = crate::environment::step(|name| site.variable(name)) else {
        return Finding::ok("this is not inside a job step of Slurm");
    };
    let tasks = site.variable("SLURM_STEP_NUM_TASKS").and_then(|tasks| tasks.trim().parse::<u32>().ok());
    let found = match tasks {
        Some(tasks) if tasks > 1 => {
            format!("this runs as one of {tasks} tasks of step {id}: each would start all ranks")
        }
        _ => format!("this runs inside step {id}, whose resources a launcher would wait for"),
    };
    let elsewhere = "start armature run from the batch script or from a shell of salloc, without srun";
    let remedy = match tasks {
        Some(1) => {
            format!("{elsewhere}; or armature run --launcher srun, whose ranks share the cores of the step")
        }
        _ => elsewhere.to_string(),
    };
    Finding::fail(found, remedy)
}

fn pmix_security(facts: &Facts<'_>) -> Finding {
    let site = facts.site;
    let Some(modes) = site.variable("PMIX_SECURITY_MODE") else {
        return Finding::skipped("no PMIx server has started this process");
    };
    if let Some(module) = site.variable("PMIX_MCA_psec") {
        return Finding::ok(format!("PMIX_MCA_psec selects {module}"));
    }
    let has_munge = ["/run/munge", "/var/run/munge"].iter().any(|dir| !site.list(dir).is_empty());
    if modes.contains("munge") && !has_munge {
        return Finding::fail(
            "the PMIx server wants munge, and this node has no munge daemon",
            "export PMIX_MCA_psec=native",
        );
    }
    Finding::ok(format!("the PMIx server accepts {modes}"))
}

fn pmix_fence(facts: &Facts<'_>) -> Finding {
    let site = facts.site;
    let slurm = site.run("srun", &["--version"]).and_then(|text| Version::find(&text));
    let Some(slurm) = slurm else { return Finding::skipped("srun is not installed") };
    let mpi =
        mpirun_version(site).filter(|version| is_open_mpi(version)).and_then(|text| Version::find(&text));
    let is_affected = (slurm.0, slurm.1) == (22, 5) && mpi.is_some_and(|mpi| (mpi.0, mpi.1) == (4, 1));
    if !is_affected {
        return Finding::ok(format!("Slurm {slurm} with this MPI is not known to crash"));
    }
    match site.variable("SLURM_PMIX_FENCE") {
        Some(algorithm) => Finding::ok(format!("SLURM_PMIX_FENCE is {algorithm}")),
        None => Finding::warn(
            format!("Slurm {slurm} with Open MPI 4.1 sometimes crashes in MPI_Init"),
            "export SLURM_PMIX_FENCE=ring (armature run sets it)",
        ),
    }
}

fn foreign_launcher(facts: &Facts<'_>) -> Finding {
    let site = facts.site;
    let Some(version) = mpirun_version(site).filter(|version| !is_open_mpi(version)) else {
        return Finding::skipped("mpirun is not one of MPICH or Intel MPI");
    };
    if version.contains("Intel(R) MPI") {
        let cores = armature_host::Cores::read(site).count;
        let is_off =
            site.variable("I_MPI_PIN").is_some_and(|value| ["off", "0", "no", "disable"].contains(&&*value));
        return match facts.ranks_per_host() {
            Some(ranks) if ranks > cores && !is_off => Finding::warn(
                format!(
                    "Intel MPI binds {ranks} ranks to {cores} cores, so that ranks wait while cores are idle"
                ),
                "export I_MPI_PIN=off (armature run sets it)",
            ),
            _ => Finding::ok("ranks of Intel MPI have cores of their own, or none is bound"),
        };
    }
    let is_in_job = site.variable("SLURM_JOB_ID").is_some();
    let default = slurm_setting(site, "MpiDefault").unwrap_or_default();
    if is_in_job && default.starts_with("pmix") && site.variable("SLURM_MPI_TYPE").is_none() {
        return Finding::warn(
            format!(
                "MPICH's mpirun starts its proxies by srun, whose default plug-in {default} does not serve them"
            ),
            "export SLURM_MPI_TYPE=none (armature run sets it)",
        );
    }
    Finding::ok("nothing is known against MPICH's mpirun here")
}
