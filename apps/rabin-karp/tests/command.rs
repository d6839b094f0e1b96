//! Tests of the `rabin-karp` command on threads and under mpirun.

use armature_tests::mpirun::{Job, kill_and_restart};
use armature_tests::program::{fails, succeeds, survives_closed_output};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_rabin-karp");

fn command(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(directory).args(arguments);
    command
}

fn output_of_success(directory: &Path, arguments: &[&str]) -> String {
    succeeds(&mut command(directory, arguments)).printed
}

fn messages_of_failure(directory: &Path, arguments: &[&str]) -> String {
    fails(&mut command(directory, arguments))
}

fn texts() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("texts/below")).unwrap();
    for (name, text) in [
        ("texts/below/abra", &b"abracadabra"[..]),
        ("texts/bytes", b"\0abra\xff\xffabrabra"),
        ("texts/none", b""),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

const MATCHES: &str = "texts/below/abra\t0\tabra
texts/below/abra\t1\tbra
texts/below/abra\t7\tabra
texts/below/abra\t8\tbra
texts/bytes\t1\tabra
texts/bytes\t2\tbra
texts/bytes\t7\tabra
texts/bytes\t8\tbra
texts/bytes\t10\tabra
texts/bytes\t11\tbra
";

#[test]
fn matches_are_equal_for_any_rank_count_segment_and_hash() {
    let dir = texts();
    fs::write(dir.path().join("words"), "abra\nbra\n").unwrap();
    for more in [
        &["abra", "bra", "texts"][..],
        &["--patterns", "words", "texts", "--ranks", "2"],
        &["bra", "abra", "abra", "texts", "--patterns", "words", "--segment", "1", "--ranks", "3"],
        &[
            "abra",
            "bra",
            "texts",
            "--hash-bits",
            "1",
            "--segment",
            "5",
            "--ranks",
            "4",
            "--mapping",
            "orderly",
        ],
        &["abra", "bra", "texts", "--ranks", "2", "--balance", "live", "--segment", "2"],
        &["abra", "bra", "texts", "--ranks", "3", "--shared", "--segment", "2"],
    ] {
        assert_eq!(output_of_success(dir.path(), more), MATCHES, "{more:?}");
    }
    output_of_success(dir.path(), &["abra", "bra", "texts", "-o", "matches", "--ranks", "3"]);
    assert_eq!(fs::read_to_string(dir.path().join("matches")).unwrap(), MATCHES);
}

#[test]
fn matches_and_counts_are_printed_as_tsv_and_json() {
    let dir = texts();
    let counts = output_of_success(dir.path(), &["abra", "bra", "texts", "--count"]);
    assert_eq!(counts, "texts/below/abra\t4\ntexts/bytes\t6\ntexts/none\t0\n");
    let counts = output_of_success(dir.path(), &["abra", "texts/bytes", "--count", "--format", "json"]);
    assert_eq!(counts, "{\"file\":\"texts/bytes\",\"count\":3}\n");
    let lines = output_of_success(
        dir.path(),
        &["ra\"", "texts/below/abra", "cad", "texts/bytes", "--format", "json"],
    );
    assert_eq!(lines, "");
    let lines = output_of_success(dir.path(), &["dab", "texts/below/abra", "--format", "json"]);
    assert_eq!(lines, "{\"file\":\"texts/below/abra\",\"offset\":6,\"pattern\":\"dab\"}\n");
}

#[test]
fn json_round_trips_special_names_and_patterns() {
    let dir = tempfile::tempdir().unwrap();
    let name = "back\\slash\ttab\nline";
    fs::write(dir.path().join(name), "a\tb").unwrap();
    let of = |more: &[&str]| -> serde_json::Value {
        serde_json::from_str(&output_of_success(
            dir.path(),
            &[&["\t", name, "--format", "json"], more].concat(),
        ))
        .unwrap()
    };
    assert_eq!(of(&[]), serde_json::json!({ "file": name, "offset": 1, "pattern": "\t" }));
    assert_eq!(of(&["--count", "--ranks", "2"]), serde_json::json!({ "file": name, "count": 1 }));
    assert_eq!(output_of_success(dir.path(), &["\t", name]), "back\\\\slash\\ttab\\nline\t1\t\\t\n");
}

#[test]
fn standard_input_is_searched() {
    let dir = texts();
    let mut command = command(dir.path(), &["abra", "-", "--ranks", "2", "--segment", "3"]);
    command.stdin(Stdio::from(fs::File::open(dir.path().join("texts/below/abra")).unwrap()));
    assert_eq!(succeeds(&mut command).printed, "-\t0\tabra\n-\t7\tabra\n");
}

#[test]
fn generated_text_is_searched_in_bounded_memory() {
    let dir = tempfile::tempdir().unwrap();
    // A copy of the text (640 MiB) in memory would exceed the limit (600,000 KiB).
    let line = format!("ulimit -v 600000; exec {PROGRAM} foobar --generate foobar:640M --count --ranks 2");
    let mut shell = Command::new("sh");
    shell.args(["-c", &line]).current_dir(dir.path());
    assert_eq!(succeeds(&mut shell).printed, format!("generated\t{}\n", (640 << 20) / 6));
    let both = ["oo", "x", "--generate", "foo:10", "--generate", "x:2", "--ranks", "2", "--summary"];
    let output = succeeds(&mut command(dir.path(), &both));
    assert_eq!(output.printed.lines().count(), 5, "{}", output.printed);
    assert!(output.messages.contains("pipeline rabin-karp: 1 item") && output.messages.contains("5 matches"));
}

#[test]
fn closed_standard_output_is_not_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    survives_closed_output(|| {
        command(dir.path(), &["o", "--generate", "foo:300K", "--segment", "4K", "--ranks", "2", "--summary"])
    });
}

