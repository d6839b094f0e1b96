//! Rank 0's store of checkpoints: collects the ranks' reports, completes checkpoints, and locks the directory of the checkpoints.

use std::fs;
use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};

use armature_files::lock::{LockFile, TRIES};
use armature_files::output::is_left_over;
use armature_text::shown;

use super::folder::{Attempt, Folder};
use super::manifest::{self, Manifest, Owner, Read, Saved};
use super::writer::SnapshotWriter;
use super::{io_error, refused};
use crate::error::{Error, Result};

const LOCK: &str = "lock";

type RankPart = Result<Vec<Saved>>;

/// Collects the ranks' reports about a checkpoint, and completes the checkpoint. The directory of the checkpoints stays locked until the store is
/// dropped.
#[derive(Debug)]
pub(crate) struct SnapshotStore {
    dir: PathBuf,
    owner: Owner,
    attempt: Attempt,
    last: Option<Folder>,
    older: Option<Folder>,
    /// Checkpoint that is being written: its number of passes, and the report of each rank.
    next: Option<(u64, Vec<Option<RankPart>>)>,
    _lock: LockFile,
}

impl SnapshotStore {
    /// Opens the directory of a loop's checkpoints, which is created if it does not exist, and returns the newest checkpoint for which
    /// `load` succeeds, with the result of `load`. If the newest checkpoint is damaged, the checkpoint before it is used, with a warning.
    /// Removes other files that a dead job has left behind.
    ///
    /// # Errors
    /// If the directory holds a checkpoint of another loop, number of units or identity, or damaged checkpoints only, or if
    /// another job holds the lock for ten seconds; errors of the file system.
    pub(crate) fn open<T>(
        dir: &Path,
        name: &str,
        identity: &[u8],
        units: u64,
        load: impl Fn(&Manifest) -> Result<T>,
    ) -> Result<(Self, Option<(Manifest, T)>)> {
        SnapshotStore::open_within(dir, (name, identity, units), TRIES, load)
    }

    pub(super) fn open_within<T>(
        dir: &Path,
        (name, identity, units): (&str, &[u8], u64),
        tries: u32,
        load: impl Fn(&Manifest) -> Result<T>,
    ) -> Result<(Self, Option<(Manifest, T)>)> {
        fs::create_dir_all(dir).map_err(|error| io_error("create the directory", dir, &error))?;
        let lock = lock(dir, tries)?;
        let identity = String::from_utf8_lossy(identity).into_owned();
        let owner = Owner { name: name.to_string(), identity, units };
        let found = newest(dir, &owner, load)?;
        let last = found.as_ref().map(|(manifest, _)| manifest.folder());
        let older = match Manifest::read(dir, manifest::OLDER) {
            Ok(Read::Whole(older)) => Some(older.folder()).filter(|older| Some(older) != last.as_ref()),
            _ => None,
        };
        tidy(dir, &[&last, &older]);
        let (dir, attempt) = (dir.to_path_buf(), Attempt::new());
        Ok((SnapshotStore { dir, owner, attempt, last, older, next: None, _lock: lock }, found))
    }

    pub(super) fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn is_open(&self) -> bool {
        self.next.is_some()
    }

    /// Starts a checkpoint of the loop's units (rows or indices) after `pass` passes, of which `ranks` ranks write parts. Returns false, and starts
    /// nothing, if the newest checkpoint has the same number of passes.
    pub(crate) fn begin(&mut self, pass: u64, ranks: usize) -> bool {
        if self.last.as_ref().is_some_and(|last| last.pass == pass) {
            return false;
        }
        self.next = Some((pass, (0..ranks).map(|_| None).collect()));
        true
    }

    /// Returns the number of passes before the newest complete checkpoint, and the directory of the checkpoints; `None` if there is no checkpoint.
    pub(crate) fn kept(&self) -> Option<(u64, &Path)> {
        self.last.as_ref().map(|last| (last.pass, &*self.dir))
    }

    /// Abandons the checkpoint that is being written and removes all complete checkpoints.
    ///
    /// # Errors
    /// If a manifest cannot be removed. The data of a checkpoint without a manifest is ignored.
    pub(crate) fn clear(&mut self) -> Result<()> {
        self.next = None;
        // The older manifest is removed first: a job that starts between the two removals would otherwise resume from it.
        for name in [manifest::OLDER, manifest::NAME] {
            let path = self.dir.join(name);
            match fs::remove_file(&path) {
                Err(error) if !matches!(error.kind(), IoKind::NotFound | IoKind::NotADirectory) => {
                    return Err(io_error("remove", &path, &error));
                }
                _ => {}
            }
        }
        (self.last, self.older) = (None, None);
        tidy(&self.dir, &[]);
        Ok(())
    }

