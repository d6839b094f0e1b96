//! Tests of the `align` command on threads and under mpirun.

use armature_tests::mpirun::{Job, completed_passes};
use armature_tests::program::{fails, succeeds, survives_closed_output};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_align");

fn align(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments);
    command
}

/// Writes two FASTA files whose sequences have a common part. The sequence of the first file has about `count` letters.
fn sequences(dir: &Path, letters: &[u8], count: usize) -> [PathBuf; 2] {
    let mut state = 9_u64;
    let mut draw = |count: usize| -> String {
        let letter = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            letters[(state >> 33) as usize % letters.len()] as char
        };
        (0..count).map(letter).collect()
    };
    let common = draw(count / 3);
    let texts = [
        format!(">a the first\n{}\n{common}\n{}\n", draw(count / 3), draw(count / 3)),
        format!(">b\n{common}{}\n>c\n{}\n{}\n", draw(count), draw(7), &common[5..]),
    ];
    let paths = ["one.fa", "other.fa"].map(|name| dir.join(name));
    paths.iter().zip(texts).for_each(|(path, text)| fs::write(path, text).unwrap());
    paths
}

fn file_arguments(paths: &[PathBuf; 2]) -> [&str; 2] {
    [paths[0].to_str().unwrap(), paths[1].to_str().unwrap()]
}

#[test]
fn alignments_are_equal_for_any_rank_count() {
    let dir = tempfile::tempdir().unwrap();
    let paths = sequences(dir.path(), b"ACGT", 300);
    for (scores, of_c) in [(&[][..], "188"), (&["--match", "3", "--gap-open", "0"], "285")] {
        let mut printed = Vec::new();
        for more in [
            &[][..],
            &["--ranks", "2", "--summary"],
            &["--ranks", "3", "--panel", "11", "--forced", "3"],
            &["--ranks", "2", "--block", "5", "--balance", "off", "--shares", "3,1"],
            &["--ranks", "5", "--panel", "1000"],
        ] {
            let run =
                succeeds(&mut align(&[&file_arguments(&paths)[..], &["--verify"], scores, more].concat()));
            assert!(run.messages.contains("the same bits as the serial loop"), "{}", run.messages);
            assert_eq!(
                run.messages.contains("loop align: "),
                more.contains(&"--summary"),
                "{}",
                run.messages
            );
            printed.push(run.printed);
        }
        printed.dedup();
        let [lines] = &printed[..] else { panic!("{printed:?}") };
        let lines: Vec<Vec<&str>> = lines.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(lines.iter().map(|line| &line[..2]).collect::<Vec<_>>(), [["a", "b"], ["a", "c"]]);
        // The best alignment of the sequences `a` and `c` is their common part, or an alignment with a higher score by chance.
        assert!(lines[1][2].parse::<u32>().unwrap() >= of_c.parse().unwrap(), "{lines:?}");
    }
}

#[test]
fn proteins_are_aligned_with_a_score_matrix() {
    let dir = tempfile::tempdir().unwrap();
    let paths = [("p.fa", ">p\nHEAGAWGHEE\n"), ("q.fa", ">q\nPAWHEAE\n")].map(|(name, text)| {
        fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name)
    });
    let blosum = [&file_arguments(&paths)[..], &["--matrix", "blosum62"]].concat();
    assert_eq!(succeeds(&mut align(&blosum)).printed, "p\tq\t17\t3\t6\n");
    let json = succeeds(&mut align(&[&blosum[..], &["--format", "json", "--ranks", "3"]].concat()));
    assert_eq!(
        json.printed,
        "{\"first\":\"p\",\"second\":\"q\",\"score\":17,\"first_end\":3,\"second_end\":6}\n"
    );
    let own = dir.path().join("own");
    fs::write(&own, "  H E A G W P\nH 1 0 0 0 0 0\nE 0 1 0 0 0 0\nA 0 0 1 0 0 0\nG 0 0 0 1 0 0\nW 0 0 0 0 9 0\nP 0 0 0 0 0 1\n").unwrap();
    let own = [&file_arguments(&paths)[..], &["--matrix", own.to_str().unwrap(), "--ranks", "2"]].concat();
    assert_eq!(succeeds(&mut align(&own)).printed, "p\tq\t11\t10\t7\n");
}

