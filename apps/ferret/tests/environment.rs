//! Tests of the `ferret` command with unusual files, readers and hosts.

mod common;

use armature_tests::mpirun::Job;
use armature_tests::program::{ProgramOutput, closed_pipe, fails, succeeds, survives_closed_output};
use common::{collection, ferret, messages_of_failure, messages_of_success, output_of_success};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn truncated_image_is_skipped() {
    let dir = collection();
    let queries = dir.path().join("set/queries");
    let whole = fs::read(queries.join("scene-0001/crop.jpg")).unwrap();
    fs::write(queries.join("cut.jpg"), &whole[..whole.len() * 6 / 10]).unwrap();
    fs::write(queries.join("no-end.jpg"), &whole[..whole.len() - 2]).unwrap();
    let messages = messages_of_success(dir.path(), &["query", "set/queries", "--db", "db", "-o", "out.tsv"]);
    for name in ["cut.jpg", "no-end.jpg"] {
        let line = format!("skipped {name}: damaged JPEG file: cut off before its end marker");
        assert!(messages.contains(&line), "{messages}");
    }
    assert!(messages.contains("24 queries answered, 2 images skipped"), "{messages}");
    let messages =
        messages_of_failure(dir.path(), &["query", "set/queries", "--db", "db", "-o", "out.tsv", "--strict"]);
    assert!(messages.contains("cannot use cut.jpg: damaged JPEG file: cut off"), "{messages}");
    let messages = messages_of_failure(dir.path(), &["index", "set/queries", "-o", "db2", "--strict"]);
    assert!(messages.contains("cannot use cut.jpg: damaged JPEG file: cut off"), "{messages}");
}

/// Names of image files that would forge output lines or control a terminal, each with its escaped form.
const AWKWARD: [(&str, &str); 4] = [
    ("a\tb\nc.png", r"a\tb\nc.png"),
    ("b\u{1b}[2Jskipped.png", r"b\u{1b}[2Jskipped.png"),
    ("c\u{2028}24 queries answered.png", r"c\u{2028}24 queries answered.png"),
    ("d\\n\r\u{202e}.png", r"d\\n\r\u{202e}.png"),
];

#[test]
fn awkward_file_names_stay_on_one_output_line() {
    let dir = collection();
    let odd = dir.path().join("odd");
    fs::create_dir(&odd).unwrap();
    for (name, _) in AWKWARD {
        fs::copy(dir.path().join("set/queries/scene-0002/noise.png"), odd.join(name)).unwrap();
    }
    let text = output_of_success(dir.path(), &["query", "odd", "--db", "db", "-k", "1"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), AWKWARD.len(), "{text}");
    for (line, (_, shown)) in lines.iter().zip(AWKWARD) {
        assert!(line.starts_with(&format!("{shown}\t1\tscene-0002/original.png\t")), "{line}");
    }
    messages_of_success(dir.path(), &["index", "odd", "-o", "odd.db", "--strict"]);
    let truth: String = AWKWARD.iter().map(|(_, shown)| format!("{shown}\t{shown}\n")).collect();
    fs::write(dir.path().join("truth.tsv"), truth).unwrap();
    let pairs = ["eval", "pairs", "--database", "odd", "--queries", "odd", "--truth", "truth.tsv"];
    let text = output_of_success(dir.path(), &pairs);
    assert!(text.starts_with("4 queries on 4 images"), "{text}");
}

#[test]
fn awkward_names_of_skipped_files_stay_on_one_output_line() {
    use std::os::unix::ffi::OsStrExt;
    for (name, shown) in
        AWKWARD.into_iter().map(|(n, s)| (n.as_bytes(), s)).chain([(&b"\xff.png"[..], r"\xff.png")])
    {
        let dir = tempfile::tempdir().unwrap();
        messages_of_success(dir.path(), &["synth", "set", "--scenes", "3", "--size", "48x32"]);
        messages_of_success(dir.path(), &["index", "set/database", "-o", "db"]);
        fs::write(dir.path().join("set/database").join(std::ffi::OsStr::from_bytes(name)), "no image")
            .unwrap();
        for arguments in
            [&["index", "set/database", "-o", "x"][..], &["query", "set/database", "--db", "db", "-o", "x"]]
        {
            let messages = messages_of_success(dir.path(), arguments);
            assert!(
                messages.lines().any(|line| line.starts_with(&format!("skipped {shown}: "))),
                "{messages}"
            );
            let messages = messages_of_failure(dir.path(), &[arguments, &["--strict"]].concat());
            assert!(messages.contains(&format!("cannot use {shown}: ")), "{messages}");
            assert_eq!(messages.lines().count(), 1, "{messages}");
        }
        let path = Path::new(std::ffi::OsStr::from_bytes(name)).join("x");
        for options in [["index", "-o"], ["query", "--db"]] {
            let mut command = ferret(dir.path(), &options[..1]);
            let messages = fails(command.arg(&path).arg(options[1]).arg(&path));
            assert!(messages.contains(&format!("cannot read {shown}/x: ")), "{messages}");
        }
    }
}