    /// Returns the writer of this rank's checkpoint files; if `has_thread` is false, the writer works synchronously.
    pub(crate) fn writer(&self, rank: usize, has_thread: bool) -> SnapshotWriter {
        SnapshotWriter::new(&self.dir, self.attempt.clone(), rank, has_thread)
    }

    /// Records that a rank has written its part of the checkpoint, or that it could not. Returns true if the part completes the checkpoint, which is
    /// the newest checkpoint from now on.
    ///
    /// # Errors
    /// When all ranks have reported: the error of a rank that could not write its part; if the ranks have not written each unit (row or index)
    /// exactly once; errors of the file system. The last complete checkpoint stays valid.
    pub(crate) fn add(&mut self, rank: usize, pass: u64, written: RankPart) -> Result<bool> {
        let Some((open, ranks)) = &mut self.next else { return Ok(false) };
        if *open != pass || rank >= ranks.len() {
            return Ok(false);
        }
        ranks[rank] = Some(written);
        if ranks.iter().any(Option::is_none) {
            return Ok(false);
        }
        let folder = Folder { pass, attempt: self.attempt.clone() };
        let ranks: Result<Vec<Vec<Saved>>> = ranks.drain(..).flatten().collect();
        self.next = None;
        // The files that other ranks have written for the failed checkpoint are removed only now, when no rank writes any more. On a full disk, the
        // next checkpoint needs their space.
        let ranks = ranks.inspect_err(|_| folder.remove(&self.dir))?;
        let manifest =
            Manifest::new(self.owner.clone(), &folder, ranks).map_err(|why| refused(&self.dir, &why))?;
        manifest.write(&self.dir).map_err(|error| io_error("write the manifest", &self.dir, &error))?;
        let before = self.last.replace(folder);
        if let Some(older) = std::mem::replace(&mut self.older, before) {
            older.remove(&self.dir);
        }
        Ok(true)
    }
}

fn newest<T>(
    dir: &Path,
    owner: &Owner,
    load: impl Fn(&Manifest) -> Result<T>,
) -> Result<Option<(Manifest, T)>> {
    let mut damage: Option<Error> = None;
    for name in [manifest::NAME, manifest::OLDER] {
        let loaded = match Manifest::read(dir, name)? {
            Read::Absent => continue,
            Read::Damaged(error) => Err(error),
            Read::Whole(manifest) => {
                check_owner(dir, &manifest.owner, owner)?;
                load(&manifest).map(|loaded| (manifest, loaded))
            }
        };
        match loaded {
            Ok(found) => {
                if let Some(damage) = damage {
                    log::warn!("{}; the checkpoint before it is used", damage.message());
                }
                if name == manifest::OLDER {
                    // Only the older manifest was usable. It is renamed to the newest one, because otherwise the next checkpoint would overwrite it
                    // before its own manifest is complete.
                    let path = dir.join(name);
                    fs::rename(&path, dir.join(manifest::NAME))
                        .map_err(|error| io_error("rename the manifest", &path, &error))?;
                }
                return Ok(Some(found));
            }
            Err(error) => damage = damage.or(Some(error)),
        }
    }
    damage.map_or(Ok(None), Err)
}

fn check_owner(dir: &Path, theirs: &Owner, ours: &Owner) -> Result<()> {
    if theirs == ours {
        return Ok(());
    }
    let text = format!(
        "it belongs to another job: it is of {} with {} units and identity {}; expected {} with {} units and identity {}",
        shown(&theirs.name),
        theirs.units,
        shown(&theirs.identity),
        shown(&ours.name),
        ours.units,
        shown(&ours.identity)
    );
    Err(refused(dir, &text))
}

fn lock(dir: &Path, tries: u32) -> Result<LockFile> {
    let waiting = |holder: &str| {
        log::info!("the checkpoint in {} is in use by {holder}; waiting for its lock", dir.display());
    };
    let path = dir.join(LOCK);
    LockFile::acquire(&path, tries, waiting).map_err(|error| match error.kind() {
        IoKind::ResourceBusy => {
            let text = format!("{error}. Each job needs a separate directory");
            super::config_error(dir, &text)
        }
        _ => io_error("lock", &path, &error),
    })
}

/// Removes files that dead jobs have left behind: data of incomplete or superseded checkpoints, and incomplete manifests. Other files in
/// the directory are not touched.
fn tidy(dir: &Path, kept: &[&Option<Folder>]) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if is_left_over(name, manifest::NAME) {
            // An error of the removal is ignored: a remaining file only occupies disk space.
            let _ = fs::remove_file(entry.path());
        } else if let Some(folder) = Folder::named(name)
            && !kept.iter().any(|kept| kept.as_ref() == Some(&folder))
        {
            folder.remove(dir);
        }
    }
}
