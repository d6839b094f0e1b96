//! Tests of the `mandelbrot` command on threads and under mpirun.

use armature_tests::mpirun::Job;
use armature_tests::program::{closed_pipe, fails, succeeds};
use std::fs;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_mandelbrot");
const SMALL: &[&str] = &["--size", "90x60", "--iterations", "300"];

fn mandelbrot(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(directory).args(SMALL).args(arguments);
    command
}

fn messages_of_success(directory: &Path, arguments: &[&str]) -> String {
    succeeds(&mut mandelbrot(directory, arguments)).messages
}

fn messages_of_failure(directory: &Path, arguments: &[&str]) -> String {
    fails(&mut mandelbrot(directory, arguments))
}

#[test]
fn picture_is_equal_for_any_rank_count_and_chunking() {
    let dir = tempfile::tempdir().unwrap();
    let messages = messages_of_success(dir.path(), &["-o", "one.png", "--check"]);
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
        let messages = messages_of_success(dir.path(), &[more, &["-o", "more.png", "--check"]].concat());
        assert!(messages.contains("the same bytes"), "{more:?}: {messages}");
        assert!(fs::read(dir.path().join("more.png")).unwrap() == one, "{more:?}: another picture");
        assert_eq!(more.contains(&"--summary"), messages.contains("farm rows: 60 tasks"), "{messages}");
    }
}

#[test]
fn different_views_and_colours_give_different_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let deep = ["--center=-0.743643887,0.131825904", "--zoom", "2000"];
    let mut seen = Vec::new();
    for more in [&[][..], &["--palette", "fire"], &["--palette", "grey"], &deep, &["--samples", "1"]] {
        messages_of_success(dir.path(), &[more, &["--ranks", "2", "-o", "p.png"]].concat());
        let picture = image::open(dir.path().join("p.png")).unwrap().into_rgb8();
        assert_eq!(picture.dimensions(), (90, 60));
        assert!(!seen.contains(&picture), "{more:?}");
        seen.push(picture);
    }
}