#[test]
fn errors_name_the_problem_and_its_place() {
    let dir = texts();
    fs::write(dir.path().join("words"), "one\n\ntwo\n").unwrap();
    for (arguments, expected) in [
        (&["", "texts"][..], "pattern 1 is empty"),
        (&["--patterns", "words", "texts"], "pattern 2 is empty"),
        (&["--patterns", "no-words", "texts"], "cannot read the patterns no-words"),
        (&["abra", "no-text"], "cannot read no-text"),
        (&["abra", "/dev/null"], "expected a regular file"),
        (&["texts"], "no pattern is given"),
        (&[], "nothing to search"),
        (&["abra", "texts", "--segment", "0"], "expected 1 to 256M"),
        (&["abra", "-", "--shared"], "omit --shared"),
        (&["abra", "-", "--snapshots", "kept", "-o", "out"], "needs a text that can be read again"),
        (&["abra", "texts", "--snapshots", "kept"], "needs an output file, -o FILE"),
        (&["abra", "texts", "-o", "no/such/place"], "cannot write no/such/place"),
        (&["abra", "texts", "--ranks", "0"], "1..=4096"),
        (&["abra", "texts", "--mapping", "no-mapping", "--ranks", "2"], "no-mapping"),
    ] {
        let messages = messages_of_failure(dir.path(), arguments);
        assert!(messages.contains(expected), "{arguments:?}: {messages}");
    }
}

#[test]
fn matches_are_equal_under_mpirun() {
    let dir = texts();
    let texts = dir.path().join("texts/bytes");
    let mut alone = command(dir.path(), &["ra", "abra", "a"]);
    let expected = succeeds(alone.arg(&texts)).printed;
    assert_eq!(expected.lines().count(), 11, "{expected}");
    for (ranks, more) in [(2, "--balance=off"), (3, "--shared")] {
        let job = ["ra", "abra", "a"].into_iter().fold(Job::new(PROGRAM, ranks), |job, word| job.arg(word));
        let job = job.arg(&texts).arg("--segment").arg("3").arg("--mapping").arg("orderly").arg(more);
        let outcome = job.succeeds();
        assert_eq!(outcome.stdout, expected, "{outcome}");
    }
}

#[test]
fn killed_search_writes_each_match_once() {
    let dir = texts();
    let text = [&b"abcd".repeat(500_000)[..], b"needle", &b"efgh".repeat(500_000)].concat();
    fs::write(dir.path().join("texts/long"), text).unwrap();
    let search = ["ra", "needle", "dab", "hefghefghe", "texts", "--segment", "64"];
    let options = |output: &[&'static str]| [&search[..], output].concat();
    for (kept, output) in [("lines", &["-o", "matches"][..]), ("counts", &["--count"])] {
        let expected = output_of_success(dir.path(), &options(if kept == "lines" { &[] } else { output }));
        let kept = dir.path().join(kept);
        let job = |ranks| {
            let job = Job::new(PROGRAM, ranks).env("ARMATURE_WINDOW", "8");
            let job = options(output).into_iter().fold(job, |job, word| job.arg(word));
            let job = job.arg("--snapshots").arg(&kept).arg("--snapshot-every").arg("0.02");
            job.in_shell(format!("cd '{}' && exec \"$@\"", dir.path().display()))
        };
        let outcome = kill_and_restart(job, &kept, &[3, 1, 2, 3]);
        let written = match output {
            ["-o", file] => fs::read_to_string(dir.path().join(file)).unwrap(),
            _ => outcome.stdout.clone(),
        };
        assert!(written == expected && expected.contains("texts/long\t"), "{outcome}");
        assert!(outcome.stderr.contains("resumes after "), "{outcome}");
        let again = job(2).succeeds();
        let matches = |text: &str| {
            text.lines().find_map(|line| line.split_once(" matches in ")).map(|m| m.0.to_string())
        };
        assert_eq!(matches(&again.stderr), matches(&outcome.stderr), "{again}");
    }
}
