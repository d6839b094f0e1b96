//! Tests of the `ferret` command.

mod common;

use armature_tests::mpirun::{Job, kill_and_restart};
use armature_tests::program::{ProgramOutput, fails, succeeds};
use common::{collection, ferret, messages_of_failure, messages_of_success, output_of_success};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn synthetic_scenes_are_indexed_and_queried() {
    let dir = collection();
    let messages =
        messages_of_success(dir.path(), &["query", "set/queries", "--db", "db", "-k", "3", "-o", "out.tsv"]);
    assert!(messages.contains("24 queries answered, 0 images skipped"), "{messages}");
    let answers = fs::read_to_string(dir.path().join("out.tsv")).unwrap();
    assert_eq!(answers.lines().count(), 72);
    let truth = fs::read_to_string(dir.path().join("set/truth.tsv")).unwrap();
    let mut right = 0;
    for (number, line) in answers.lines().enumerate() {
        let fields: Vec<&str> = line.split('\t').collect();
        assert_eq!(fields.len(), 4, "{line}");
        assert_eq!(fields[1], (number % 3 + 1).to_string());
        assert!(fields[3].parse::<f64>().unwrap() <= 0.6, "{line}");
        right += usize::from(truth.contains(&format!("{}\t{}\n", fields[0], fields[2])) && fields[1] == "1");
    }
    assert!(right >= 22, "{right} of 24 first answers are right");
    let queries: Vec<&str> = answers.lines().step_by(3).map(|l| l.split('\t').next().unwrap()).collect();
    assert!(queries.is_sorted(), "answers come in the order of the names");
}

#[test]
fn modified_copies_find_their_original_images() {
    let dir = collection();
    let messages = messages_of_success(
        dir.path(),
        &["vary", "set/database", "-o", "varied", "--copies", "2", "--side", "120"],
    );
    assert!(messages.contains("192 queries in varied"), "{messages}");
    let truth = fs::read_to_string(dir.path().join("varied/truth.tsv")).unwrap();
    let first = "scene-0001/original.png/crop-1.jpg\tscene-0001/original.png";
    assert_eq!(truth.lines().next(), Some(first));
    let pairs = ["--database", "set/database", "--queries", "varied/queries", "--truth", "varied/truth.tsv"];
    let text = output_of_success(dir.path(), &[&["eval", "pairs"], &pairs[..]].concat());
    assert!(text.starts_with("192 queries on 24 images"), "{text}");
    let among = text.lines().find(|l| l.starts_with("right image is among ten")).unwrap();
    let share: f64 = among.split_whitespace().nth(5).unwrap().parse().unwrap();
    assert!(share >= 95.0, "{text}");
    fs::create_dir(dir.path().join("empty")).unwrap();
    assert!(
        messages_of_failure(dir.path(), &["vary", "empty", "-o", "varied"])
            .contains("no usable PNG or JPEG image below empty")
    );
}

#[test]
fn repeated_commands_give_identical_files() {
    let (first, second) = (collection(), collection());
    for dir in [&first, &second] {
        messages_of_success(dir.path(), &["query", "set/queries", "--db", "db", "-o", "out.tsv"]);
    }
    for file in ["db", "out.tsv", "set/truth.tsv", "set/queries/scene-0003/brightness.jpg"] {
        let read = |dir: &tempfile::TempDir| fs::read(dir.path().join(file)).unwrap();
        assert_eq!(read(&first), read(&second), "{file}");
    }
    let lines = output_of_success(first.path(), &["query", "set/queries", "--db", "db"]);
    assert_eq!(lines, fs::read_to_string(first.path().join("out.tsv")).unwrap());
}

#[test]
fn answers_equal_serial_answers_for_any_mapping() {
    use ferret::{database::Database, files::Listing, index::Index, query::query_serial};
    let dir = collection();
    fs::write(dir.path().join("set/queries/scene-0004/broken.png"), b"\x89PNG\r\n\x1a\nrubbish").unwrap();
    let index = Index::new(Database::open(&dir.path().join("db")).unwrap());
    let listing = Listing::of(&dir.path().join("set/queries")).unwrap();
    let mut expected = Vec::new();
    let summary = query_serial(&listing, &index, 5, false, &mut expected).unwrap();
    assert_eq!((summary.answered, summary.skipped.len()), (24, 1));
    for (ranks, mapping) in [("1", "serial"), ("2", "auto"), ("3", "auto"), ("6", "orderly"), ("8", "auto")] {
        let ask = ["query", "set/queries", "--db", "db", "-k", "5", "--ranks", ranks, "--mapping", mapping];
        let ProgramOutput { printed, messages } = succeeds(&mut ferret(dir.path(), &ask));
        assert!(
            printed.as_bytes() == expected,
            "{ranks} ranks, {mapping}: other answers than the plain loop"
        );
        assert!(messages.contains("24 queries answered, 1 images skipped"), "{messages}");
    }
}

