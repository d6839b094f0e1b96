//! The `sor` command as a user runs it: on threads and under mpirun.

use armature_tests::mpirun::Job;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_sor");

fn sor(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

fn good(arguments: &[&str]) -> String {
    let output = sor(arguments);
    let messages = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {messages}");
    String::from_utf8(output.stdout).unwrap() + &messages
}

#[test]
fn every_number_of_ranks_makes_the_same_grid() {
    for more in [
        &[][..],
        &["--ranks", "2"],
        &["--ranks", "3", "--block", "7", "--summary"],
        &["--ranks", "2", "--shares", "3,1", "--balance", "off"],
        &["--ranks", "4", "--forced", "5"],
        &["--ranks", "8", "--size", "5x9"],
        &["--ranks", "2", "--size", "2"],
        &["--ranks", "2", "--sweeps", "0"],
    ] {
        let usual = [("--size", "70x50"), ("--sweeps", "60")];
        let usual = usual.into_iter().filter(|(name, _)| !more.contains(name)).flat_map(|(n, v)| [n, v]);
        let words: Vec<&str> = usual.chain(more.iter().copied()).chain(["--verify"]).collect();
        let text = good(&words);
        assert!(text.contains(" sweeps in ") && text.contains("the same bits as the serial loop"), "{text}");
        assert!(text.contains(" movements") || text.contains(" 1 movement"), "{text}");
        assert_eq!(more.contains(&"--summary"), text.contains("loop sor: 68 units, 60 passes"), "{text}");
        assert!(!more.contains(&"--forced") || !text.contains(" 0 rows moved in 0 movements"), "{text}");
    }
}

#[test]
fn failures_say_what_and_where() {
    for (arguments, expected) in [
        (&["--size", "many"][..], "expected N or ROWSxCOLUMNS"),
        (
            &["--ranks", "2", "--shares", "1"],
            "loop sor: shares of a loop must be one positive number for each of 2",
        ),
        (&["--ranks", "0"], "1..=4096"),
    ] {
        let output = sor(arguments);
        let messages = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && messages.contains(expected), "{arguments:?}: {messages}");
        assert!(!messages.contains("panicked"), "{messages}");
    }
}

#[test]
fn under_mpirun_it_makes_the_same_grid() {
    for ranks in [2, 3] {
        let words = ["--size", "120x90", "--sweeps", "100", "--forced", "3", "--verify"];
        let job = words.iter().fold(Job::new(PROGRAM, ranks), |job, word| job.arg(*word));
        let outcome = job.succeeds();
        assert!(outcome.stdout.contains("the same bits as the serial loop"), "{outcome}");
        assert!(!outcome.stdout.contains(" 0 rows moved"), "{outcome}");
    }
}

/// What users do when a job of theirs was ended: they start it again, maybe on other ranks.
#[test]
fn a_killed_job_goes_on_from_its_checkpoint_on_other_ranks() {
    let dir = tempfile::tempdir().unwrap();
    let kept = dir.path().join("kept");
    let job = |ranks, sweeps: &str| {
        let words = ["--size", "60x50", "--sweeps", sweeps, "--verify", "--checkpoint-every", "0"];
        let job = words.iter().fold(Job::new(PROGRAM, ranks), |job, word| job.arg(*word));
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
