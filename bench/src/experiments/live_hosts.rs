//! Experiment on the image search Ferret on four unequal hosts: a fixed mapping with one rank per stage, against live balancing that starts with this
//! mapping.
//!
//! `ci/hosts` emulates the hosts on this machine: 50, 50, 25 and 12 % of a core, and links from 1 Gbit/s to 20 Mbit/s. Times are taken from the
//! summaries that the program prints, so they do not include the start of ranks over the emulated network.

use std::{
    cell::RefCell,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::ferret_runs::{Files, SERIAL};
use crate::{
    Bars, Experiment, Report, RunResult, Table, Target, TargetedValue,
    pairs::{Contestant, round_robin},
    ranks::finish,
    stats::median_interval,
    table::digits,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "live-hosts",
    about: "Ferret on four unequal hosts, starting with one rank per stage: live balancing against none",
    needs: "root, mpirun of Open MPI, network namespaces, ferret beside this binary (ci/bench.sh builds it)",
    run,
};

const STATIC: &str = "kept";
const LIVE: &str = "live";
const RANKS: &str = "4";
const ROUNDS: usize = 6;
const SCENES: usize = 700;
const LIMIT: Duration = Duration::from_secs(600);

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let files = Files::make("live-hosts", if smoke { 10 } else { SCENES })?;
    files.query(SERIAL, 1, "serial")?;
    let hosts = Hosts::up(files.folder())?;
    report.note(format!("{} queries", files.queries));
    let last = RefCell::new(String::new());
    let contestants = vec![
        Contestant::new(STATIC, || seconds(&hosts.query(&files, "kept.tsv", "off")?)),
        Contestant::new(LIVE, || {
            let summary = hosts.query(&files, "live.tsv", "live")?;
            *last.borrow_mut() = summary.clone();
            seconds(&summary)
        }),
    ];
    let rounds = round_robin(report.rounds(ROUNDS), contestants)?;
    drop(hosts);

    report.note("the last live run:");
    for line in last.borrow().lines() {
        report.note(format!("  {line}"));
    }
    let mut table = Table::new(&["run", "median [s]", "low", "high", "times as fast"]);
    for (name, samples) in rounds.iter() {
        let time = median_interval(samples);
        let ratio = rounds.ratio(STATIC, name).map(|ratio| digits(ratio.value, 3));
        table.row([name.into(), time.value.into(), time.low.into(), time.high.into(), ratio.into()]);
    }
    report.table("", &table)?;
    let mut bars = Bars::new(
        "Ferret on four unequal hosts, from one rank a stage (median, 95 % interval)",
        "time [s]",
        rounds.iter().map(|(name, _)| name),
    );
    bars.add("by the summary", rounds.iter().map(|(_, samples)| Some(median_interval(samples))).collect());
    report.bars("", &bars)?;
    if let Some(ratio) = rounds.ratio(STATIC, LIVE) {
        report.mark(TargetedValue::new("live against kept", ratio, "times as fast", Target::AtLeast(2.0)));
    }
    Ok(())
}

/// Parses the seconds of a run in the first line of the printed summary: `N items in S s, …`.
fn seconds(summary: &str) -> RunResult<f64> {
    let found = summary.lines().find_map(|line| {
        let (_, rest) = line.split_once(" items in ")?;
        rest.split_once(" s,")?.0.parse().ok()
    });
    found.ok_or_else(|| format!("expected a summary with its time, got:\n{summary}").into())
}

/// Emulated hosts, which are removed when this value is dropped. A later run removes the hosts of a killed run.
struct Hosts {
    scripts: PathBuf,
    folder: PathBuf,
}

impl Hosts {
    fn up(folder: &Path) -> RunResult<Self> {
        let folder = folder.canonicalize()?;
        let hosts = Hosts { scripts: Path::new(env!("CARGO_MANIFEST_DIR")).join("../ci/hosts"), folder };
        hosts.script("up.sh", &[])?;
        Ok(hosts)
    }

    /// Runs a script of `ci/hosts` and returns its standard error.
    fn script(&self, name: &str, arguments: &[String]) -> RunResult<String> {
        let messages = self.folder.join("messages.txt");
        let mut command = Command::new(self.scripts.join(name));
        command.args(arguments).stderr(File::create(&messages)?);
        command.env("HOSTS_PREFIX", "bench-").env("HOSTS_DIR", self.folder.join("hosts"));
        command.env("HOSTS", "h1:50:1gbit h2:50:1gbit h3:25:100mbit h4:12:20mbit").env("RUST_LOG", "warn");
        let result = finish(command, LIMIT);
        let messages = fs::read_to_string(&messages).unwrap_or_default();
        result.map_err(|e| format!("{e}\n{messages}"))?;
        Ok(messages)
    }

    fn query(&self, files: &Files, out: &str, balance: &str) -> RunResult<String> {
        let mut arguments = vec!["-n".into(), RANKS.into(), files.ferret()];
        arguments.extend(files.arguments("images/queries", out, "orderly"));
        arguments.extend(["--balance", balance, "--summary"].map(String::from));
        let summary = self.script("run.sh", &arguments)?;
        files.check(out)?;
        Ok(summary)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if let Err(error) = self.script("down.sh", &[]) {
            eprintln!("the hosts could not be taken down: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn elapsed_time_is_parsed_from_the_summary() {
        let text = "skipped x: 3 s\n100 items in 12.345 s, 8.1 items/s\nmapping load@0";
        assert_eq!(super::seconds(text).unwrap(), 12.345);
        assert!(super::seconds("100 queries answered").is_err());
    }
}
