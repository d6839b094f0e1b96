//! Checkpoints without ranks.

use std::fs;

use super::manifest::{Book, Manifest};
use super::*;
use crate::error::Result;

const UNITS: u64 = 10;

/// The data of a unit after so many passes.
fn unit(n: u64, pass: u64) -> [u8; 2] {
    [n as u8, pass as u8]
}

fn piece(units: std::ops::Range<u64>, pass: u64) -> Piece {
    (units.start, units.end - units.start, units.flat_map(|n| unit(n, pass)).collect())
}

/// Writes a checkpoint of two ranks, of which the second has two pieces; returns whether it counts.
fn save(dir: &Path, book: &mut Book, pass: u64, has_thread: bool) -> bool {
    assert!(book.begin(pass, 2));
    let mut is_whole = false;
    let parts = [vec![piece(3..7, pass)], vec![piece(7..10, pass), piece(0..3, pass)]];
    for (rank, pieces) in parts.into_iter().enumerate() {
        assert!(book.is_open() && !is_whole);
        let mut writer = Writer::new(dir, rank, has_thread);
        writer.save(pass, pieces).unwrap();
        let (saved_pass, saved) = loop {
            assert!(writer.is_busy());
            match writer.poll().unwrap() {
                Some(saved) => break saved,
                None => std::thread::yield_now(),
            }
        };
        assert!(!writer.is_busy());
        is_whole = book.add(rank, saved_pass, saved).unwrap();
    }
    is_whole
}

fn open(dir: &Path) -> Result<(Book, Option<Manifest>)> {
    Book::open(dir, "rows", b"seed 1", UNITS)
}

fn all(dir: &Path, manifest: &Manifest) -> Vec<u8> {
    load(dir, manifest, &(0..UNITS)).unwrap().into_iter().flat_map(|piece| piece.data).collect()
}

#[test]
fn units_come_back_for_any_range() {
    let dir = tempfile::tempdir().unwrap();
    let dir = &dir.path().join("new");
    for has_thread in [false, true] {
        let (mut book, _) = open(dir).unwrap();
        assert!(save(dir, &mut book, 4, has_thread));
        let (_, manifest) = open(dir).unwrap();
        let manifest = manifest.unwrap();
        assert_eq!(manifest.pass, 4);
        assert_eq!(all(dir, &manifest), (0..UNITS).flat_map(|n| unit(n, 4)).collect::<Vec<u8>>());
        let some = load(dir, &manifest, &(2..4)).unwrap();
        assert_eq!(some.iter().map(|piece| piece.units.clone()).collect::<Vec<_>>(), [0..3, 3..7]);
        assert!(load(dir, &manifest, &(10..12)).unwrap().is_empty());
        assert!(!book.begin(4, 2), "what counts is not written over");
        fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn the_checkpoint_before_counts_until_the_next_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (mut book, none) = open(dir).unwrap();
    assert_eq!(none, None);
    save(dir, &mut book, 4, false);
    // The job ends when one of two ranks has written the next one.
    assert!(book.begin(8, 2));
    let mut writer = Writer::new(dir, 0, false);
    writer.save(8, vec![piece(0..5, 8)]).unwrap();
    let (pass, saved) = writer.poll().unwrap().unwrap();
    assert!(!book.add(0, pass, saved).unwrap());
    let (mut book, manifest) = open(dir).unwrap();
    let manifest = manifest.unwrap();
    assert_eq!((manifest.pass, all(dir, &manifest)[1]), (4, 4));
    // When the next is whole, the one before goes.
    assert!(save(dir, &mut book, 8, false));
    assert!(dir.join("pass-8").exists() && !dir.join("pass-4").exists());
    assert_eq!(open(dir).unwrap().1.unwrap().pass, 8);
}

#[test]
fn pieces_that_are_not_all_units_do_not_count() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (parts, expected) in [
        ([0..5, 6..10], "units from 5 on should follow, but units from 6 on do"),
        ([0..5, 4..10], "units from 5 on should follow, but units from 4 on do"),
        ([0..5, 5..9], "it has 9 units, expected 10"),
    ] {
        let (mut book, _) = open(dir).unwrap();
        assert!(book.begin(1, 1));
        let mut writer = Writer::new(dir, 0, false);
        writer.save(1, parts.map(|part| piece(part, 1)).to_vec()).unwrap();
        let (pass, saved) = writer.poll().unwrap().unwrap();
        let error = book.add(0, pass, saved).unwrap_err();
        assert!(error.message().contains(expected), "{error}");
        assert_eq!(open(dir).unwrap().1, None);
    }
}

#[test]
fn another_jobs_checkpoint_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    save(dir, &mut open(dir).unwrap().0, 4, false);
    for (name, fingerprint, units) in
        [("columns", b"seed 1", UNITS), ("rows", b"seed 2", UNITS), ("rows", b"seed 1", 11)]
    {
        let error = Book::open(dir, name, fingerprint, units).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(
            error.message().contains("belongs to another job: it is of loop rows with 10 units"),
            "{error}"
        );
    }
}

#[test]
fn damage_is_found_wherever_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    save(dir, &mut open(dir).unwrap().0, 4, false);
    let manifest = open(dir).unwrap().1.unwrap();
    for path in [dir.join("pass-4/rank-0"), dir.join("pass-4/rank-1"), dir.join("manifest")] {
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&path, &bytes).unwrap();
            let found = open(dir).and_then(|(_, manifest)| load(dir, &manifest.unwrap(), &(0..UNITS)));
            // But for the line's end behind the checksum.
            assert!(found.is_err() || at + 1 == whole.len(), "byte {at} of {}", path.display());
        }
        fs::write(&path, &whole[..whole.len() - 2]).unwrap();
        assert!(open(dir).and_then(|(_, manifest)| load(dir, &manifest.unwrap(), &(0..UNITS))).is_err());
        fs::write(&path, &whole).unwrap();
    }
    fs::remove_file(dir.join("pass-4/rank-1")).unwrap();
    let error = load(dir, &manifest, &(0..UNITS)).unwrap_err();
    assert!(error.message().contains("cannot open") && error.message().contains("rank-1"), "{error}");
}

#[test]
fn a_directory_that_cannot_be_written_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(open(&file).unwrap_err().kind(), ErrorKind::Io);
    let mut writer = Writer::new(&file, 3, true);
    writer.save(1, vec![piece(0..10, 1)]).unwrap();
    let error = loop {
        match writer.poll() {
            Ok(None) => std::thread::yield_now(),
            Ok(Some(saved)) => panic!("written: {saved:?}"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().starts_with("rank 3: cannot write"), "{error}");
}
