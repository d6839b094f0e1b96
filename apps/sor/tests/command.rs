//! The `sor` command as a user runs it: on threads and under mpirun.

use armature_tests::loops::LoopProgram;
use armature_tests::mpirun::Job;
use std::time::{Duration, Instant};

const PROGRAM: LoopProgram = LoopProgram {
    name: "sor",
    path: env!("CARGO_BIN_EXE_sor"),
    usual: &[("--size", "70x50"), ("--sweeps", "60")],
    says: &[" sweeps in "],
    summary: "68 units, 60 passes",
};

#[test]
fn every_number_of_ranks_makes_the_same_grid() {
    PROGRAM.agrees(&[
        &[],
        &["--ranks", "2"],
        &["--ranks", "3", "--block", "7", "--summary"],
        &["--ranks", "2", "--shares", "3,1", "--balance", "off"],
        &["--ranks", "4", "--forced", "5"],
        &["--ranks", "8", "--size", "5x9"],
        &["--ranks", "2", "--size", "2"],
        &["--ranks", "2", "--sweeps", "0"],
    ]);
}

#[test]
fn failures_say_what_and_where() {
    PROGRAM.refuses(&[(&["--size", "many"], "expected N or ROWSxCOLUMNS")]);
}

#[test]
fn under_mpirun_it_makes_the_same_grid() {
    PROGRAM.agrees_under_mpirun(&["--size", "120x90", "--sweeps", "100", "--forced", "3"]);
}

/// What users do when a job of theirs was ended: they start it again, maybe on other ranks.
#[test]
fn a_killed_job_goes_on_from_its_checkpoint_on_other_ranks() {
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    let job = |ranks, sweeps: &str| {
        let words = ["--size", "60x50", "--sweeps", sweeps, "--verify", "--checkpoint-every", "0"];
        let job = words.iter().fold(Job::new(PROGRAM.path, ranks), |job, word| job.arg(*word));
        job.arg("--checkpoint").arg(&kept)
    };
    // It would take minutes.
    let running = job(2, "5000000").start();
    let start = Instant::now();
    while !kept.join("manifest").exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "no checkpoint: {}", running.complaints());
        std::thread::sleep(Duration::from_millis(10));
    }
    // The one after that, too.
    std::thread::sleep(Duration::from_millis(300));
    running.kill();
    let passes = std::fs::read_dir(&kept).unwrap().filter_map(|entry| {
        entry.unwrap().file_name().to_str().and_then(|name| name.strip_prefix("pass-")?.parse::<u64>().ok())
    });
    // The last one may not be whole.
    let sweeps = passes.max().unwrap() + 100;
    let outcome = job(3, &sweeps.to_string()).succeeds();
    assert!(outcome.stderr.contains("loop sor: goes on after "), "{outcome}");
    assert!(outcome.stdout.contains("the same bits as the serial loop"), "{outcome}");
    let again = job(3, "1").run();
    assert!(!again.status.success() && again.stderr.contains("but only 1 are asked for"), "{again}");
}
