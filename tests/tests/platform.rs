//! Speeds and memory in a hostfile or a platform file must reach the ranks, and the first distribution of work must follow them.

use std::path::Path;
use std::time::Duration;

use armature_tests::mpirun::{Job, JobResult};

const PROGRAM: &str = env!("CARGO_BIN_EXE_armature-platform");
const ARMATURE: &str = env!("CARGO_BIN_EXE_armature-run");

/// Runs `armature run OPTION FILE` with three ranks; the file has the text `text`.
fn start(option: &str, name: &str, text: &str) -> JobResult {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join(name);
    std::fs::write(&file, text).expect("a file");
    let path = |path: &Path| path.to_str().expect("a text").to_string();
    let launch = [ARMATURE, "run", option, &path(&file)];
    let outcome = Job::new(PROGRAM, 3).through(launch).limit(Duration::from_secs(60)).run();
    assert!(outcome.status.success() && !outcome.hung, "{outcome}");
    outcome
}

#[track_caller]
fn has_lines(outcome: &JobResult, lines: &[&str]) {
    for line in lines {
        assert!(outcome.stdout.lines().any(|printed| printed == *line), "`{line}` is not printed\n{outcome}");
    }
}

#[test]
fn first_distributions_follow_a_platform_file() {
    let text = "bandwidth = \"1 GB\"\n\n\
                [[processor]]\nname = \"slow\"\ncount = 2\nspeed = 1.0\nmemory = \"50 MB\"\n\n\
                [[processor]]\nname = \"fast\"\nspeed = 4.0\nmemory = \"1 GB\"\n";
    let outcome = start("--platform", "platform.toml", text);
    has_lines(&outcome, &["loop Some([10, 10, 40])", "farm [0, 8, 32]", "workflow [0, 0, 6]"]);
    has_lines(&outcome, &["pipeline Some(\"work@2\")"]);
}

#[test]
fn first_distributions_follow_the_columns_of_a_hostfile() {
    // All ranks are on this machine, which the file does not name, so that they get the speeds in their order.
    let outcome = start("--hostfile", "hosts", "localhost slots=3 speed=2.0 memory=390MB\n");
    has_lines(&outcome, &["loop Some([20, 20, 20])", "farm [0, 20, 20]"]);
    let file = "127.0.0.1 slots=1 speed=1.0 memory=50MB\nlocalhost slots=2 speed=2.0 memory=400MB\n";
    let outcome = start("--platform", "hosts", file);
    has_lines(&outcome, &["loop Some([12, 24, 24])"]);
    assert!(outcome.stdout.contains("workflow [0, "), "rank 0 has too little memory\n{outcome}");
}
