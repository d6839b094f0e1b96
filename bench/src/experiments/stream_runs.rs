//! Runs of `rabin-karp` and `matmul-stream` as a user starts them, on real and on simulated ranks.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{
    RunResult,
    ranks::{Launch, SIMULATE, finish},
};

const LIMIT: Duration = Duration::from_secs(300);

/// Returns the path of the program `name`, which is in the folder of this binary.
///
/// # Errors
/// If the program has not been built.
pub(super) fn program(name: &str) -> RunResult<PathBuf> {
    let this = std::env::current_exe().map_err(|e| format!("cannot find this binary: {e}"))?;
    let program = this.with_file_name(name);
    match program.is_file() {
        true => Ok(program),
        false => Err(format!("expected {}; ci/bench.sh builds it", program.display()).into()),
    }
}

/// Creates the output folder of an experiment and returns its absolute path.
pub(super) fn folder(experiment: &str) -> RunResult<PathBuf> {
    let folder = Path::new("target/bench").join(experiment);
    fs::create_dir_all(&folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
    Ok(fs::canonicalize(folder)?)
}

/// Writes a mapping (assignment of stages to ranks) to a file in `folder` and returns the path of the file.
pub(super) fn mapping(folder: &Path, mapping: &str) -> RunResult<String> {
    let name: String = mapping.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let path = folder.join(format!("{name}.mapping"));
    fs::write(&path, mapping).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    Ok(path.display().to_string())
}

/// Runs the program `name` on real (not simulated) ranks and returns its standard output and standard error.
pub(super) fn real(name: &str, ranks: usize, arguments: &[String]) -> RunResult<String> {
    let launch = Launch { limit: LIMIT, ..Launch::ranks(ranks) };
    let script = ["-c", "exec \"$@\" 2>&1", "sh"].map(String::from);
    let all: Vec<String> =
        script.into_iter().chain([program(name)?.display().to_string()]).chain(arguments.to_vec()).collect();
    launch.run_other(Path::new("sh"), &all)
}

/// Runs the program `name` on simulated ranks, each on a host of 1 Gflop/s, and returns its standard output and standard error.
pub(super) fn simulated(name: &str, ranks: usize, arguments: &[String]) -> RunResult<String> {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh", SIMULATE, &ranks.to_string(), name]);
    command.args(arguments).env("RUST_LOG", "error");
    finish(command, LIMIT)
}

pub(super) fn number_before(text: &str, mark: &str) -> RunResult<f64> {
    let before = text.lines().rev().find_map(|line| line.split_once(mark)).map(|(before, _)| before);
    let number = before.and_then(|before| before.split_whitespace().next_back()?.parse().ok());
    number.ok_or_else(|| format!("expected a number before `{mark}` in:\n{text}").into())
}

/// Parses the seconds of a text search in the output of `rabin-karp`.
pub(super) fn seconds(output: &str) -> RunResult<f64> {
    let line = output.lines().rev().find_map(|line| line.split_once(" matches in "));
    let seconds = line.and_then(|(_, rest)| rest.trim().strip_suffix(" s")?.parse().ok());
    seconds.ok_or_else(|| format!("expected `N matches in S s` in:\n{output}").into())
}

/// Runs a command and returns its output. An exit code other than zero and a run longer than five minutes are errors.
pub(super) fn command<const N: usize>(arguments: [OsString; N]) -> RunResult<String> {
    let [program, arguments @ ..] = &arguments[..] else { return Err("no command".into()) };
    let mut command = Command::new(program);
    command.args(arguments);
    finish(command, LIMIT)
}
