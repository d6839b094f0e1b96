//! Programs written with other frameworks.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    Outcome, Report,
    ranks::{Launch, finish, one},
};

/// Builds the peers' program, which is not part of the workspace, and returns its path.
pub(super) fn build(report: &mut Report) -> Outcome<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("peers");
    report.note("building the peers (renoir, timely): some minutes the first time");
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--release", "--locked", "--quiet", "--manifest-path"])
        .arg(folder.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(folder.join("target"));
    finish(cargo, Duration::from_secs(30 * 60))?;
    Ok(folder.join("target/release/armature-bench-peers"))
}

/// Items per second of a peer, for items of a size, a batch, and a number of items.
pub(super) fn measure(program: &Path, peer: &str, numbers: [usize; 3]) -> Outcome<f64> {
    let mut command = Command::new(program);
    command.arg(peer).args(numbers.map(|number| number.to_string()));
    let values = one(&finish(command, Duration::from_secs(120))?)?;
    values.get("items_per_s").copied().ok_or_else(|| format!("{peer} printed no items_per_s").into())
}

/// Tasks per second through mpi4py.futures on two ranks, for so many tasks at a time.
pub(super) fn mpi4py(chunk: usize, tasks: usize) -> Outcome<f64> {
    python("farm.py", &[chunk.to_string(), tasks.to_string()], "tasks_per_s")
}

/// Seconds of a search through mpi4py.futures on two ranks: roots, depth and mean steps of the tree, the time of a step, and how many
/// nodes must be found.
pub(super) fn mpi4py_tree(tree: [u64; 3], seconds_per_step: f64, nodes: u64) -> Outcome<f64> {
    let mut words: Vec<String> = tree.iter().map(u64::to_string).collect();
    words.extend([seconds_per_step.to_string(), nodes.to_string()]);
    python("tree.py", &words, "seconds")
}

/// Runs a program of mpi4py on two ranks, and returns this value of its result.
fn python(program: &str, words: &[String], value: &str) -> Outcome<f64> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = bench.join("../target/mpi4py/bin/python");
    if !python.is_file() {
        return Err(format!("expected mpi4py beside {}; ci/bench.sh installs it", python.display()).into());
    }
    let script = bench.join("peers/mpi4py").join(program).display().to_string();
    let words: Vec<String> = std::iter::once(script).chain(words.iter().cloned()).collect();
    let values = one(&Launch::ranks(2).run_other(&python, &words)?)?;
    values.get(value).copied().ok_or_else(|| format!("{program} of mpi4py printed no {value}").into())
}
