//! Tests that a damaged journal (file of completed results) never yields a wrong result, and that no intact result before the damage is lost.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Identity, Journal, Recovery};
use crate::error::{ErrorKind, Result};

pub(super) const NOW: Duration = Duration::ZERO;

pub(super) type Results = Vec<(u64, Vec<u8>)>;

fn job() -> Identity {
    Identity::new("squares", "1", [7; 5])
}

pub(super) fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

pub(super) fn open(path: &Path) -> Result<(Journal, Recovery, Results)> {
    let mut found = Vec::new();
    let (journal, recovery) = Journal::open_within(path, &job(), 1, |task, payload| {
        found.push((task, payload.to_vec()));
        Ok(())
    })?;
    Ok((journal, recovery, found))
}

/// Writes a journal with `results`. Returns the offsets in the file at which the header and each record end.
pub(super) fn written(path: &Path, results: &[(u64, Vec<u8>)]) -> Vec<usize> {
    let (mut journal, recovery, found) = open(path).unwrap();
    assert_eq!((recovery, found.len()), (Recovery::default(), 0));
    let mut ends = vec![fs::read(path).unwrap().len()];
    for (task, payload) in results {
        journal.append(NOW, *task, payload).unwrap();
        journal.tick(NOW).unwrap();
        ends.push(fs::read(path).unwrap().len());
    }
    journal.close().unwrap();
    ends
}

pub(super) fn some() -> Results {
    vec![(4, b"four".to_vec()), (0, vec![]), (u64::MAX, vec![0; 30]), (2, b"two".to_vec())]
}

/// Checks that the copy of the journal's damaged end equals the bytes that were cut off, and removes the copy.
#[track_caller]
fn remove_copy(path: &Path, bytes: &[u8], recovery: &Recovery) {
    let names = fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let there: Vec<PathBuf> = names.filter(|name| name != path).collect();
    let lost = recovery.cut.as_ref().map_or(&[][..], |cut| &bytes[cut.at as usize..]);
    assert_eq!(!there.is_empty(), lost.iter().any(|&byte| byte != 0), "zeros are not counted as lost");
    assert_eq!(there, Vec::from_iter(recovery.cut.as_ref().and_then(|cut| cut.copy.clone())));
    for copy in there {
        assert_eq!(fs::read(&copy).unwrap(), lost);
        fs::remove_file(copy).unwrap();
    }
}

fn before(results: &Results, ends: &[usize], byte: usize) -> Results {
    results.iter().zip(&ends[1..]).filter(|(_, end)| **end <= byte).map(|(r, _)| r.clone()).collect()
}

#[test]
fn appended_results_are_recovered_and_the_journal_continues() {
    let dir = directory();
    let path = dir.path().join("j");
    written(&path, &some());
    let (mut journal, recovery, found) = open(&path).unwrap();
    assert_eq!((recovery.tasks, recovery.duplicates, recovery.cut), (4, 0, None));
    assert_eq!(found, some());
    journal.append_parts(NOW, 5, &[b"fi", b"", b"ve"]).unwrap();
    drop(journal);
    assert_eq!(open(&path).unwrap().2.last(), Some(&(5, b"five".to_vec())), "a drop writes");
}

#[test]
fn full_buffer_is_written_without_a_tick() {
    let dir = directory();
    let path = dir.path().join("j");
    let (mut journal, ..) = open(&path).unwrap();
    (0..1000).for_each(|task| journal.append(NOW, task, &[1; 100]).unwrap());
    assert!(fs::metadata(&path).unwrap().len() > 64 << 10);
}

#[test]
fn first_result_of_a_task_counts() {
    let dir = directory();
    let path = dir.path().join("j");
    written(&path, &[(1, b"a".to_vec()), (2, b"b".to_vec()), (1, b"c".to_vec()), (1, b"a".to_vec())]);
    let (_, recovery, found) = open(&path).unwrap();
    assert_eq!(found, [(1, b"a".to_vec()), (2, b"b".to_vec())]);
    assert_eq!((recovery.tasks, recovery.duplicates), (2, 2));
}

