//! Tests of the `sor` command on threads and under mpirun.

use armature_tests::loops::LoopProgram;
use armature_tests::mpirun::{Job, completed_passes};
use armature_tests::program::succeeds;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PROGRAM: LoopProgram = LoopProgram {
    name: "sor",
    path: env!("CARGO_BIN_EXE_sor"),
    default_options: &[("--size", "70x50"), ("--sweeps", "60")],
    expected_texts: &[" sweeps in "],
    summary: "4080 units in ",
};

#[test]
fn grid_is_equal_for_any_rank_count() {
    PROGRAM.matches_serial_loop(&[
        &[],
        &["--ranks", "2"],
        &["--ranks", "3", "--block", "7", "--summary"],
        &["--ranks", "2", "--shares", "3,1", "--balance", "off"],
        &["--ranks", "4", "--forced", "5"],
        &["--ranks", "8", "--size", "5x9"],
        &["--ranks", "2", "--size", "3"],
        &["--ranks", "2", "--sweeps", "1"],
    ]);
}

#[test]
fn closed_standard_output_is_not_a_failure() {
    PROGRAM.survives_closed_output();
}

#[test]
fn errors_name_the_problem_and_its_place() {
    PROGRAM.rejects(&[
        (&["--size", "many"], "expected N or ROWSxCOLUMNS"),
        (&["--size", "0"], "each at least 3 with its two fixed edges"),
        (&["--size", "2x2"], "each at least 3 with its two fixed edges"),
        (&["--sweeps", "0"], "0 is not in 1.."),
        (&["--block", "0"], "0 is not in 1.."),
        (&["--checkpoint-every", "5"], "--checkpoint <DIR>"),
    ]);
}

#[test]
fn grid_equals_the_serial_grid_under_mpirun() {
    PROGRAM.matches_serial_loop_under_mpirun(&["--size", "120x90", "--sweeps", "100", "--forced", "3"]);
}

fn checkpointed_job(dir: &Path, ranks: usize, sweeps: u64) -> Job {
    job_with_checkpoints(dir, ranks, sweeps, "0")
}

fn job_with_checkpoints(dir: &Path, ranks: usize, sweeps: u64, period: &str) -> Job {
    let sweeps = sweeps.to_string();
    let arguments = ["--size", "60x50", "--sweeps", &sweeps, "--verify", "--checkpoint-every", period];
    let job = arguments.iter().fold(Job::new(PROGRAM.path, ranks), |job, word| job.arg(*word));
    job.arg("--checkpoint").arg(dir)
}

const SWEEPS_FOR_MINUTES: u64 = 5_000_000;

/// Each kill of the job comes a little later after a checkpoint than the previous kill, so that the kills hit different steps of the checkpoint
/// protocol.
#[test]
fn repeatedly_killed_job_resumes_from_its_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("kept");
    for (round, ranks) in [2, 3, 1, 3, 2].into_iter().enumerate() {
        let running = checkpointed_job(&dir, ranks, SWEEPS_FOR_MINUTES).start();
        running.wait_for_checkpoint(&dir, completed_passes(&dir));
        std::thread::sleep(Duration::from_millis(7 * round as u64));
        running.kill();
    }
    let passes = completed_passes(&dir).unwrap();
    let outcome = checkpointed_job(&dir, 3, passes + 100).succeeds();
    assert!(outcome.stderr.contains(&format!("loop sor: resumes after {passes} passes")), "{outcome}");
    assert!(outcome.stdout.contains("the same bits as the serial loop"), "{outcome}");
    // The job keeps the last two checkpoints, and has removed other files of killed jobs.
    let names =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let data: Vec<String> = names.filter(|name| name.starts_with("pass-")).collect();
    assert_eq!(data.len(), 2, "{data:?}");
    let again = checkpointed_job(&dir, 3, 1).run();
    assert!(!again.status.success() && again.stderr.contains("but the run has only 1"), "{again}");
}

#[test]
fn second_job_with_the_same_checkpoint_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("kept");
    let first = checkpointed_job(&dir, 2, SWEEPS_FOR_MINUTES).start();
    first.wait_for_checkpoint(&dir, None);
    let second = checkpointed_job(&dir, 3, SWEEPS_FOR_MINUTES).limit(Duration::from_secs(60)).run();
    assert!(!second.status.success() && !second.hung, "{second}");
    let process = first.process(0).as_raw_nonzero();
    let text = format!(
        "the checkpoint in {}: process {process} (sor) uses it and has not released its lock within 10 s",
        dir.display()
    );
    assert!(second.stderr.contains(&text), "{second}");
    // The rejected second job does not disturb the first job, whose checkpoint another job can use when the first job has ended.
    first.wait_for_checkpoint(&dir, completed_passes(&dir));
    first.kill();
    let passes = completed_passes(&dir).unwrap();
    let outcome = checkpointed_job(&dir, 2, passes + 100).succeeds();
    assert!(outcome.stdout.contains("the same bits as the serial loop"), "{outcome}");
}

