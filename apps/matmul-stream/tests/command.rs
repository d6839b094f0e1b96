//! Tests of the `matmul-stream` command on threads and under mpirun.

use armature_tests::mpirun::{Job, kill_and_restart};
use armature_tests::program::{fails, succeeds, survives_closed_output};
use std::fs;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_matmul-stream");
const EQUAL_RESULT: &str = "the same bits as the serial loop";

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(directory).args(arguments);
    command
}

fn output_of_success(directory: &Path, arguments: &[&str]) -> String {
    succeeds(&mut command(directory, arguments)).printed
}

fn checksum(printed: &str) -> &str {
    let (_, sum) = printed.rsplit_once("checksum ").unwrap_or_else(|| panic!("no checksum in {printed}"));
    &sum[..16]
}

#[test]
fn product_is_equal_for_any_rank_count_and_item_kind() {
    let dir = tempfile::tempdir().unwrap();
    let shape = ["--shape", "37x29x41", "--verify"];
    let one = output_of_success(dir.path(), &shape);
    for more in [
        &["--ranks", "2"][..],
        &["--ranks", "3", "--item", "row"],
        &["--ranks", "4", "--block", "8", "--mapping", "orderly"],
        &["--ranks", "2", "--block", "7", "--balance", "live"],
        &["--block", "1000"],
    ] {
        let printed = output_of_success(dir.path(), &[&shape[..], more].concat());
        assert!(
            printed.contains(EQUAL_RESULT) && checksum(&printed) == checksum(&one),
            "{more:?}: {printed}"
        );
    }
    let output =
        succeeds(&mut command(dir.path(), &["--size", "50", "--block", "20", "--ranks", "2", "--summary"]));
    assert!(output.messages.contains("pipeline matmul-stream: 9 items"), "{}", output.messages);
}

#[test]
fn matrix_files_are_multiplied_into_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, values: &[f32]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        fs::write(dir.path().join(name), bytes).unwrap();
    };
    write("a", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    write("b", &[1.0, 0.5, 2.0, -1.0, 3.0, 4.0]);
    let files = ["--shape", "2x3x2", "--a", "a", "--b", "b", "--verify", "-o", "c"];
    for more in [&[][..], &["--ranks", "3", "--item", "row"], &["--ranks", "2", "--block", "1"]] {
        assert!(output_of_success(dir.path(), &[&files[..], more].concat()).contains(EQUAL_RESULT));
        let bytes = fs::read(dir.path().join("c")).unwrap();
        let c: Vec<f32> = bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
        assert_eq!(c, [14.0, 10.5, 32.0, 21.0], "{more:?}");
    }
    let again = ["--shape", "2x2x2", "--a", "c", "--b", "c", "--verify", "--ranks", "2"];
    assert!(output_of_success(dir.path(), &again).contains(EQUAL_RESULT));
}

#[test]
fn matrices_larger_than_the_memory_are_multiplied() {
    let dir = tempfile::tempdir().unwrap();
    // Matrix A has 1.2 GB, and the memory limit is 0.8 GB (`ulimit -v` takes kB). The files are sparse and take no disk space.
    for (name, elements) in [("a", 60_000 * 5_000), ("b", 5_000 * 2)] {
        fs::File::create(dir.path().join(name)).unwrap().set_len(elements * 4).unwrap();
    }
    let arguments = "--shape 60000x5000x2 --a a --b b --block 64 -o c --ranks 2";
    let line = format!("ulimit -v 800000; exec {PROGRAM} {arguments}");
    let mut shell = Command::new("sh");
    succeeds(shell.args(["-c", &line]).current_dir(dir.path()));
    assert_eq!(fs::metadata(dir.path().join("c")).unwrap().len(), 60_000 * 2 * 4);
}

#[test]
fn closed_standard_output_is_not_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    survives_closed_output(|| {
        command(dir.path(), &["--size", "40", "--ranks", "2", "--verify", "--summary"])
    });
}

#[test]
fn errors_name_the_problem_and_its_place() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("short"), [0; 24]).unwrap();
    for (arguments, expected) in [
        (&["--size", "0"][..], "1..=16777216"),
        (&["--shape", "3"], "expected three numbers"),
        (&["--a", "nothing"], "cannot read nothing"),
        (&["--size", "3", "--b", "short"], "short has 24 bytes, expected 36"),
        (&["--size", "3", "--a", "/dev/zero"], "expected a regular file"),
        (&["--size", "3", "-o", "no/such/place"], "cannot write no/such/place"),
        (&["--ranks", "0"], "1..=4096"),
    ] {
        let messages = fails(&mut command(dir.path(), arguments));
        assert!(messages.contains(expected), "{arguments:?}: {messages}");
    }
}

#[test]
fn product_equals_the_serial_product_under_mpirun() {
    let dir = tempfile::tempdir().unwrap();
    let one = output_of_success(dir.path(), &["--size", "90"]);
    for (ranks, item) in [(2, "row"), (3, "block")] {
        let arguments = ["--size", "90", "--block", "16", "--item", item, "--verify"];
        let outcome =
            arguments.into_iter().fold(Job::new(PROGRAM, ranks), |job, word| job.arg(word)).succeeds();
        assert!(
            outcome.stdout.contains(EQUAL_RESULT) && checksum(&outcome.stdout) == checksum(&one),
            "{outcome}"
        );
    }
}

#[test]
fn killed_product_is_written_once() {
    let dir = tempfile::tempdir().unwrap();
    let product = ["--shape", "900x300x901", "--item", "row"];
    let one = output_of_success(dir.path(), &[&product[..], &["-o", "expected"]].concat());
    let path = |name: &str| dir.path().join(name);
    for (kept, output) in [("with file", Some("c")), ("checksum", None)] {
        let kept = path(kept);
        let job = |ranks| {
            let job = Job::new(PROGRAM, ranks).env("ARMATURE_WINDOW", "8");
            let job = product.into_iter().fold(job, |job, word| job.arg(word));
            let job = output.into_iter().fold(job, |job, file| job.arg("-o").arg(path(file)));
            job.arg("--snapshots").arg(&kept).arg("--snapshot-every").arg("0.02")
        };
        let outcome = kill_and_restart(job, &kept, &[2, 3, 1, 2]);
        assert!(outcome.stderr.contains("resumes after "), "{outcome}");
        assert_eq!(checksum(&outcome.stdout), checksum(&one), "{outcome}");
        if let Some(file) = output {
            assert!(fs::read(path(file)).unwrap() == fs::read(path("expected")).unwrap(), "{outcome}");
        }
        assert_eq!(checksum(&job(3).succeeds().stdout), checksum(&one));
    }
}