#[test]
fn truncation_at_any_byte_keeps_complete_records() {
    let dir = directory();
    let path = dir.path().join("j");
    let ends = written(&path, &some());
    let bytes = fs::read(&path).unwrap();
    for length in 0..bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        let (mut journal, recovery, found) = open(&path).unwrap();
        assert_eq!(found, before(&some(), &ends, length), "{length} bytes");
        let whole = ends.iter().copied().filter(|end| *end <= length).max();
        let torn = whole.map_or(0, |end| length - end) as u64;
        remove_copy(&path, &bytes[..length], &recovery);
        assert_eq!(recovery.cut.map_or(0, |cut| cut.bytes), torn, "{length} bytes");
        journal.append(NOW, 99, b"more").unwrap();
        journal.close().unwrap();
        let (_, recovery, found) = open(&path).unwrap();
        assert_eq!((recovery.cut, found.last()), (None, Some(&(99, b"more".to_vec()))), "{length} bytes");
    }
}

#[test]
fn flipped_bit_keeps_earlier_records_or_is_refused() {
    let dir = directory();
    let path = dir.path().join("j");
    let ends = written(&path, &some());
    let bytes = fs::read(&path).unwrap();
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &damaged).unwrap();
        if bit / 8 < ends[0] {
            let error = open(&path).expect_err("a damaged header");
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert_eq!(fs::read(&path).unwrap(), damaged, "it is left as it is");
            continue;
        }
        let (_, recovery, found) = open(&path).unwrap();
        let kept = before(&some(), &ends, bit / 8);
        assert_eq!(found, kept, "bit {bit}");
        remove_copy(&path, &damaged, &recovery);
        let cut = recovery.cut.expect("damage");
        assert_eq!((cut.at as usize, cut.bytes as usize), (ends[kept.len()], bytes.len() - ends[kept.len()]));
        assert!(cut.records < 4 - kept.len() as u64);
        assert_eq!(fs::read(&path).unwrap(), bytes[..cut.at as usize]);
    }
}

#[test]
fn records_after_damage_are_reported_and_not_trusted() {
    let dir = directory();
    let path = dir.path().join("j");
    let ends = written(&path, &some());
    let mut bytes = fs::read(&path).unwrap();
    bytes[ends[1] - 1] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let (_, recovery, found) = open(&path).unwrap();
    assert_eq!(found, []);
    let cut = recovery.cut.unwrap();
    assert_eq!((cut.at as usize, cut.bytes as usize, cut.records), (ends[0], ends[4] - ends[0], 3));
    let text = format!(
        "no complete record at byte {}; {} bytes from there on were cut off, with 3 records after the damage, and are \
         kept in \
         {}.cut-1",
        cut.at,
        cut.bytes,
        path.display()
    );
    assert_eq!(cut.to_string(), text);
}

#[test]
fn displaced_record_is_not_trusted() {
    let dir = directory();
    let path = dir.path().join("j");
    let ends = written(&path, &some());
    let bytes = fs::read(&path).unwrap();
    let (first, second) = (&bytes[ends[0]..ends[1]], &bytes[ends[1]..ends[2]]);
    fs::write(&path, [&bytes[..ends[0]], second, first].concat()).unwrap();
    assert_eq!(open(&path).unwrap().2, []);
    fs::write(&path, [&bytes[..ends[1]], first].concat()).unwrap();
    assert_eq!(open(&path).unwrap().2, some()[..1]);
}

#[test]
fn zeroed_tail_is_cut() {
    let dir = directory();
    let path = dir.path().join("j");
    let ends = written(&path, &some());
    let bytes = fs::read(&path).unwrap();
    for from in 0..bytes.len() {
        let mut lost = bytes.clone();
        lost[from..].fill(0);
        lost.resize(bytes.len() + 100, 0);
        if from < ends[0] {
            // A header can be lost in part only before the first record is written, so the file must not be longer than a header.
            lost.truncate(ends[0]);
        }
        fs::write(&path, &lost).unwrap();
        let (_, recovery, found) = open(&path).unwrap();
        remove_copy(&path, &lost, &recovery);
        // The results up to the first changed byte must be found. A record of zeros does not change when it
        // is overwritten with zeros.
        let same = lost.iter().zip(&bytes).take_while(|(a, b)| a == b).count();
        assert_eq!(found, before(&some(), &ends, same.min(bytes.len())), "from byte {from}");
    }
}

