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
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = bench.join("../target/mpi4py/bin/python");
    if !python.is_file() {
        return Err(format!("expected mpi4py beside {}; ci/bench.sh installs it", python.display()).into());
    }
    let script = bench.join("peers/mpi4py/farm.py").display().to_string();
    let output = Launch::ranks(2).run_other(&python, &[script, chunk.to_string(), tasks.to_string()])?;
    let values = one(&output)?;
    values.get("tasks_per_s").copied().ok_or_else(|| "mpi4py printed no tasks_per_s".into())
}