/// Creates nested directories until the path of the innermost directory exceeds the path length limit of the operating system.
fn too_deep(directory: &Path) {
    let script =
        "name=$(printf %0200d 0); for i in $(seq 25); do mkdir $name && cd $name || exit 1; done; : >x.png";
    succeeds(Command::new("bash").current_dir(directory).args(["-c", script]));
}

#[test]
fn unreadable_directory_is_skipped() {
    let dir = collection();
    for set in ["set/database", "set/queries"] {
        too_deep(&dir.path().join(set));
    }
    let index = ["index", "set/database", "-o", "db"];
    let query = ["query", "set/queries", "--db", "db", "-o", "out.tsv"];
    for (arguments, end) in
        [(&index[..], "24 images with"), (&query, "24 queries answered, 1 images skipped")]
    {
        let messages = messages_of_success(dir.path(), arguments);
        assert!(messages.contains(": cannot read the directory: "), "{messages}");
        assert!(messages.lines().any(|line| line.starts_with(end)), "{messages}");
        let messages = messages_of_failure(dir.path(), &[arguments, &["--strict"]].concat());
        assert!(messages.contains("cannot use 000") && messages.contains(": cannot read the directory: "));
    }
    let pairs = ["eval", "pairs", "--database", "set/database", "--queries", "set/queries"];
    let messages = messages_of_success(dir.path(), &[&pairs[..], &["--truth", "set/truth.tsv"]].concat());
    assert!(messages.contains("2 images skipped"), "{messages}");
}

#[test]
fn closed_standard_output_is_not_a_failure() {
    let dir = collection();
    let query = ["query", "set/queries", "--db", "db"];
    messages_of_success(
        dir.path(),
        &[&query[..], &["-o", "out.tsv", "--record-profile", "run.csv"]].concat(),
    );
    fs::write(dir.path().join("set/queries/empty.png"), "").unwrap();
    for arguments in [
        &query[..],
        &[&query[..], &["--ranks", "3", "--summary"]].concat(),
        &["replay", "run.csv", "--summary"],
        &["eval", "synth", "--scenes", "20", "--size", "48x32"],
        &[
            "eval",
            "pairs",
            "--database",
            "set/database",
            "--queries",
            "set/queries",
            "--truth",
            "set/truth.tsv",
        ],
    ] {
        survives_closed_output(|| ferret(dir.path(), arguments));
    }
    for arguments in [&["--help"][..], &["index", "set/queries", "-o", "x"]] {
        succeeds(ferret(dir.path(), arguments).stdout(closed_pipe()).stderr(closed_pipe()));
    }
}

#[test]
fn closed_standard_output_ends_the_work_early() {
    let dir = collection();
    let all = dir.path().join("many");
    fs::create_dir(&all).unwrap();
    let image = fs::read(dir.path().join("set/queries/scene-0002/noise.png")).unwrap();
    for number in 0..1500 {
        fs::write(all.join(format!("{number:04}.png")), &image).unwrap();
    }
    let line = "$0 query many --db db -k 24 --ranks 2 --mapping orderly | head -n 1; exit ${PIPESTATUS[0]}";
    let mut pipe = Command::new("bash");
    let pipe = pipe.current_dir(dir.path()).args(["-c", line, env!("CARGO_BIN_EXE_ferret")]);
    let ProgramOutput { printed, messages } = succeeds(pipe);
    assert!(printed.starts_with("0000.png\t1\t") && printed.lines().count() == 1, "{printed}");
    let answered = messages.lines().find_map(|line| line.strip_suffix(" queries answered, 0 images skipped"));
    let answered: usize = answered.unwrap_or_else(|| panic!("{messages}")).parse().unwrap();
    assert!(answered < 1500, "all queries were answered for nobody");
}