#[test]
fn live_remapping_does_not_change_answers() {
    let dir = collection();
    messages_of_success(dir.path(), &["query", "set/queries", "--db", "db", "-o", "one.tsv"]);
    let ask = ["query", "set/queries", "--db", "db", "-o", "out.tsv", "--ranks", "4", "--mapping", "orderly"];
    messages_of_success(
        dir.path(),
        &[&ask[..], &["--balance", "live", "--events", "log", "--summary"]].concat(),
    );
    let read = |file: &str| fs::read(dir.path().join(file)).unwrap();
    assert_eq!(read("one.tsv"), read("out.tsv"));
    let messages = messages_of_failure(dir.path(), &[&ask[..], &["--balance", "often"]].concat());
    assert!(messages.contains("'often'") && messages.contains("off, once, live"), "{messages}");
}

#[test]
fn unreadable_images_are_reported_and_skipped() {
    let dir = collection();
    let queries = dir.path().join("set/queries");
    fs::write(queries.join("broken.png"), b"\x89PNG\r\n\x1a\nrubbish").unwrap();
    fs::write(queries.join("empty.jpg"), b"").unwrap();
    fs::write(queries.join("notes.txt"), b"not an image and not asked for").unwrap();
    let messages = messages_of_success(dir.path(), &["query", "set/queries", "--db", "db", "-o", "out.tsv"]);
    assert!(messages.contains("skipped broken.png: damaged PNG file"), "{messages}");
    assert!(messages.contains("skipped empty.jpg: the file is empty"), "{messages}");
    assert!(messages.contains("24 queries answered, 2 images skipped"), "{messages}");
    let messages = messages_of_failure(
        dir.path(),
        &["query", "set/queries", "--db", "db", "--strict", "-o", "strict.tsv"],
    );
    assert!(messages.contains("cannot use broken.png"), "{messages}");
    assert!(!dir.path().join("strict.tsv").exists(), "a failed run leaves no output");
    fs::write(dir.path().join("set/database/bad.jpeg"), b"\xff\xd8\xff\xe0").unwrap();
    let messages = messages_of_success(dir.path(), &["index", "set/database", "-o", "db"]);
    assert!(messages.contains("skipped bad.jpeg") && messages.contains("1 images skipped"), "{messages}");
    messages_of_failure(dir.path(), &["index", "set/database", "-o", "db", "--strict"]);
}

#[test]
fn errors_name_the_problem_and_its_place() {
    let dir = collection();
    let db = fs::read(dir.path().join("db")).unwrap();
    fs::write(dir.path().join("cut"), &db[..db.len() / 2]).unwrap();
    fs::write(dir.path().join("photo"), "not a database").unwrap();
    fs::create_dir(dir.path().join("nothing")).unwrap();
    let query = |db: &str| messages_of_failure(dir.path(), &["query", "set/queries", "--db", db]);
    assert!(query("cut").contains("cut off or damaged"));
    assert!(query("photo").contains("photo: not a ferret database"));
    assert!(query("missing").contains("missing"));
    assert!(
        messages_of_failure(dir.path(), &["query", "nowhere", "--db", "db"]).contains("cannot read nowhere")
    );
    assert!(
        messages_of_failure(dir.path(), &["index", "nothing", "-o", "db2"])
            .contains("no usable PNG or JPEG image")
    );
    assert!(
        messages_of_failure(dir.path(), &["index", "set/database", "-o", "no/such/db"])
            .contains("no/such/db")
    );
    assert!(messages_of_failure(dir.path(), &["synth", "x", "--size", "0x0"]).contains("192x128"));
    assert!(
        messages_of_failure(
            dir.path(),
            &["eval", "pairs", "--database", "set/database", "--queries", "set/queries"]
        )
        .contains("no query with a right answer")
    );
    assert!(
        messages_of_failure(dir.path(), &["query", "set/queries", "--db", "db", "-k", "0"])
            .contains("0 is not in 1..")
    );
    let remap = messages_of_failure(dir.path(), &["replay", "x", "--remap", "5:auto"]);
    assert!(remap.contains("expected serial, orderly or a file"), "{remap}");
    assert_eq!(fs::read(dir.path().join("db")).unwrap(), db);
}

