//! Tests that the damaged end of a journal (file of completed results) is copied before it is cut off, and that memory is allocated only for intact
//! records.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::process::Command;

use super::format::Head;
use super::tests::{NOW, directory, open, some, written};
use crate::error::ErrorKind;

#[test]
fn existing_copies_of_cut_data_are_not_overwritten() {
    let dir = directory();
    let path = dir.path().join("j");
    written(&path, &some());
    let bytes = fs::read(&path).unwrap();
    let name = |number| dir.path().join(format!("j.cut-{number}"));
    // In this test, the name of the first copy of the journal's damaged end is taken by a link to a file that must not change.
    let precious = dir.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    std::os::unix::fs::symlink(&precious, name(1)).unwrap();
    for number in 2..=100 {
        fs::write(&path, [&bytes[..], &[number; 5]].concat()).unwrap();
        let cut = open(&path).unwrap().1.cut.unwrap();
        assert_eq!(cut.copy, Some(name(number)));
        assert_eq!(fs::read(name(number)).unwrap(), [number; 5]);
    }
    assert_eq!(fs::read(name(2)).unwrap(), [2; 5]);
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    let torn = [&bytes[..], b"torn"].concat();
    fs::write(&path, &torn).unwrap();
    let error = open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    let text = format!("cannot keep a copy of the damaged end of the journal {}: ", path.display());
    assert!(error.to_string().starts_with(&text) && error.to_string().contains("100 copies"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), torn);
    fs::remove_file(name(50)).unwrap();
    assert_eq!(open(&path).unwrap().1.cut.unwrap().copy, Some(name(50)));
}

const SPARSE: &str = "ARMATURE_TEST_SPARSE_JOURNAL";

/// Opens a journal in a child process of another test, and prints the virtual memory in kilobytes that this took.
#[test]
#[ignore = "is started by another test"]
fn child_opens_a_journal_and_prints_its_memory() {
    let path = PathBuf::from(std::env::var_os(SPARSE).expect("the test that starts this says where"));
    let peak = || {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let before = peak();
    let (_journal, recovery, found) = open(&path).unwrap();
    let (cut, taken) = (recovery.cut.unwrap(), peak() - before);
    println!("found {}, cut {} with {}, took {taken}", found.len(), cut.bytes, cut.records);
}

/// The journal's last record claims to have four gigabytes, which are a hole (a range that was never written). Two intact records follow the hole.
#[test]
fn sparse_journal_needs_little_memory() {
    let dir = directory();
    let path = dir.path().join("j");
    let ends = written(&path, &some());
    let end = *ends.last().unwrap() as u64;
    let head = Head { length: u32::MAX, sum: 17, task: 5 };
    let one = Head::new(head.sum, 6, 3, &[b"six"]);
    let two = Head::new(one.sum, 7, 5, &[b"seven"]);
    let behind = [&one.to_bytes()[..], b"six", &two.to_bytes(), b"seven"].concat();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let far = end + Head::SIZE as u64 + u64::from(u32::MAX);
    file.write_all_at(&head.to_bytes(), end).unwrap();
    file.write_all_at(&behind, far).unwrap();
    let size = far + behind.len() as u64 + (1 << 30);
    file.set_len(size).unwrap();

    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "persist::journal::cut_tests::child_opens_a_journal_and_prints_its_memory",
            "--ignored",
            "--nocapture",
        ])
        .env(SPARSE, &path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let counts = format!("found 4, cut {} with 2, took ", size - end);
    let (_, taken) = text.split_once(&counts).unwrap_or_else(|| panic!("`{counts}` is not in: {text}"));
    let taken: u64 = taken.split_whitespace().next().unwrap().parse().unwrap();
    // 256 MiB suffice for the stacks and heaps of two threads, and are far below the four gigabytes that the damaged record claims.
    assert!(taken < 256 << 10, "{taken} kB");

    assert_eq!(fs::metadata(&path).unwrap().len(), end);
    let copy = fs::File::open(dir.path().join("j.cut-1")).unwrap();
    let metadata = copy.metadata().unwrap();
    assert_eq!(metadata.len(), size - end);
    assert!(metadata.blocks() * 512 < 1 << 20, "the copy has holes, too: {} blocks", metadata.blocks());
    let mut kept = vec![0; behind.len()];
    copy.read_exact_at(&mut kept, far - end).unwrap();
    assert_eq!(kept, behind);
    let large = vec![3; 5 << 20];
    let (mut journal, ..) = open(&path).unwrap();
    journal.append(NOW, 9, &large).unwrap();
    journal.append(NOW, 10, b"ten").unwrap();
    journal.close().unwrap();
    let found = open(&path).unwrap().2;
    assert_eq!(found[4..], [(9, large), (10, b"ten".to_vec())]);
}
