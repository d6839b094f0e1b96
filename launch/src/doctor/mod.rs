//! `armature doctor`: checks this machine for known causes of MPI jobs that fail, hang or are slow.
//!
//! Checks ([`Check`]) examine a machine through [`Site`](site::Site) and return a [`Finding`]. Passive checks read variables and files and
//! ask programs for their versions. Active checks ([`probe`]) evaluate the reports of ranks that the doctor has started.

mod check;
mod cluster;
mod launchers;
mod node;
mod probe;
mod programs;
mod site;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::LaunchError;
use crate::command_line::Launcher;
use crate::detect;
use crate::environment::{Batch, Environment, search_path};
use crate::hostfile::Hostfile;
use check::{Check, Facts, Finding};
use probe::Probe;
use site::Here;

pub(crate) const PROBE: &str = "armature-probe";

/// Check this machine, or the current batch job, for known causes for which MPI jobs fail, hang or are slow.
///
/// Each check prints ok, warn, fail or skipped, what was found, and what helps. With -n, ranks of the program armature-probe are started under each
/// launcher that was found, and report what they see.
///
/// Exit code: 0 if no check has failed, 1 if one has failed, 2 for an invalid option.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Program that you want to start: its libraries are checked, too
    #[arg(value_name = "APP")]
    program: Option<String>,
    /// Start this number of ranks, for the checks that need them
    #[arg(short = 'n', long = "ranks", value_parser = clap::value_parser!(u32).range(1..=4096))]
    ranks: Option<u32>,
    /// File with the hosts, as for `armature run`
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// Start the ranks with this launcher only [default: each that is found]
    #[arg(long)]
    launcher: Option<Launcher>,
    /// Run only these checks, separated by commas
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// Explain a check instead of running any
    #[arg(long, value_name = "ID")]
    explain: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn all() -> impl Iterator<Item = &'static Check> {
    [programs::CHECKS, launchers::CHECKS, node::CHECKS, cluster::CHECKS, probe::CHECKS].into_iter().flatten()
}

fn find(id: &str) -> Result<&'static Check, LaunchError> {
    all().find(|check| check.id == id).ok_or_else(|| LaunchError::NoCheck(id.into()))
}

/// Returns the text to print and the exit code.
///
/// # Errors
/// There is no check of a given name, the program or the hostfile does not exist, or the probe is not installed.
pub(crate) fn doctor(args: &Doctor) -> Result<(String, u8), LaunchError> {
    if let Some(id) = &args.explain {
        let check = find(id)?;
        return Ok((format!("{}: {}\n\n{}\n", check.id, check.symptom, check.about), 0));
    }
    let mut chosen = Vec::new();
    for id in &args.only {
        chosen.push(find(id)?);
    }
    if chosen.is_empty() {
        chosen.extend(all());
    }
    let program = args.program.as_deref().map(|name| detect::program(name, &search_path())).transpose()?;
    let hostfile = args.hostfile.as_deref().map(Hostfile::read).transpose()?;
    let environment = Environment::survey(hostfile.is_some());
    let ranks = args.ranks.map(|ranks| ranks as usize);
    let mut failures = Vec::new();
    let probes = ranks.map(|ranks| start_probes(args, &environment, ranks, &mut failures)).transpose()?;
    let hosts = hosts(hostfile.as_ref(), &environment);
    let facts =
        Facts { site: &Here, ranks, program: program.as_deref(), hosts: &hosts, probes: probes.as_deref() };
    let mut findings: Vec<(&str, Finding)> =
        chosen.iter().map(|check| (check.id, (check.examine)(&facts))).collect();
    findings.extend(failures.into_iter().map(|failure| {
        ("start", Finding::fail(failure, "armature run --verbose prints the command to try"))
    }));
    let code = u8::from(findings.iter().any(|(_, finding)| matches!(finding, Finding::Fail(_))));
    let text =
        if args.json { as_json(&findings) } else { table(&findings, probes.as_deref().unwrap_or_default()) };
    Ok((text, code))
}