/// The command must not open a FIFO, because a read from a FIFO without a writer never returns.
#[test]
fn fifo_in_place_of_a_file_is_refused() {
    let dir = collection();
    for name in ["fifo", "set/queries/fifo.png"] {
        assert!(Command::new("mkfifo").arg(dir.path().join(name)).status().unwrap().success());
    }
    let pairs =
        ["eval", "pairs", "--database", "set/database", "--queries", "set/queries", "--truth", "fifo"];
    for arguments in [
        &["query", "set/queries", "--db", "fifo"][..],
        &["query", "set/queries", "--db", "db", "--mapping", "fifo", "--ranks", "2"],
        &["query", "fifo", "--db", "db"],
        &["index", "fifo", "-o", "db2"],
        &["replay", "fifo"],
        &pairs,
    ] {
        let messages = messages_of_failure(dir.path(), arguments);
        assert!(messages.contains("fifo: is a FIFO, expected a regular file"), "{arguments:?}: {messages}");
    }
    // A shell pipe such as `cat db |` cannot provide the database, because every rank reads the database.
    let line = "cat db | \"$0\" query set/queries --db /dev/stdin";
    let mut piped = Command::new("sh");
    piped.current_dir(dir.path()).args(["-c", line, env!("CARGO_BIN_EXE_ferret")]);
    let messages = fails(&mut piped);
    assert!(messages.contains("/dev/stdin: is a FIFO"), "{messages}");
    assert!(messages.contains("save the content of the pipe in a file and name that file"), "{messages}");
    let messages = messages_of_success(dir.path(), &["query", "set/queries", "--db", "db", "-o", "out.tsv"]);
    assert!(messages.contains("24 queries answered, 0 images skipped"), "{messages}");
}

#[test]
fn outputs_are_written_through_links_and_to_devices() {
    let dir = collection();
    let path = |name: &str| dir.path().join(name);
    for (link, target) in [("database", "db"), ("null", "/dev/null"), ("stdout", "/dev/stdout")] {
        std::os::unix::fs::symlink(target, path(link)).unwrap();
    }
    let db = fs::read(path("db")).unwrap();
    fs::write(path("db"), "old").unwrap();
    messages_of_success(dir.path(), &["index", "set/database", "-o", "database"]);
    assert!(path("database").is_symlink() && fs::read(path("db")).unwrap() == db);
    let query = ["query", "set/queries", "--db", "database"];
    let answers = output_of_success(dir.path(), &query);
    assert_eq!(output_of_success(dir.path(), &[&query[..], &["-o", "stdout"]].concat()), answers);
    let profile = ["-o", "null", "--record-profile", "null"];
    assert_eq!(output_of_success(dir.path(), &[&query[..], &profile].concat()), "");
    assert!(path("null").is_symlink() && !Path::new("/dev/null").is_file());
    // The file names of a collection are predictable, so an attacker could place a symbolic link there, which must be rejected.
    fs::remove_file(path("set/truth.tsv")).unwrap();
    std::os::unix::fs::symlink("../db", path("set/truth.tsv")).unwrap();
    let messages = messages_of_failure(dir.path(), &["synth", "set", "--scenes", "2", "--size", "96x64"]);
    assert!(messages.contains("set/truth.tsv: is a symbolic link, expected a regular file"), "{messages}");
    assert!(fs::read(path("db")).unwrap() == db);
}

