//! Experiment on the time of a workflow of commands with armature, Makeflow, Snakemake and Dask, each on two cores, from the command line to the end.
//!
//! The workflow has 200 tasks with the edges of a Montage workflow. Each task concatenates its inputs, counts for some milliseconds in awk, and
//! writes a file. Most of the measured time is start-up and the time between tasks.
//!
//! *armature* is `armature workflow run -n 2`, with two ranks of one core each. The reference is `make -j 2`, which keeps no record, does not manage
//! the resources of tasks, and starts within milliseconds, so that its time is about the time of the tasks themselves.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use armature_papers::workflow::generate::Family;

use crate::{
    Experiment, Report, RunResult, Table, Target, TargetedValue,
    experiments::peers,
    pairs::{Contestant, Rounds, round_robin},
    ranks::finish,
    stats::{median, median_interval},
    verdict::Interval,
    workflows::steps::{self, Steps},
};

pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "workflow-peers",
    about: "a workflow of commands by armature, Makeflow, Snakemake and Dask on two cores, start included",
    needs: "mpirun of Open MPI, makeflow, make, armature and armature-workflow beside this binary, peers in Python (ci/bench.sh installs \
            and builds them)",
    run,
};

const CORES: &str = "2";
const LIMIT: Duration = Duration::from_secs(300);
/// Mean number of iterations of a task's awk loop, which take about five milliseconds.
const COUNT: f64 = 100_000.0;
const ARMATURE: &str = "armature";
const MAKE: &str = "make";

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let rounds = report.rounds(20);
    let folder = std::path::absolute("target/bench/workflow-peers")?;
    // Outputs of an earlier run are removed, because workflow systems do not repeat tasks whose output files exist.
    let _ = std::fs::remove_dir_all(&folder);
    let workflow = Family::Montage.build(if smoke { 40 } else { 200 }, 1)?;
    compare(report, &Steps::that_count(&workflow, COUNT), &folder, rounds)
}

fn compare(report: &mut Report, steps: &Steps, folder: &Path, rounds: usize) -> RunResult {
    steps.write(folder)?;
    let contestant = |name: &str, command: Command| timed(name, command, steps, folder);
    let this = std::env::current_exe()?;
    let armature = |arguments: &[&str]| -> RunResult<Command> {
        let program = this.with_file_name("armature");
        if !program.is_file() || !this.with_file_name("armature-workflow").is_file() {
            return Err(format!(
                "expected armature and armature-workflow beside {}; ci/bench.sh builds them",
                this.display()
            )
            .into());
        }
        let mut command = Command::new(program);
        command.args(["workflow", "run"]).args(arguments);
        Ok(command)
    };
    if let Some((program, package)) = [("makeflow", "coop-computing-tools"), ("make", "make")]
        .into_iter()
        .find(|(program, _)| !peers::on_path(program))
    {
        return Err(format!("expected {program} on the path (Debian: {package})").into());
    }
    let mut makeflow = Command::new("makeflow");
    makeflow.args(["-T", "local", "-j", CORES, "--local-cores", CORES, steps::MAKEFLOW]);
    let mut snakemake = Command::new(peers::python(peers::WORKFLOWS, "snakemake", "Snakemake")?);
    snakemake.args(["--cores", CORES, "--scheduler", "greedy", "--quiet", "all", "--nolock"]);
    snakemake.args(["--snakefile", steps::SNAKEMAKE]);
    let mut dask = Command::new(peers::python(peers::WORKFLOWS, "python", "Dask")?);
    dask.arg(peers::folder().join("workflows/steps.py")).arg(CORES);
    let mut make = Command::new("make");
    make.args(["--silent", "-j", CORES, "-f", steps::MAKE]);
    let rounds = round_robin(
        rounds,
        vec![
            contestant(ARMATURE, armature(&["-n", CORES, steps::DAG])?),
            contestant("armature, one rank", armature(&["-n", "1", steps::DAG, "--cores", CORES])?),
            contestant("Makeflow", makeflow),
            contestant("Snakemake", snakemake),
            contestant("Dask", dask),
            contestant(MAKE, make),
        ],
    )?;
    write_table(report, steps, &rounds)
}

/// Returns a program to be compared, whose samples are the seconds for the whole workflow, without any outputs of earlier runs.
fn timed<'a>(name: &str, command: Command, steps: &'a Steps, folder: &'a Path) -> Contestant<'a> {
    let program = command.get_program().to_owned();
    let arguments: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    Contestant::new(name, move || {
        steps.remove_run_files(folder);
        let mut command = Command::new(&program);
        command.args(&arguments).current_dir(folder);
        command.stderr(Stdio::null());
        let start = Instant::now();
        finish(command, LIMIT)?;
        let seconds = start.elapsed().as_secs_f64();
        steps.check(folder)?;
        Ok(seconds)
    })
}

fn write_table(report: &mut Report, steps: &Steps, rounds: &Rounds) -> RunResult {
    let mut table = Table::new(&["", "median [s]", "low", "high", "of armature's time"]);
    let mut best: Option<(&str, f64)> = None;
    for (name, samples) in rounds.iter() {
        let seconds = median_interval(samples);
        let ratio = rounds.ratio(name, ARMATURE).map_or(Interval::exact(1.0), |ratio| ratio);
        table.row([
            name.into(),
            seconds.value.into(),
            seconds.low.into(),
            seconds.high.into(),
            ratio.value.into(),
        ]);
        let is_peer = !name.starts_with(ARMATURE) && name != MAKE;
        if is_peer && best.is_none_or(|(_, least)| median(samples) < least) {
            best = Some((name, median(samples)));
        }
    }
    report.note(format!("{} tasks", steps.len()));
    report.table("", &table)?;
    let Some((best, _)) = best else { return Err("no peer has run".into()) };
    if let Some(ratio) = rounds.ratio(best, ARMATURE) {
        report.mark(TargetedValue::new(
            &format!("against {best}"),
            ratio,
            "times as fast",
            Target::AtLeast(1.0),
        ));
    }
    Ok(())
}
