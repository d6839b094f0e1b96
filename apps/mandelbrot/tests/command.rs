//! The `mandelbrot` command as a user runs it: on threads and under mpirun.

use armature_tests::mpirun::Job;
use armature_tests::program::{fails, succeeds};
use std::fs;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mandelbrot");
/// A picture that takes a moment only.
const SMALL: &[&str] = &["--size", "90x60", "--iterations", "300"];

fn mandelbrot(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(directory).args(SMALL).args(arguments);
    command
}

fn good(directory: &Path, arguments: &[&str]) -> String {
    succeeds(&mut mandelbrot(directory, arguments)).messages
}

fn bad(directory: &Path, arguments: &[&str]) -> String {
    fails(&mut mandelbrot(directory, arguments))
}

#[test]
fn every_number_of_ranks_and_way_to_hand_out_draws_the_same_picture() {
    let dir = tempfile::tempdir().unwrap();
    let messages = good(dir.path(), &["-o", "one.png", "--check"]);
    assert!(messages.contains("90x60 pixels in") && messages.contains("the same bytes"), "{messages}");
    let one = fs::read(dir.path().join("one.png")).unwrap();
    for more in [
        &["--ranks", "2"][..],
        &["--ranks", "3", "--unordered", "--chunking", "ss"],
        &["--ranks", "3", "--dedicated-master", "--chunking", "static"],
        &["--ranks", "3", "--chunking", "7", "--request-ahead", "2"],
        &["--ranks", "4", "--chunking", "fac2", "--summary"],
        &["--loop"],
        &["--loop", "--ranks", "3"],
        &["--loop", "--ranks", "8"],
    ] {
        let messages = good(dir.path(), &[more, &["-o", "more.png", "--check"]].concat());
        assert!(messages.contains("the same bytes"), "{more:?}: {messages}");
        assert!(fs::read(dir.path().join("more.png")).unwrap() == one, "{more:?}: another picture");
        assert_eq!(more.contains(&"--summary"), messages.contains("farm rows: 60 tasks"), "{messages}");
    }
}

#[test]
fn other_views_and_colours_are_other_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let deep = ["--center=-0.743643887,0.131825904", "--zoom", "2000"];
    let mut seen = Vec::new();
    for more in [&[][..], &["--palette", "fire"], &["--palette", "grey"], &deep, &["--samples", "1"]] {
        good(dir.path(), &[more, &["--ranks", "2", "-o", "p.png"]].concat());
        let picture = image::open(dir.path().join("p.png")).unwrap().into_rgb8();
        assert_eq!(picture.dimensions(), (90, 60));
        assert!(!seen.contains(&picture), "{more:?}");
        seen.push(picture);
    }
}

#[test]
fn rows_in_the_journal_are_not_computed_again() {
    let dir = tempfile::tempdir().unwrap();
    let kept = ["--ranks", "2", "--journal", "rows.journal", "--summary"];
    let first = good(dir.path(), &[&kept[..], &["-o", "first.png"]].concat());
    assert!(!first.contains("known from the journal"), "{first}");
    let whole = fs::metadata(dir.path().join("rows.journal")).unwrap().len();
    // Half of it, as when the job was killed in the middle.
    let journal = fs::OpenOptions::new().write(true).open(dir.path().join("rows.journal")).unwrap();
    journal.set_len(whole / 2).unwrap();
    let again = good(dir.path(), &[&kept[..], &["-o", "again.png", "--check"]].concat());
    let known = again.lines().find_map(|line| line.strip_suffix(" were known from the journal"));
    let known: u32 = known.expect(&again).parse().unwrap();
    assert!((25..=30).contains(&known), "{again}");
    assert!(again.contains("no whole record at byte") && again.contains("the same bytes"), "{again}");
    assert_eq!(fs::metadata(dir.path().join("rows.journal")).unwrap().len(), whole);
    assert!(
        fs::read(dir.path().join("again.png")).unwrap() == fs::read(dir.path().join("first.png")).unwrap()
    );
    // Rows of another picture are not taken.
    let refused = bad(dir.path(), &[&kept[..], &["--zoom", "2", "-o", "other.png"]].concat());
    assert!(refused.contains("rows.journal: it belongs to another job"), "{refused}");
    assert!(refused.contains("90x60, center -0.7,0, zoom 2, 300 iterations"), "{refused}");
    assert!(!dir.path().join("other.png").exists());
}

#[test]
fn failures_say_what_and_where() {
    let dir = tempfile::tempdir().unwrap();
    assert!(bad(dir.path(), &["-o", "no/such/place.png"]).contains("cannot write no/such/place.png"));
    assert!(bad(dir.path(), &["--zoom", "1e15"]).contains("beyond double precision"));
    assert!(bad(dir.path(), &["--center", "0.3"]).contains("expected two numbers"));
    assert!(bad(dir.path(), &["--chunking", "chunky"]).contains("awf-b"));
    assert!(bad(dir.path(), &["--ranks", "0"]).contains("1..=4096"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a failed run leaves no output");
}

#[test]
fn under_mpirun_it_draws_the_same_picture() {
    let dir = tempfile::tempdir().unwrap();
    good(dir.path(), &["-o", "one.png"]);
    let one = fs::read(dir.path().join("one.png")).unwrap();
    for ranks in [2, 3] {
        let path = dir.path().join("ranks.png");
        let job = SMALL.iter().fold(Job::new(PROGRAM, ranks), |job, word| job.arg(*word));
        let outcome = job.arg("--check").arg("-o").arg(&path).succeeds();
        assert!(outcome.stderr.contains("the same bytes as the picture of one rank"), "{outcome}");
        assert!(fs::read(&path).unwrap() == one, "{ranks} ranks draw another picture");
    }
}