#[test]
fn recorded_profile_is_replayed_on_any_ranks() {
    let dir = collection();
    let record = ["query", "set/queries", "--db", "db", "-o", "out.tsv", "--record-profile", "run.csv"];
    messages_of_success(dir.path(), &record);
    let plain = messages_of_success(dir.path(), &["query", "set/queries", "--db", "db", "-o", "plain.tsv"]);
    assert!(plain.contains("24 queries answered"), "{plain}");
    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert!(read("out.tsv") == read("plain.tsv"), "recording changes the answers");

    let path = dir.path().join("run.csv");
    let profile = ferret::profile::Profile::read(&path).unwrap();
    assert_eq!(profile.items.len(), 24);
    assert!(profile.remarks[0].contains("24 images"), "{:?}", profile.remarks);
    for item in &profile.items {
        assert!(item.input > 0 && item.stages.iter().all(|s| s.micros > 0 && s.bytes > 0), "{item:?}");
        // The first stage decodes images. Its output has three bytes per pixel. Most images have 96x64 pixels; resized copies have more or fewer.
        assert!((1000..80_000).contains(&item.stages[0].bytes), "{item:?}");
    }

    let replay = |more: &[&str]| {
        let text = output_of_success(dir.path(), &[&["replay", "run.csv", "--items", "50"], more].concat());
        assert!(text.starts_with("replayed 50 items in "), "{more:?}: {text}");
        text.trim().rsplit(' ').next().unwrap().to_string()
    };
    fs::write(dir.path().join("map"), "load@1 | seg+ext@0,1 | ind+rank@0,1,2 | out@2").unwrap();
    let one = replay(&["--times", "times", "--summary"]);
    for more in [
        &["--ranks", "3", "--mapping", "orderly"][..],
        &["--ranks", "3", "--mapping", "map"],
        &["--ranks", "3", "--mapping", "map", "--dispatch", "round-robin"],
        &["--ranks", "3", "--mapping", "orderly", "--remap", "10:map", "--remap", "30:serial"],
    ] {
        assert_eq!(replay(more), one, "{more:?}");
    }
    let summary = messages_of_success(
        dir.path(),
        &[
            "replay",
            "run.csv",
            "--items",
            "200",
            "--ranks",
            "3",
            "--remap",
            "10:map",
            "--mapping",
            "orderly",
            "--summary",
        ],
    );
    let asked = summary.split("requested after ").nth(1).and_then(|rest| rest.split(' ').next());
    let asked = asked.and_then(|items| items.parse::<u64>().ok());
    assert!(asked.is_some_and(|items| (10..200).contains(&items)), "{summary}");
    let times = String::from_utf8(read("times")).unwrap();
    let last = times.lines().last().and_then(|line| line.strip_prefix("49 ")).unwrap();
    assert!(times.lines().count() == 50 && last.parse::<f64>().unwrap() > 0.0, "{times}");
}

#[test]
fn profile_errors_name_the_reason() {
    let dir = collection();
    let record = ["query", "set/queries", "--db", "db", "-o", "out.tsv", "--record-profile", "run.csv"];
    let messages = messages_of_failure(dir.path(), &[&record[..], &["--ranks", "2"]].concat());
    assert!(messages.contains("recorded on one rank") && !dir.path().join("run.csv").exists(), "{messages}");
    assert!(messages_of_failure(dir.path(), &["replay", "run.csv"]).contains("cannot read run.csv"));
    for (remap, why) in
        [("60", "expected a number of items and a mapping"), ("x:map", "`x` is not a number of items")]
    {
        assert!(
            messages_of_failure(dir.path(), &["replay", "run.csv", "--remap", remap]).contains(why),
            "{remap}"
        );
    }
    messages_of_success(dir.path(), &record);
    let text = fs::read_to_string(dir.path().join("run.csv")).unwrap();
    fs::write(dir.path().join("run.csv"), text.replace("\n7,", "\n7,x")).unwrap();
    let messages = messages_of_failure(dir.path(), &["replay", "run.csv"]);
    // Item 7 is in line 12 of the profile, after four lines of header and the items 0 to 6.
    assert!(messages.contains("run.csv, line 12: `x"), "{messages}");
}

#[test]
fn stored_profile_of_the_simulated_clusters_is_complete() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles/paper.csv");
    let profile = ferret::profile::Profile::read(&path).unwrap();
    assert_eq!(profile.items.len(), 700);
    assert!(profile.items.iter().all(|item| item.stages.iter().all(|s| s.micros > 0 && s.bytes > 0)));
    assert!(fs::metadata(&path).unwrap().len() < 100_000);
}

