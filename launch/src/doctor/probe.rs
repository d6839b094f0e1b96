//! Checks of `armature doctor` that start ranks of `armature-probe` and examine their reports.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::check::{Check, Facts, Finding};
use super::site::output_within;
use crate::command_line::Launcher;

/// Beginning of the line, followed by a JSON array, in which rank 0 of each `MPI_COMM_WORLD` prints the reports of all its ranks.
const LINE: &str = "armature-probe ";

/// Time limit of armature-probe in seconds, after which the launcher counts as hung.
const LIMIT: u64 = 30;

/// Difference between the clocks of two hosts, in seconds, above which a warning is printed: longer than a message between hosts takes.
const CLOCK_LIMIT: f64 = 1e-3;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Probe {
    pub(super) launcher: String,
    pub(super) size: usize,
    pub(super) host: String,
    /// Random number that the kernel chose when the host was started. Two hosts with the same name differ in this number.
    pub(super) boot: String,
    pub(super) cores: Vec<usize>,
    pub(super) memory: u64,
    /// Thread level that the MPI library provides, such as `funneled`.
    pub(super) threads: String,
    /// Seconds from the start of the rank's process until all ranks had found each other.
    pub(super) start: f64,
    /// Seconds by which the rank's clock is ahead of that of rank 0.
    pub(super) clock: f64,
    pub(super) connects: bool,
    pub(super) shares_directory: bool,
}

impl Probe {
    fn parse(launcher: &str, value: &Value) -> Option<Probe> {
        let text = |name: &str| value[name].as_str().map(String::from);
        let number = |name: &str| value[name].as_f64();
        let is = |name: &str| value[name].as_bool();
        let cores = value["cores"].as_array()?.iter().filter_map(|core| usize::try_from(core.as_u64()?).ok());
        Some(Probe {
            launcher: launcher.into(),
            size: usize::try_from(value["size"].as_u64()?).ok()?,
            host: text("host")?,
            boot: text("boot")?,
            cores: cores.collect(),
            memory: value["memory"].as_u64()?,
            threads: text("threads")?,
            start: number("start_s")?,
            clock: number("clock_s")?,
            connects: is("connects")?,
            shares_directory: is("shares_directory")?,
        })
    }
}

/// Returns the reports in the output of armature-probe. If the launcher does not match the MPI library, each rank is alone in its `MPI_COMM_WORLD`,
/// and prints a line of its own.
pub(super) fn parse(launcher: &str, output: &str) -> Vec<Probe> {
    let lines =
        output.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix(LINE)?).ok());
    lines
        .filter_map(|line| Some(line.as_array()?.clone()))
        .flatten()
        .filter_map(|rank| Probe::parse(launcher, &rank))
        .collect()
}

pub(super) fn start(
    launcher: Launcher,
    ranks: usize,
    hostfile: Option<&Path>,
    probe: &Path,
) -> Result<Vec<Probe>, String> {
    let this = std::env::current_exe().map_err(|e| format!("cannot find this program's own file: {e}"))?;
    let mut command = Command::new(this);
    command.args([
        "run",
        "-n",
        &ranks.to_string(),
        "--launcher",
        launcher.name(),
        "--timeout",
        &format!("{LIMIT}s"),
    ]);
    if let Some(hostfile) = hostfile {
        command.arg("--hostfile").arg(hostfile);
    }
    command.arg("--").arg(probe).stdin(Stdio::null());
    // This limit is longer than the time limit of `armature run`, which needs some seconds more to end the ranks.
    let output = output_within(command, Duration::from_secs(LIMIT + 10));
    let probes = output.as_deref().map(|output| parse(launcher.name(), output)).unwrap_or_default();
    if probes.is_empty() {
        return Err(format!(
            "{} ranks under {} have not reported within {LIMIT} s, or failed",
            ranks,
            launcher.name()
        ));
    }
    Ok(probes)
}

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "world-size",
        symptom: "every rank is rank 0 of 1",
        about: "If launcher and library do not match, each rank starts as the only rank of its world, and all do the same work.",
        examine: world_size,
    },
    Check {
        id: "same-core",
        symptom: "ranks take turns on one core while others are idle",
        about: "Binding can put several ranks on one core: two jobs that both begin at core 0, or ranks that inherit the core of their parent.",
        examine: same_core,
    },
    Check {
        id: "ports",
        symptom: "ranks start on all hosts and then hang",
        about: "A firewall may let ssh through and nothing else. MPI over TCP connects to ports that the kernel chooses.",
        examine: ports,
    },
    Check {
        id: "thread-level",
        symptom: "armature needs an MPI library with threads",
        about: "armature runs user code on a separate thread, for which the library must offer MPI_THREAD_FUNNELED.",
        examine: thread_level,
    },
    Check {
        id: "host-names",
        symptom: "ranks on different hosts count as neighbours",
        about: "Hosts are distinguished by their names. Nodes that were copied from one image sometimes all have the same name.",
        examine: host_names,
    },
    Check {
        id: "clocks",
        symptom: "traces of different hosts do not line up",
        about: "Times in traces are those of each host's clock. armature measures the differences and corrects its own traces; other tools may not.",
        examine: clocks,
    },
    Check {
        id: "shared-directory",
        symptom: "journals, checkpoints or results are not found on other hosts",
        about: "Checkpoints and the inputs of most programs must be in a directory that all hosts share.",
        examine: shared_directory,
    },
];