#[test]
fn closed_output_of_rank_0_under_mpirun_is_not_a_failure() {
    let dir = collection();
    let query = ["query", "set/queries", "--db", "db"];
    let job = query.iter().fold(Job::new(env!("CARGO_BIN_EXE_ferret"), 3), |job, word| job.arg(word));
    let script = "\"$@\" | if [ $RANK = 0 ]; then exec true; else cat; fi; exit ${PIPESTATUS[0]}";
    job.in_shell(format!("cd '{}' && {script}", dir.path().display())).succeeds();
}

#[test]
fn different_database_on_one_thread_is_refused() {
    use armature_apps::output::Destination;
    use ferret::pipeline::{Root, Search, search};
    let dir = collection();
    messages_of_success(dir.path(), &["index", "set/queries", "-o", "other"]);
    let listing = ferret::files::Listing::of(&dir.path().join("set/queries")).unwrap();
    let mapping = "load+seg+ext@0 | ind@0,1 | rank@0,2 | out@0";
    fs::write(dir.path().join("map"), mapping).unwrap();
    for other in [1, 2] {
        let found = armature::run(&armature::Config::new().ranks(3), |session| {
            let db = dir.path().join(if session.rank() == other { "other" } else { "db" });
            let mapping =
                armature::pipeline::MappingChoice::from_arg(&dir.path().join("map").display().to_string());
            let snapshots = Default::default();
            let wanted = Search { db, k: 3, strict: false, mapping, snapshots, recorder: None };
            let mut output = Destination::default();
            let root = Root { listing: &listing, output: &mut output };
            let root = session.is_root().then_some(root);
            search(session, root, &wanted)
        });
        let text = found.unwrap_err().to_string();
        let stage = if other == 1 { "ind" } else { "rank" };
        assert!(text.contains(&format!("rank {other}: stage {stage}: item ")), "{text}");
        assert!(text.contains("/other on this rank (24 images, checksum "), "{text}");
    }
}

#[test]
fn different_database_on_one_rank_is_refused() {
    let dir = collection();
    for (number, scenes) in ["24", "23", "24"].into_iter().enumerate() {
        let host = dir.path().join(format!("host{number}"));
        messages_of_success(
            dir.path(),
            &["synth", "other", "--scenes", scenes, "--size", "96x64", "--seed", "7"],
        );
        fs::create_dir(&host).unwrap();
        messages_of_success(dir.path(), &["index", "other/database", "-o", &format!("host{number}/db")]);
        fs::remove_dir_all(dir.path().join("other")).unwrap();
    }
    fs::write(dir.path().join("map"), "load+seg+ext@0 | ind+rank@0,1,2 | out@0").unwrap();
    let queries = dir.path().join("set/queries");
    let job = |ranks| {
        let ask = ["query".as_ref(), queries.as_os_str(), "--db".as_ref(), "db".as_ref()];
        let job =
            ask.into_iter().fold(Job::new(env!("CARGO_BIN_EXE_ferret"), ranks), |job, word| job.arg(word));
        let output = dir.path().join("out.tsv");
        let job = job.arg("--mapping").arg(dir.path().join("map")).arg("-o").arg(output);
        // Every rank has its own working directory, as on separate hosts.
        job.in_shell(format!("cd '{}'/host$RANK && exec \"$@\"", dir.path().display()))
    };
    let outcome = job(3).run();
    assert!(!outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    let what = "rank 1: stage ind: item ";
    assert!(outcome.stderr.contains(what) && !outcome.stderr.contains("panicked"), "{outcome}");
    let what = "the database db on this rank (23 images, checksum ";
    assert!(
        outcome.stderr.contains(what)
            && outcome.stderr.contains(") differs from that on rank 0 (24 images, "),
        "{outcome}"
    );
    fs::copy(dir.path().join("host2/db"), dir.path().join("host1/db")).unwrap();
    job(3).succeeds();
}