#[test]
fn rows_in_the_journal_are_not_recomputed() {
    let dir = tempfile::tempdir().unwrap();
    let journal_options = ["--ranks", "2", "--journal", "rows.journal", "--summary"];
    let first = messages_of_success(dir.path(), &[&journal_options[..], &["-o", "first.png"]].concat());
    assert!(!first.contains("restored from the journal"), "{first}");
    let whole = fs::metadata(dir.path().join("rows.journal")).unwrap().len();
    let journal = fs::OpenOptions::new().write(true).open(dir.path().join("rows.journal")).unwrap();
    journal.set_len(whole / 2).unwrap();
    let again =
        messages_of_success(dir.path(), &[&journal_options[..], &["-o", "again.png", "--check"]].concat());
    let known = again.lines().find_map(|line| line.strip_suffix(" restored from the journal"));
    let known: u32 = known.expect(&again).parse().unwrap();
    assert!((25..=30).contains(&known), "{again}");
    assert!(again.contains("no complete record at byte") && again.contains("the same bytes"), "{again}");
    assert_eq!(fs::metadata(dir.path().join("rows.journal")).unwrap().len(), whole);
    assert!(
        fs::read(dir.path().join("again.png")).unwrap() == fs::read(dir.path().join("first.png")).unwrap()
    );
    let refused = messages_of_failure(
        dir.path(),
        &[&journal_options[..], &["--zoom", "2", "-o", "other.png"]].concat(),
    );
    assert!(refused.contains("rows.journal: it belongs to another job"), "{refused}");
    let view = r#"{"width":90,"height":60,"center":[-0.7,0.0],"zoom":2.0}"#;
    assert!(refused.contains(&format!(r#"{{"view":{view},"limit":300,"#)), "{refused}");
    assert!(!dir.path().join("other.png").exists());
}

#[test]
fn closed_standard_error_is_not_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    succeeds(mandelbrot(dir.path(), &["--ranks", "2", "--summary"]).stderr(closed_pipe()));
}

#[test]
fn errors_name_the_problem_and_its_place() {
    let dir = tempfile::tempdir().unwrap();
    assert!(
        messages_of_failure(dir.path(), &["-o", "no/such/place.png"])
            .contains("cannot write no/such/place.png")
    );
    assert!(messages_of_failure(dir.path(), &["--zoom", "1e15"]).contains("beyond double precision"));
    assert!(messages_of_failure(dir.path(), &["--center", "0.3"]).contains("expected two numbers"));
    assert!(messages_of_failure(dir.path(), &["--chunking", "chunky"]).contains("awf-b"));
    assert!(messages_of_failure(dir.path(), &["--ranks", "0"]).contains("1..=4096"));
    assert!(messages_of_failure(dir.path(), &["-o", "."]).contains("cannot write .: "));
    let journal = messages_of_failure(dir.path(), &["--journal", "/dev/null"]);
    assert!(
        journal.contains("journal /dev/null: is a character device, expected a regular file"),
        "{journal}"
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "a failed run leaves no output");
}

#[test]
fn picture_is_written_through_links_and_to_devices() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    messages_of_success(dir.path(), &["-o", "one.png"]);
    let one = fs::read(path("one.png")).unwrap();
    fs::create_dir(path("elsewhere")).unwrap();
    for (link, target) in [
        ("null", "/dev/null"),
        ("stdout", "/dev/stdout"),
        ("link", "elsewhere/old"),
        ("dangling", "elsewhere/new"),
    ] {
        std::os::unix::fs::symlink(target, path(link)).unwrap();
    }
    fs::write(path("elsewhere/old"), "old").unwrap();
    assert!(Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
    for name in ["null", "link", "dangling"] {
        messages_of_success(dir.path(), &["-o", name, "--ranks", "2"]);
        assert!(path(name).is_symlink(), "{name}");
    }
    assert!(
        fs::read(path("elsewhere/old")).unwrap() == one && fs::read(path("elsewhere/new")).unwrap() == one
    );
    let reader = std::thread::spawn({
        let fifo = path("fifo");
        move || fs::read(fifo).unwrap()
    });
    messages_of_success(dir.path(), &["-o", "fifo"]);
    assert!(reader.join().unwrap() == one);
    assert!(!path("fifo").is_file());
    let output = mandelbrot(dir.path(), &["-o", "stdout"]).output().unwrap();
    assert!(output.status.success() && output.stdout == one);
    fs::write(path("log"), "before").unwrap();
    let log = fs::OpenOptions::new().append(true).open(path("log")).unwrap();
    assert!(mandelbrot(dir.path(), &["-o", "/dev/stdout"]).stdout(log).status().unwrap().success());
    assert!(fs::read(path("log")).unwrap() == [b"before", &one[..]].concat());
    assert_eq!(fs::read_dir(path("elsewhere")).unwrap().count(), 2, "nothing else is left there");
}

#[test]
fn options_without_effect_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let messages = messages_of_success(dir.path(), &["--dedicated-master", "--request-ahead", "2"]);
    for option in ["--dedicated-master", "--request-ahead"] {
        assert!(messages.contains(&format!("{option} has no effect: there is only one rank")), "{messages}");
    }
    assert!(
        !messages_of_success(dir.path(), &["--dedicated-master", "--ranks", "2"]).contains("has no effect")
    );
}

#[test]
fn picture_is_equal_under_mpirun() {
    let dir = tempfile::tempdir().unwrap();
    messages_of_success(dir.path(), &["-o", "one.png"]);
    let one = fs::read(dir.path().join("one.png")).unwrap();
    for ranks in [2, 3] {
        let path = dir.path().join("ranks.png");
        let job = SMALL.iter().fold(Job::new(PROGRAM, ranks), |job, word| job.arg(*word));
        let outcome = job.arg("--check").arg("-o").arg(&path).succeeds();
        assert!(outcome.stderr.contains("the same bytes as the picture of one rank"), "{outcome}");
        assert!(fs::read(&path).unwrap() == one, "{ranks} ranks draw another picture");
    }
}