/// Protein databases contain selenocysteine (U), pyrrolysine (O) and J (leucine or isoleucine), which matrices such as BLOSUM62 lack.
#[test]
fn letters_of_proteins_without_scores_count_as_x() {
    let dir = tempfile::tempdir().unwrap();
    let align_all = |left: &str, ranks: &str| {
        let files = [("l.fa", left), ("r.fa", "MKTCAYLKGQWERLK")].map(|(name, letters)| {
            fs::write(dir.path().join(name), format!(">{name}\n{letters}\n")).unwrap();
            dir.path().join(name)
        });
        succeeds(&mut align(
            &[&file_arguments(&files)[..], &["--matrix", "blosum62", "--ranks", ranks]].concat(),
        ))
    };
    let expected = align_all("MKTXAYLXGQWERXK", "1");
    assert!(!expected.messages.contains("count as X"), "{}", expected.messages);
    for ranks in ["1", "3"] {
        let found = align_all("MKTUAYLOGQWERJK", ranks);
        assert_eq!(found.printed, expected.printed);
        let note = "align: letters without scores in the matrix count as X: J (1), O (1), U (1)\n";
        assert_eq!(found.messages.matches(note).count(), 1, "{}", found.messages);
    }
}

#[test]
fn errors_name_the_broken_input() {
    let dir = tempfile::tempdir().unwrap();
    let paths = sequences(dir.path(), b"ACGT", 30);
    let refused = |text: &str, more: &[&str], expected: &str| {
        let broken = dir.path().join("broken.fa");
        fs::write(&broken, text).unwrap();
        for ranks in ["1", "3"] {
            let files = [file_arguments(&paths)[0], broken.to_str().unwrap()];
            let messages = fails(&mut align(&[&files[..], &["--ranks", ranks], more].concat()));
            let expected = format!("{}{expected}", broken.display());
            assert!(messages.contains(&expected), "{expected}: {messages}");
        }
    };
    refused("ACGT\n", &[], ", line 1: expected a header that begins with '>' before any letters");
    refused(
        ">x\nACGT\n>y\nAC-GT\n",
        &[],
        ", line 4: '-' is not a letter of DNA or RNA; for proteins set --matrix",
    );
    refused(">x\n>y\nA\n", &[], ", line 1: the sequence x has no letters");
    refused(">x\nAC1\n", &["--matrix", "blosum62"], ", line 2: '1' is not a letter of the matrix");
    let messages = fails(&mut align(&["nowhere", file_arguments(&paths)[0]]));
    assert!(messages.contains("cannot read nowhere: "), "{messages}");
}

#[test]
fn ranks_are_processes_under_mpirun() {
    let dir = tempfile::tempdir().unwrap();
    let paths = sequences(dir.path(), b"ACDEFGHIKLMNPQRSTVWY", 900);
    let alone = succeeds(&mut align(&[&file_arguments(&paths)[..], &["--matrix", "blosum62"]].concat()));
    for ranks in [2, 3] {
        let more = ["--matrix", "blosum62", "--panel", "40", "--forced", "5", "--verify"];
        let all = [&file_arguments(&paths)[..], &more].concat();
        let outcome = all.iter().fold(Job::new(PROGRAM, ranks), |job, word| job.arg(*word)).succeeds();
        assert_eq!(outcome.stdout, alone.printed, "{outcome}");
        assert!(outcome.stderr.contains("the same bits as the serial loop"), "{outcome}");
        assert!(!outcome.stderr.contains(" 0 rows moved"), "{outcome}");
    }
}

#[test]
fn job_completes_when_its_output_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let paths = sequences(dir.path(), b"ACGT", 90);
    survives_closed_output(|| align(&[&file_arguments(&paths)[..], &["--ranks", "2", "--summary"]].concat()));
}