/// Parses the message of a stopped job: seconds until the stop, and number of sweeps in the checkpoint.
fn stopped(message: &str) -> (f64, u64) {
    let (_, message) =
        message.split_once("armature: stopped by the file ").expect("the job says that it stops");
    let (_, rest) = message.split_once(" after ").unwrap();
    let (seconds, kept) = rest.split_once(" s; ").unwrap();
    let (sweeps, _) = kept.split_once(" of 5,000,000 sweeps are in ").expect("the job says what is kept");
    (seconds.parse().unwrap(), sweeps.replace(',', "").parse().unwrap())
}

#[test]
fn job_stops_when_its_next_checkpoint_is_due() {
    let run = tempfile::tempdir().unwrap();
    let dir = run.path().join("kept");
    let job = job_with_checkpoints(&dir, 3, SWEEPS_FOR_MINUTES, "2");
    let running = job.env("ARMATURE_RUN", run.path().to_str().unwrap()).start();
    running.wait_for_checkpoint(&dir, None);
    let first = completed_passes(&dir).unwrap();
    std::fs::write(run.path().join("stop"), "armature stop --after-checkpoint\n").unwrap();
    let outcome = running.wait();
    assert_eq!(outcome.status.code(), Some(85), "{outcome}");
    let (seconds, sweeps) = stopped(&outcome.stderr);
    // The second checkpoint is due 2 s after the first one, which was due 2 s after the start of the loop.
    assert!(seconds >= 4.0 && sweeps > first, "{outcome}");
    assert_eq!(completed_passes(&dir), Some(sweeps));
}

/// A file in the place of the checkpoint directory makes writing fail, like a full disk.
#[test]
fn job_continues_without_a_checkpoint_that_cannot_be_written() {
    let run = tempfile::tempdir().unwrap();
    let [dir, hidden] = ["kept", "hidden"].map(|name| run.path().join(name));
    let job = job_with_checkpoints(&dir, 3, SWEEPS_FOR_MINUTES, "1");
    let running = job.env("ARMATURE_RUN", run.path().to_str().unwrap()).start();
    let hide_after = |passes| {
        running.wait_for_checkpoint(&dir, passes);
        // After 300 ms, the manifest of the checkpoint is synced, and the next checkpoint (due after 1 s) has not begun.
        std::thread::sleep(Duration::from_millis(300));
        std::fs::rename(&dir, &hidden).unwrap();
        std::fs::write(&dir, "").unwrap();
    };
    let restore = || {
        std::fs::remove_file(&dir).unwrap();
        std::fs::rename(&hidden, &dir).unwrap();
    };
    hide_after(None);
    std::thread::sleep(Duration::from_millis(2_500));
    let kept = completed_passes(&hidden);
    restore();
    // The directory is hidden again, and the job stops: its final checkpoint cannot be written.
    hide_after(kept);
    std::fs::write(run.path().join("stop"), "").unwrap();
    let outcome = running.wait();
    let kept = completed_passes(&hidden).unwrap();
    assert_eq!(outcome.status.code(), Some(85), "{outcome}");
    assert_eq!(stopped(&outcome.stderr).1, kept, "{outcome}");
    let warning = format!("the loop continues, and the checkpoint after {kept} passes stays valid");
    assert!(outcome.stderr.contains("cannot write ") && outcome.stderr.contains(&warning), "{outcome}");
}

/// An attacker with write access to the directory can predict file names, and create symbolic links with these names.
#[test]
fn planted_links_are_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    std::fs::write(path("victim"), "precious").unwrap();
    std::fs::create_dir_all(path("kept")).unwrap();
    std::os::unix::fs::symlink(path("victim"), path("kept/manifest.new")).unwrap();
    // The events of each attempt go to a new directory, so the link in the directory of attempt 1 is not opened.
    std::fs::create_dir_all(path("events/attempts/1")).unwrap();
    std::os::unix::fs::symlink(path("victim"), path("events/attempts/1/rank-0.jsonl")).unwrap();
    let outcome = checkpointed_job(&path("kept"), 2, 3000).arg("--events").arg(path("events")).succeeds();
    assert!(path("events/attempts/2/rank-0.jsonl").is_file(), "{outcome}");
    assert!(completed_passes(&path("kept")).is_some());
    assert_eq!(std::fs::read_to_string(path("victim")).unwrap(), "precious");
}

#[test]
fn settings_without_effect_are_reported_once() {
    let misspelt =
        "ARMATURE_RANK is set, but there is no such setting; it is ignored; did you mean ARMATURE_RANKS?";
    let mut command = Command::new(PROGRAM.path);
    let output =
        succeeds(command.args(["--size", "9"]).env("ARMATURE_RANK", "3").env("ARMATURE_CI_RUN", "x"));
    assert_eq!(output.messages.matches(misspelt).count(), 1, "{}", output.messages);
    assert_eq!(output.messages.matches("ARMATURE_").count(), 2, "{}", output.messages);
    let job = || Job::new(PROGRAM.path, 2).arg("--size").arg("9");
    let outcome = job().arg("--ranks").arg("4").env("ARMATURE_RANK", "3").succeeds();
    let asked = "--ranks, ARMATURE_RANKS or the program sets 4 ranks";
    for text in [misspelt, asked, "but the MPI launcher has started 2, which are used"] {
        assert_eq!(outcome.stderr.matches(text).count(), 1, "`{text}`: {outcome}");
    }
    let outcome = job().env("ARMATURE_RANKS", "2").succeeds();
    assert!(!outcome.stderr.contains("the program sets"), "{outcome}");
}
