//! Rank 0's store of checkpoints: collects the parts of the ranks, completes checkpoints and locks the directory.

use std::fs;
use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};

use armature_files::lock::{LockFile, TRIES};
use armature_files::output::is_left_over;
use armature_text::shown;

use super::folder::{Attempt, Folder};
use super::manifest::{self, Manifest, Owner, Saved};
use super::{io_error, refused};
use crate::error::Result;

/// Name of the file whose lock the job holds.
const LOCK: &str = "lock";

/// Collects the parts that ranks have written and completes checkpoints. The directory stays locked until the store is dropped.
#[derive(Debug)]
pub(crate) struct SnapshotStore {
    dir: PathBuf,
    owner: Owner,
    attempt: Attempt,
    /// Directory of the current checkpoint.
    last: Option<Folder>,
    /// Pass of the checkpoint that is being written, and the parts of its ranks.
    next: Option<(u64, Vec<Option<Vec<Saved>>>)>,
    _lock: LockFile,
}

impl SnapshotStore {
    /// Opens the directory of an owner's checkpoints, which is created if it does not exist, and returns the checkpoint in it. Removes
    /// other files that a dead job has left behind.
    ///
    /// # Errors
    /// If the directory holds a checkpoint of another owner or a damaged checkpoint, or if another job holds the lock for ten seconds;
    /// errors of the file system.
    pub(crate) fn open(
        dir: &Path,
        name: &str,
        identity: &[u8],
        units: u64,
    ) -> Result<(Self, Option<Manifest>)> {
        SnapshotStore::open_within(dir, name, identity, units, TRIES)
    }

    pub(super) fn open_within(
        dir: &Path,
        name: &str,
        identity: &[u8],
        units: u64,
        tries: u32,
    ) -> Result<(Self, Option<Manifest>)> {
        fs::create_dir_all(dir).map_err(|error| io_error("create the directory", dir, &error))?;
        let lock = lock(dir, tries)?;
        let identity = String::from_utf8_lossy(identity).into_owned();
        let owner = Owner { name: name.to_string(), identity, units };
        let found = Manifest::read(dir)?;
        if let Some(Manifest { owner: theirs, .. }) = found.as_ref().filter(|found| found.owner != owner) {
            let text = format!(
                "it belongs to another job: it is of {} with {} units and identity {}; expected {} with {} \
                 units and identity {}",
                shown(&theirs.name),
                theirs.units,
                shown(&theirs.identity),
                shown(&owner.name),
                owner.units,
                shown(&owner.identity)
            );
            return Err(refused(dir, &text));
        }
        let last = found.as_ref().map(Manifest::folder);
        tidy(dir, last.as_ref());
        let (dir, attempt) = (dir.to_path_buf(), Attempt::new());
        Ok((SnapshotStore { dir, owner, attempt, last, next: None, _lock: lock }, found))
    }

    /// Returns the identity of this start of the job.
    pub(super) fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns true if a checkpoint is being written.
    pub(crate) fn is_open(&self) -> bool {
        self.next.is_some()
    }

    /// Starts a checkpoint of the units after `pass` passes, written by `ranks` ranks. Returns false, and starts nothing, if the current
    /// checkpoint is of the same pass.
    pub(crate) fn begin(&mut self, pass: u64, ranks: usize) -> bool {
        if self.last.as_ref().is_some_and(|last| last.pass == pass) {
            return false;
        }
        self.next = Some((pass, vec![None; ranks]));
        true
    }

    /// Records the part of a rank. Returns true if this completes the checkpoint, which is the current one from now on.
    ///
    /// # Errors
    /// If the pieces do not contain each unit exactly once; errors of the file system.
    pub(crate) fn add(&mut self, rank: usize, pass: u64, saved: Vec<Saved>) -> Result<bool> {
        let Some((open, ranks)) = &mut self.next else { return Ok(false) };
        if *open != pass || rank >= ranks.len() {
            return Ok(false);
        }
        ranks[rank] = Some(saved);
        if ranks.iter().any(Option::is_none) {
            return Ok(false);
        }
        let ranks: Vec<Vec<Saved>> = ranks.iter_mut().map(|saved| saved.take().unwrap_or_default()).collect();
        self.next = None;
        let folder = Folder { pass, attempt: self.attempt.clone() };
        let manifest =
            Manifest::new(self.owner.clone(), &folder, ranks).map_err(|why| refused(&self.dir, &why))?;
        manifest.write(&self.dir).map_err(|error| io_error("write the manifest", &self.dir, &error))?;
        if let Some(before) = self.last.replace(folder) {
            before.remove(&self.dir);
        }
        Ok(true)
    }
}

fn lock(dir: &Path, tries: u32) -> Result<LockFile> {
    let waiting = |holder: &str| {
        log::info!("the checkpoint in {} is in use by {holder}; waiting for its lock", dir.display());
    };
    let path = dir.join(LOCK);
    LockFile::acquire(&path, tries, waiting).map_err(|error| match error.kind() {
        IoKind::ResourceBusy => {
            let text = format!("{error}. Each job needs a directory of its own");
            super::config_error(dir, &text)
        }
        _ => io_error("lock", &path, &error),
    })
}

/// Removes files that dead jobs have left behind: data of incomplete or superseded checkpoints, and incomplete manifests. Other files in
/// the directory are not touched.
fn tidy(dir: &Path, last: Option<&Folder>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if is_left_over(name, manifest::NAME) {
            // A failure is ignored, because the file only occupies disk space.
            let _ = fs::remove_file(entry.path());
        } else if let Some(folder) = Folder::named(name).filter(|folder| Some(folder) != last) {
            folder.remove(dir);
        }
    }
}