fn with_ranks(facts: &Facts<'_>, examine: impl Fn(&[Probe]) -> Finding) -> Finding {
    match facts.probes {
        Some(probes) if !probes.is_empty() => examine(probes),
        Some(_) => Finding::skipped("no rank has reported"),
        None => Finding::skipped("starts ranks: give their number with -n"),
    }
}

fn world_size(facts: &Facts<'_>) -> Finding {
    with_ranks(facts, |probes| {
        let wanted = facts.ranks.unwrap_or(probes.len());
        match probes.iter().find(|probe| probe.size != wanted) {
            None => Finding::ok(format!("{wanted} ranks have found each other")),
            Some(probe) => Finding::fail(
                format!("under {}, a rank is one of {} instead of {wanted}", probe.launcher, probe.size),
                if probe.launcher == "srun" {
                    "srun --mpi=pmix or --mpi=pmi2 (srun --mpi=list), or armature run --launcher mpirun"
                } else {
                    "the mpirun of the MPI to which the program is linked (armature run starts it)"
                },
            ),
        }
    })
}

fn same_core(facts: &Facts<'_>) -> Finding {
    with_ranks(facts, |probes| {
        let mut bound: BTreeMap<(&str, &str, &str, &[usize]), usize> = BTreeMap::new();
        for probe in probes {
            *bound.entry((&probe.launcher, &probe.boot, &probe.host, &probe.cores)).or_default() += 1;
        }
        match bound.iter().find(|((.., cores), ranks)| **ranks > cores.len()) {
            None => Finding::ok("no core has more than one rank bound to it"),
            Some(((launcher, .., cores), ranks)) => Finding::warn(
                format!(
                    "under {launcher}, {ranks} ranks of a host share {} hardware threads ({cores:?})",
                    cores.len()
                ),
                "armature run --bind none, or fewer ranks",
            ),
        }
    })
}

fn ports(facts: &Facts<'_>) -> Finding {
    with_ranks(facts, |probes| match probes.iter().find(|probe| !probe.connects) {
        None => Finding::ok("every rank can connect to rank 0"),
        Some(probe) => Finding::fail(
            format!("a rank on {} cannot connect to a port of rank 0", probe.host),
            "open the ports between the hosts, or fix a range: OMPI_MCA_btl_tcp_port_min_v4, OMPI_MCA_oob_tcp_dynamic_ipv4_ports",
        ),
    })
}

fn thread_level(facts: &Facts<'_>) -> Finding {
    with_ranks(facts, |probes| match probes.iter().find(|probe| probe.threads == "single") {
        None => Finding::ok(format!("the library offers the level {}", probes[0].threads)),
        Some(probe) => Finding::fail(
            format!("the library under {} offers only MPI_THREAD_SINGLE", probe.launcher),
            "an MPI that is built with threads (Open MPI 3 or newer, MPICH with --enable-threads=multiple)",
        ),
    })
}

fn host_names(facts: &Facts<'_>) -> Finding {
    with_ranks(facts, |probes| {
        let mut hosts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for probe in probes {
            hosts.entry(&probe.host).or_default().insert(&probe.boot);
        }
        match hosts.iter().find(|(_, boots)| boots.len() > 1) {
            None => Finding::ok("all hosts have different names"),
            Some((host, boots)) => Finding::fail(
                format!("{} hosts have the name {host}", boots.len()),
                "hostnamectl set-hostname, on each of them",
            ),
        }
    })
}

fn clocks(facts: &Facts<'_>) -> Finding {
    with_ranks(facts, |probes| {
        let most = probes.iter().map(|probe| probe.clock.abs()).fold(0.0, f64::max);
        if most <= CLOCK_LIMIT {
            return Finding::ok(format!("clocks differ by at most {:.3} ms", 1e3 * most));
        }
        Finding::warn(
            format!("clocks differ by up to {:.1} ms", 1e3 * most),
            "run chrony or ntpd on all hosts",
        )
    })
}

fn shared_directory(facts: &Facts<'_>) -> Finding {
    with_ranks(facts, |probes| match probes.iter().find(|probe| !probe.shares_directory) {
        None => Finding::ok("all ranks see the current directory of rank 0"),
        Some(probe) => Finding::warn(
            format!("{} does not see files that rank 0 makes in the current directory", probe.host),
            "start from a shared directory, or send files (armature workflow run --send-files)",
        ),
    })
}