#[track_caller]
fn refused(path: &Path, identity: &Identity, kind: ErrorKind, parts: &[&str]) {
    let old = fs::read(path).unwrap();
    let error =
        Journal::open_within(path, identity, 1, |_, _| panic!("a result of another job")).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    let file = path.display().to_string();
    for part in parts.iter().chain([&file.as_str()]) {
        assert!(error.to_string().contains(part), "`{part}` is not in: {error}");
    }
    assert_eq!(fs::read(path).unwrap(), old, "it is left as it is");
}

#[test]
fn journal_of_another_job_is_refused_and_unchanged() {
    let dir = directory();
    let path = dir.path().join("j");
    written(&path, &some());
    let other = |name: &str, version: &str, fingerprint: [u8; 5]| Identity::new(name, version, fingerprint);
    let theirs = "it contains results of `squares` version `1`, fingerprint 0707070707; expected ";
    let config = ErrorKind::Config;
    refused(&path, &other("cubes", "1", [7; 5]), config, &[theirs, "expected `cubes` version `1`"]);
    refused(&path, &other("squares", "2", [7; 5]), config, &[theirs, "expected `squares` version `2`"]);
    let parts = [theirs, "fingerprint 0808080808 (the same program with other input or parameters)"];
    refused(&path, &other("squares", "1", [8; 5]), config, &parts);
    let text = Identity::new("squares", "1", "0 to 99");
    refused(&path, &text, config, &[theirs, "fingerprint `0 to 99` (the same program"]);
}

#[test]
fn other_files_and_versions_are_refused_and_unchanged() {
    let dir = directory();
    let path = dir.path().join("j");
    written(&path, &some());
    let bytes = fs::read(&path).unwrap();
    let mut version = bytes.clone();
    version[8] = 2;
    fs::write(&path, version).unwrap();
    refused(&path, &job(), ErrorKind::Config, &["format version 2, expected version 1"]);
    fs::write(&path, "Dear diary,\ntoday I computed squares.\n").unwrap();
    refused(
        &path,
        &job(),
        ErrorKind::Config,
        &["not a journal: it begins with `Dear dia`, expected `armajrnl`"],
    );
    fs::write(&path, "x").unwrap();
    refused(&path, &job(), ErrorKind::Config, &["shorter than a header"]);
    fs::write(&path, [0; 1000]).unwrap();
    refused(&path, &job(), ErrorKind::Config, &["not a journal"]);
}

#[test]
fn second_writer_is_refused() {
    let dir = directory();
    let path = dir.path().join("j");
    let (journal, ..) = open(&path).unwrap();
    refused(&path, &job(), ErrorKind::Config, &["another part of this process uses it and has not"]);
    drop(journal);
    open(&path).unwrap();
}

#[test]
fn reader_error_aborts_opening_without_changes() {
    let dir = directory();
    let path = dir.path().join("j");
    written(&path, &some());
    let mut torn = fs::read(&path).unwrap();
    torn.pop();
    fs::write(&path, &torn).unwrap();
    let no = || crate::Error::new(ErrorKind::Wire, "no square");
    let error = Journal::open(&path, &job(), |_, _| Err(no())).unwrap_err();
    assert_eq!(error.to_string(), "no square");
    assert_eq!(fs::read(&path).unwrap(), torn);
}