#[test]
fn job_killed_after_a_pair_writes_each_alignment_once() {
    let dir = tempfile::tempdir().unwrap();
    let paths = sequences(dir.path(), b"ACGT", 1_200);
    let alone = succeeds(&mut align(&file_arguments(&paths)));
    let (checkpoints, output) = (dir.path().join("kept"), dir.path().join("alignments"));
    let writing = |ranks| checkpointed_job(&paths, &checkpoints, ranks).arg("-o").arg(&output);
    let running = writing(2).start();
    let start = Instant::now();
    while !checkpoints.join("0-0/best").exists() {
        std::thread::sleep(Duration::from_millis(5));
        assert!(start.elapsed() < Duration::from_secs(60), "{}", running.stderr_text());
    }
    running.kill();
    let outcome = writing(3).succeeds();
    assert_eq!(outcome.stdout, "", "{outcome}");
    assert_eq!(fs::read_to_string(&output).unwrap(), alone.printed, "{outcome}");
}

#[test]
fn restarted_job_writes_each_alignment_once() {
    let dir = tempfile::tempdir().unwrap();
    let paths = sequences(dir.path(), b"ACGT", 1_200);
    let alone = succeeds(&mut align(&file_arguments(&paths)));
    let starter = Path::new(PROGRAM).with_file_name("armature-run").into_os_string();
    let output = dir.path().join("alignments");
    for file in [Some(&output), None] {
        let checkpoints = dir.path().join(if file.is_some() { "kept" } else { "kept for standard output" });
        let job = checkpointed_job(&paths, &checkpoints, 3);
        let job = file.into_iter().fold(job, |job, file| job.arg("-o").arg(file));
        let starter = [starter.clone(), "run".into(), "--restarts".into(), "3".into()];
        let running = job.through(starter).start();
        let start = Instant::now();
        while !checkpoints.join("0-0/best").exists() {
            std::thread::sleep(Duration::from_millis(5));
            assert!(start.elapsed() < Duration::from_secs(60), "{}", running.stderr_text());
        }
        running.kill_rank(1);
        let outcome = running.wait();
        assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
        assert!(outcome.stderr.contains("restart 1 of 3"), "{outcome}");
        let written = file.map_or(outcome.stdout.clone(), |file| fs::read_to_string(file).unwrap());
        assert_eq!(written, alone.printed, "{outcome}");
    }
}

fn checkpointed_job(paths: &[PathBuf; 2], dir: &Path, ranks: usize) -> Job {
    let arguments =
        [&file_arguments(paths)[..], &["--panel", "16", "--verify", "--checkpoint-every", "0"]].concat();
    arguments.iter().fold(Job::new(PROGRAM, ranks), |job, word| job.arg(*word)).arg("--checkpoint").arg(dir)
}

/// Each kill of the job comes a little later after a checkpoint than the previous kill, so that the kills hit different steps of the checkpoint
/// protocol.
#[test]
fn repeatedly_killed_job_resumes_from_its_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let paths = sequences(dir.path(), b"ACGT", 4_500);
    let alone = succeeds(&mut align(&file_arguments(&paths)));
    let checkpoints = dir.path().join("kept");
    let pair = checkpoints.join("0-0");
    for (round, ranks) in [2, 3, 1, 3, 2].into_iter().enumerate() {
        let running = checkpointed_job(&paths, &checkpoints, ranks).start();
        running.wait_for_checkpoint(&pair, completed_passes(&pair));
        std::thread::sleep(Duration::from_millis(7 * round as u64));
        running.kill();
    }
    let went_on = completed_passes(&pair).unwrap();
    let outcome = checkpointed_job(&paths, &checkpoints, 3).succeeds();
    assert!(outcome.stderr.contains(&format!("loop align: resumes after {went_on} passes")), "{outcome}");
    assert!(outcome.stderr.contains("the same bits as the serial loop"), "{outcome}");
    assert_eq!(outcome.stdout, alone.printed, "{outcome}");
    let again = checkpointed_job(&paths, &checkpoints, 2).succeeds();
    assert!(again.stderr.contains("all pairs were aligned by earlier jobs"), "{again}");
    assert_eq!(again.stdout, alone.printed, "{again}");
    let checkpoints = checkpoints.to_str().unwrap();
    let other = [&file_arguments(&paths)[..], &["--checkpoint", checkpoints, "--match", "3"]].concat();
    let messages = fails(&mut align(&other));
    assert!(
        messages.contains("best contains the alignment of ") && messages.contains("name another directory"),
        "{messages}"
    );
}
