//! Tests that the bytes of checkpoint files, and of the messages about checkpoints, do not change from version to version.

use std::fs;
use std::path::Path;

use super::coordinator::{Resume, Tag};
use super::folder::{Attempt, Folder};
use super::manifest::{Manifest, Owner, Saved};
use super::store::SnapshotStore;
use super::{CheckpointPiece, LoadedPiece, SnapshotWriter, load};
use crate::golden::{Messages, check_file, place};

/// Identifier of the start of the job that wrote the checkpoint files in the repository, with which the test compares.
const ATTEMPT: &str = "0123456789abcdef";
const UNITS: u64 = 10;
const PASS: u64 = 120;
const IDENTITY: &str = "seed 7";

fn attempt() -> Attempt {
    ATTEMPT.to_string().try_into().unwrap()
}

fn data(units: std::ops::Range<u64>) -> Vec<u8> {
    units.flat_map(|unit| [unit as u8, 200 + unit as u8]).collect()
}

fn parts() -> [Vec<CheckpointPiece>; 2] {
    let piece = |first: u64, end: u64| (first, end - first, data(first..end));
    [vec![piece(3, 7)], vec![piece(7, 10), piece(0, 3)]]
}

fn manifest(ranks: Vec<Vec<Saved>>) -> Manifest {
    let owner = Owner { name: "golden \"rows\"".into(), identity: IDENTITY.into(), units: UNITS };
    Manifest::new(owner, &Folder { pass: PASS, attempt: attempt() }, ranks).unwrap()
}

fn write(dir: &Path) -> Manifest {
    let written = (0..).zip(parts()).map(|(rank, pieces)| {
        let mut writer = SnapshotWriter::new(dir, attempt(), rank, false);
        writer.save(PASS, pieces).unwrap();
        writer.poll().unwrap().1.unwrap()
    });
    let manifest = manifest(written.collect());
    manifest.write(dir).unwrap();
    manifest
}

fn files() -> [String; 3] {
    let folder = format!("pass-{PASS}-{ATTEMPT}");
    ["manifest".to_string(), format!("{folder}/rank-0"), format!("{folder}/rank-1")]
}

#[test]
fn checkpoint_format_is_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    fs::create_dir(&new).unwrap();
    let written = write(&new);
    // The test resumes from a copy of the checkpoint files in the repository, because a job also writes to the directory from which it resumes.
    for name in files() {
        check_file(&format!("checkpoint/{name}"), &new.join(&name));
        fs::create_dir_all(old.join(&name).parent().unwrap()).unwrap();
        fs::copy(place("files/checkpoint").join(&name), old.join(&name)).unwrap();
    }
    let (_store, found) =
        SnapshotStore::open_within(&old, ("golden \"rows\"", IDENTITY.as_bytes(), UNITS), 1, |_| Ok(()))
            .unwrap();
    let (found, ()) = found.unwrap();
    assert_eq!(found, written);
    let units = |range| load(&old, &found, &range).unwrap();
    let pieces = [0..3, 3..7, 7..10].map(|units| LoadedPiece { data: data(units.clone()), units });
    assert_eq!(units(0..UNITS), pieces);
    assert_eq!(units(4..5), pieces[1..2]);
}

#[test]
fn checkpoint_message_encoding_is_unchanged() {
    let saved = |first, count| Saved { first, count, at: 300, bytes: 70_000, sum: 0x0403_0201 };
    let found = manifest(vec![vec![saved(3, 7)], vec![saved(0, 3)]]);
    let mut messages = Messages::default();
    let resume = |found| Resume { attempt: attempt(), found };
    messages.value("there is no checkpoint", Tag::StartingPoint, &resume(None));
    messages.value("there is a checkpoint", Tag::StartingPoint, &resume(Some(found)));
    messages.check("checkpoints");
}