#[test]
fn full_disk_on_open_is_an_error_with_the_path() {
    let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
    let error = super::open::begin(&full, Path::new("/dev/full"), b"header", 0).unwrap_err();
    assert!(error.to_string().starts_with("cannot begin the journal /dev/full: No space left"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Io);
}

#[test]
fn non_regular_files_are_refused() {
    let dir = directory();
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for (path, what) in [
        (fifo.as_path(), "a FIFO"),
        (dir.path(), "a directory"),
        (Path::new("/dev/null"), "a character device"),
    ] {
        let error = Journal::open(path, &job(), |_, _| Ok(())).unwrap_err().to_string();
        let text = format!("cannot open the journal {}: is {what}, expected a regular file", path.display());
        assert!(error.starts_with(&text), "{error}");
    }
}

/// The user chooses the path of the journal, which may be a link to a file in another directory.
#[test]
fn journal_path_may_be_a_link() {
    let dir = directory();
    let (link, path) = (dir.path().join("link"), dir.path().join("j"));
    std::os::unix::fs::symlink("j", &link).unwrap();
    written(&link, &some());
    assert!(link.is_symlink());
    assert_eq!(open(&path).unwrap().2.len(), some().len());
}

#[test]
fn unwritable_path_is_named() {
    let error = Journal::open("/no/such/directory/j", &job(), |_, _| Ok(())).unwrap_err();
    assert!(error.to_string().starts_with("cannot open the journal /no/such/directory/j: "), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each case overwrites some bytes of a journal at random, and cuts its end off or extends it. The results up to the first changed record must be
    /// returned.
    #[test]
    fn random_damage_keeps_the_intact_prefix(
        results in vec((any::<u64>(), vec(any::<u8>(), 0..200)), 0..30),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        keep in any::<prop::sample::Index>(),
        torn in any::<bool>(),
        tail in vec(any::<u8>(), 0..50),
    ) {
        let dir = directory();
        let path = dir.path().join("j");
        let mut unique: Results = Vec::new();
        results.into_iter().for_each(|r| if unique.iter().all(|u| u.0 != r.0) { unique.push(r) });
        let ends = written(&path, &unique);
        let bytes = fs::read(&path).unwrap();
        let mut damaged = bytes.clone();
        for (at, byte) in damage.iter().filter(|_| bytes.len() > ends[0]) {
            damaged[ends[0] + at.index(bytes.len() - ends[0])] = *byte;
        }
        if torn {
            damaged.truncate(ends[0] + keep.index(bytes.len() - ends[0] + 1));
        }
        damaged.extend(&tail);
        fs::write(&path, &damaged).unwrap();
        let same = damaged.iter().zip(&bytes).take_while(|(a, b)| a == b).count();
        let (_, recovery, found) = open(&path).unwrap();
        let intact = before(&unique, &ends, same);
        prop_assert_eq!(&found, &intact);
        let end = ends[intact.len()];
        prop_assert_eq!(recovery.cut.map_or(0, |cut| cut.bytes), (damaged.len() - end) as u64);
        prop_assert_eq!(&fs::read(&path).unwrap(), &bytes[..end]);
    }
}

const CHILD: &str = "ARMATURE_TEST_JOURNAL";

fn payload(task: u64) -> Vec<u8> {
    task.to_le_bytes().repeat(1 + (task % 40) as usize)
}

/// Runs as a child process of another test: appends results to a journal until it is killed, and prints the number of each written result.
#[test]
#[ignore = "is started by another test"]
fn child_appends_until_killed() {
    let path = PathBuf::from(std::env::var_os(CHILD).expect("the test that starts this says where"));
    let (mut journal, recovery) = Journal::open(&path, &job(), |_, _| Ok(())).unwrap();
    let start = std::time::Instant::now();
    for task in recovery.tasks.. {
        journal.append(start.elapsed(), task, &payload(task)).unwrap();
        journal.tick(start.elapsed()).unwrap();
        println!("written {task}");
    }
}

#[test]
fn killed_writer_loses_no_written_results() {
    let dir = directory();
    let path = dir.path().join("j");
    let mut written = 0;
    for round in 1..=5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "persist::journal::tests::child_appends_until_killed",
                "--ignored",
                "--nocapture",
            ])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let mut count = 0;
        while count < 100 * round && lines.read_line(&mut line).unwrap() > 0 {
            count += u64::from(line.contains("written "));
            line.clear();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        // The last line that the killed child process printed may be incomplete.
        let whole = rest.rsplit_once('\n').map_or("", |(whole, _)| whole);
        written += count + whole.lines().filter(|line| line.starts_with("written ")).count() as u64;
        assert!(written >= 100 * round, "only {written} results were written");
        let (_, recovery, found) = open(&path).expect("a dead writer holds no lock");
        assert!(recovery.tasks >= written, "{written} were written, {} are there", recovery.tasks);
        for (at, (task, bytes)) in found.into_iter().enumerate() {
            assert_eq!((task, bytes), (at as u64, payload(at as u64)));
        }
        written = recovery.tasks;
    }
}