#[test]
fn eval_prints_the_quality_measures() {
    let dir = collection();
    let text =
        output_of_success(dir.path(), &["eval", "synth", "--scenes", "40", "--size", "96x64", "--times"]);
    for figure in
        ["right image is the first answer", "among ten", "recall@10", "images ranked", "measured ms"]
    {
        assert!(text.contains(figure), "{figure} is missing from {text}");
    }
    let pairs = ["eval", "pairs", "--database", "set/database", "--queries", "set/queries"];
    let text = output_of_success(dir.path(), &[&pairs[..], &["--truth", "set/truth.tsv"]].concat());
    assert!(text.starts_with("24 queries on 24 images"), "{text}");
}

/// The test needs Debian's package tango-icon-theme. The command `cargo test --release -p ferret --test command -- --ignored` runs it.
#[test]
#[ignore = "needs the package tango-icon-theme and a minute in a debug build"]
fn search_quality_is_high_on_scenes_and_icons() {
    use ferret::{eval, files::Listing, lsh::Settings, pairs, synth::Plan};
    let plan = Plan { scenes: 500, seed: 1, width: 192, height: 128, all_variants: false };
    let (index, questions) = eval::synthetic(&plan, Settings::default()).unwrap();
    let scenes = eval::evaluate(&index, &questions).all;
    assert!(scenes.first_right_rate() >= 0.9 && scenes.in_top_rate() >= 0.98, "{scenes:?}");
    let list = |size: &str| Listing::of(&Path::new("/usr/share/icons/Tango").join(size)).unwrap();
    let set =
        pairs::prepare_evaluation(&list("32x32"), &list("22x22"), &pairs::Key::SameName, Settings::default())
            .unwrap();
    let icons = eval::evaluate(&set.index, &set.questions).all;
    assert!(icons.queries >= 200 && icons.in_top_rate() >= 0.7, "{icons:?}");
    for set in [scenes, icons] {
        assert!(set.recall() >= 0.95 && set.ranked_share() < 0.2, "{set:?}");
    }
}

#[test]
fn killed_search_writes_each_answer_once() {
    let dir = collection();
    let many = dir.path().join("many");
    fs::create_dir(&many).unwrap();
    for number in 0..240 {
        let scene = dir.path().join(format!("set/queries/scene-{:04}", number % 24 + 1));
        let image = fs::read_dir(scene).unwrap().next().unwrap().unwrap().path();
        let extension = image.extension().unwrap().to_str().unwrap();
        fs::copy(&image, many.join(format!("{number:04}.{extension}"))).unwrap();
    }
    for broken in (0..240).step_by(10) {
        fs::write(many.join(format!("{broken:04}-broken.png")), "rubbish").unwrap();
    }
    let messages = messages_of_success(dir.path(), &["query", "many", "--db", "db", "-o", "expected"]);
    let counts = "240 queries answered, 24 images skipped";
    assert!(messages.contains(counts), "{messages}");
    let path = |name: &str| dir.path().join(name).into_os_string();
    let job = |ranks| {
        let job = Job::new(env!("CARGO_BIN_EXE_ferret"), ranks).env("ARMATURE_WINDOW", "8");
        let job = job.arg("query").arg(path("many")).arg("--db").arg(path("db")).arg("-o").arg(path("out"));
        job.arg("--snapshots").arg(path("kept")).arg("--snapshot-every").arg("0.02")
    };
    let same = || assert!(fs::read(path("out")).unwrap() == fs::read(path("expected")).unwrap());
    let outcome = kill_and_restart(job, path("kept").as_ref(), &[3, 1, 2, 3]);
    assert!(
        outcome.stderr.contains("pipeline files: resumes after ") && outcome.stderr.contains(counts),
        "{outcome}"
    );
    same();
    let outcome = job(3).succeeds();
    assert!(outcome.stderr.contains("nothing is left to do") && outcome.stderr.contains(counts), "{outcome}");
    same();
    let again = ["query", "many", "--db", "db", "--snapshots", "kept"];
    let messages = messages_of_failure(dir.path(), &[&again[..], &["-o", "out", "-k", "3"]].concat());
    assert!(
        messages.contains("it belongs to another job") && messages.contains("identity \"k 3, "),
        "{messages}"
    );
    let messages = messages_of_failure(dir.path(), &again);
    assert!(messages.contains("--snapshots needs an output file, -o FILE"), "{messages}");
}