fn hosts(hostfile: Option<&Hostfile>, environment: &Environment) -> Vec<String> {
    let of_batch = match &environment.batch {
        Some(Batch::Pbs(Ok(hostfile))) => Some(hostfile),
        _ => None,
    };
    hostfile.or(of_batch).map_or(&[][..], Hostfile::hosts).iter().map(|host| host.name.clone()).collect()
}

/// Runs armature-probe with each launcher of this machine. Returns the reports of all started ranks, and appends the messages of failed starts to
/// `failures`.
fn start_probes(
    args: &Doctor,
    environment: &Environment,
    ranks: usize,
    failures: &mut Vec<String>,
) -> Result<Vec<Probe>, LaunchError> {
    let bundled =
        std::env::current_exe().ok().map(|this| this.with_file_name(PROBE)).filter(|file| file.is_file());
    let probe = bundled.map_or_else(|| detect::program(PROBE, &search_path()), Ok)?;
    let in_slurm = matches!(environment.batch, Some(Batch::Slurm { .. })) && environment.srun.is_some();
    let mpi = detect::mpi_of(&probe, environment)?;
    let has_mpirun = match mpi {
        crate::Mpi::OpenMpi => environment.openmpi.is_some(),
        crate::Mpi::Mpich => environment.mpich.is_some(),
    };
    let mut launchers = Vec::new();
    launchers.extend(in_slurm.then_some(Launcher::Srun));
    launchers.extend(has_mpirun.then_some(Launcher::Mpirun));
    launchers.retain(|launcher| args.launcher.is_none_or(|only| only == *launcher || only == Launcher::Auto));
    if launchers.is_empty() {
        return Err(LaunchError::NoLauncher(Some(mpi)));
    }
    let mut probes = Vec::new();
    for launcher in launchers {
        match probe::start(launcher, ranks, args.hostfile.as_deref(), &probe) {
            Ok(reports) => probes.extend(reports),
            Err(reason) => failures.push(reason),
        }
    }
    Ok(probes)
}

fn table(findings: &[(&str, Finding)], probes: &[Probe]) -> String {
    let width = findings.iter().map(|(id, _)| id.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (id, finding) in findings {
        let _ =
            writeln!(text, "{:<7}  {id:<width$}  {}", finding.word(), armature_text::line(finding.found()));
        if let Some(remedy) = finding.remedy() {
            let _ = writeln!(text, "{:<7}  {:<width$}  try: {}", "", "", armature_text::line(remedy));
        }
    }
    if !probes.is_empty() {
        text += "\nlauncher  ranks  of  host              threads  memory [MiB]  level         start [s]\n";
    }
    let mut rest = probes;
    while let Some(first) = rest.first() {
        let is_alike = |other: &&Probe| {
            (&other.launcher, other.size, &other.host) == (&first.launcher, first.size, &first.host)
                && other.cores.len() == first.cores.len()
        };
        let count = rest.iter().take_while(is_alike).count();
        let _ = writeln!(
            text,
            "{:<8}  {count:>5}  {:>2}  {:<16}  {:>7}  {:>12}  {:<12}  {:>9.2}",
            first.launcher,
            first.size,
            armature_text::line(&first.host),
            first.cores.len(),
            first.memory >> 20,
            first.threads,
            first.start
        );
        rest = &rest[count..];
    }
    let count = |word: &str| findings.iter().filter(|(_, finding)| finding.word() == word).count();
    let _ = writeln!(
        text,
        "\n{} ok, {} warn, {} fail, {} skipped; armature doctor --explain ID tells more about a check",
        count("ok"),
        count("warn"),
        count("fail"),
        count("skipped")
    );
    text
}

fn as_json(findings: &[(&str, Finding)]) -> String {
    let row = |(id, finding): &(&str, Finding)| json!({ "id": id, "result": finding.word(), "found": finding.found(), "remedy": finding.remedy() });
    format!("{:#}\n", json!({ "schema": 1, "checks": findings.iter().map(row).collect::<Vec<_>>() }))
}
