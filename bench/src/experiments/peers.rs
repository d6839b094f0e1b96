//! Runs of benchmark programs that are written with other frameworks (peers).

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    Report, RunResult,
    ranks::{Launch, finish, one},
};

/// Builds the benchmark program for the frameworks renoir and timely, which is outside of the cargo workspace, and returns its path.
pub(super) fn build(report: &mut Report) -> RunResult<PathBuf> {
    let folder = folder();
    report.note("building the peers (renoir, timely): some minutes the first time");
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--release", "--locked", "--quiet", "--manifest-path"])
        .arg(folder.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(folder.join("target"));
    finish(cargo, Duration::from_secs(30 * 60))?;
    Ok(folder.join("target/release/armature-bench-peers"))
}

/// Runs `program` with the framework `peer` and returns the items per second. `numbers` are the item size, the batch size and the number of items.
pub(super) fn measure(program: &Path, peer: &str, numbers: [usize; 3]) -> RunResult<f64> {
    let mut command = Command::new(program);
    command.arg(peer).args(numbers.map(|number| number.to_string()));
    let values = one(&finish(command, Duration::from_secs(120))?)?;
    values.get("items_per_s").copied().ok_or_else(|| format!("{peer} printed no items_per_s").into())
}

pub(super) fn mpi4py(chunk: usize, tasks: usize) -> RunResult<f64> {
    by_mpi4py("farm.py", &[chunk.to_string(), tasks.to_string()], "tasks_per_s")
}

/// Returns the seconds of a tree search with mpi4py.futures on two ranks. `tree` has the number of roots, the depth, and the mean number of steps of
/// a node; `nodes` is the expected number of nodes.
pub(super) fn mpi4py_tree(tree: [u64; 3], seconds_per_step: f64, nodes: u64) -> RunResult<f64> {
    let mut arguments: Vec<String> = tree.iter().map(u64::to_string).collect();
    arguments.extend([seconds_per_step.to_string(), nodes.to_string()]);
    by_mpi4py("tree.py", &arguments, "seconds")
}

/// Runs a Python program with mpi4py on two ranks, and returns the number that it prints under the name `value`.
fn by_mpi4py(program: &str, arguments: &[String], value: &str) -> RunResult<f64> {
    let python = python("mpi4py", "python", "mpi4py")?;
    let script = folder().join("mpi4py").join(program).display().to_string();
    let arguments: Vec<String> = std::iter::once(script).chain(arguments.iter().cloned()).collect();
    let values = one(&Launch::ranks(2).run_other(&python, &arguments)?)?;
    values.get(value).copied().ok_or_else(|| format!("{program} of mpi4py printed no {value}").into())
}

pub(super) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers")
}

/// Name of the Python environment with the workflow systems Dask and Snakemake.
pub(super) const WORKFLOWS: &str = "workflow-peers";

/// Returns the path of the program `name` in a Python environment that `ci/bench.sh` creates under `target`. `what` names the required packages in
/// the error message.
pub(super) fn python(environment: &str, name: &str, what: &str) -> RunResult<PathBuf> {
    let program = folder().join("../../target").join(environment).join("bin").join(name);
    if program.is_file() {
        return Ok(program);
    }
    Err(format!("expected {what} beside {}; ci/bench.sh installs it", program.display()).into())
}

pub(super) fn on_path(name: &str) -> bool {
    let places = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&places).any(|place| place.join(name).is_file())
}
