//! The manifest: a file that names the current checkpoint and describes its contents.

use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};

use armature_files::{output, regular};
use serde::{Deserialize, Serialize};

use super::folder::{Attempt, Folder};
use super::{io_error, refused};
use crate::error::{Error, Result};

const VERSION: u32 = 2;
/// Maximum size of a manifest in bytes. For each rank, the manifest contains about two kilobytes.
const LONGEST: u64 = 256 << 20;
/// File name of the manifest of the newest checkpoint.
pub(super) const NAME: &str = "manifest";
/// File name of the manifest of the checkpoint before the newest one.
pub(super) const OLDER: &str = "manifest.old";

#[derive(Debug)]
pub(super) enum Read {
    Absent,
    Whole(Manifest),
    Damaged(Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Saved {
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Start of the units' data in the rank's checkpoint file, in bytes.
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) sum: u32,
}

/// Report of a rank about its part of a checkpoint: the units (rows or indices) that it has written, or why it could not write them.
pub(crate) type Written = Result<Vec<Saved>, String>;

/// Owner of a checkpoint: the loop, its number of units, and the identity of the run. A checkpoint of another owner must not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Owner {
    pub(super) name: String,
    /// JSON text that identifies the run: its parameters, seeds and input, on which the result of the loop depends.
    pub(super) identity: String,
    pub(super) units: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    version: u32,
    pub(super) owner: Owner,
    /// Number of passes of the loop before the checkpoint.
    pub(crate) pass: u64,
    attempt: Attempt,
    /// Descriptions of the contiguous units (rows or indices of the loop) that each rank has written.
    pub(super) ranks: Vec<Vec<Saved>>,
}

impl Manifest {
    /// Creates the manifest of a checkpoint from the ranks' reports.
    ///
    /// # Errors
    /// If the ranks have not written each unit (row or index of the loop) exactly once.
    pub(super) fn new(owner: Owner, folder: &Folder, ranks: Vec<Vec<Saved>>) -> Result<Self, String> {
        let (pass, attempt) = (folder.pass, folder.attempt.clone());
        let manifest = Manifest { version: VERSION, owner, pass, attempt, ranks };
        manifest.check().map(|()| manifest)
    }

    pub(super) fn folder(&self) -> Folder {
        Folder { pass: self.pass, attempt: self.attempt.clone() }
    }

    pub(super) fn file(&self, dir: &Path, rank: usize) -> PathBuf {
        self.folder().file(dir, rank)
    }

    fn check(&self) -> Result<(), String> {
        let mut pieces: Vec<&Saved> = self.ranks.iter().flatten().collect();
        pieces.sort_by_key(|piece| piece.first);
        let mut next = 0;
        for piece in pieces.iter().filter(|piece| piece.count > 0) {
            if piece.first != next {
                return Err(format!("units from {} on follow, expected units from {next} on", piece.first));
            }
            let Some(end) = piece.first.checked_add(piece.count) else {
                return Err(format!(
                    "{} units from {} on exceed the range of unit numbers",
                    piece.count, piece.first
                ));
            };
            next = end;
        }
        match self.owner.units {
            units if units == next => Ok(()),
            units => Err(format!("it has {next} units, expected {units}")),
        }
    }

    /// Writes the manifest and syncs it. Before that, the newest manifest is renamed and kept as the older one. A job that dies between the two steps
    /// leaves only the older manifest.
    ///
    /// # Errors
    /// The errors of the file system.
    pub(super) fn write(&self, dir: &Path) -> std::io::Result<()> {
        let mut text = serde_json::to_string(self)?;
        let sum = crc32fast::hash(text.as_bytes());
        text += &format!("\n{sum:08x}\n");
        match std::fs::rename(dir.join(NAME), dir.join(OLDER)) {
            Err(error) if error.kind() != IoKind::NotFound => Err(error),
            _ => output::replace(&dir.join(NAME), text.as_bytes()),
        }
    }

    /// Checks that the checkpoint files of all ranks are at least as long as the manifest states.
    ///
    /// # Errors
    /// If a file is missing or too short; errors of the file system.
    pub(super) fn check_files(&self, dir: &Path) -> Result<()> {
        for (rank, pieces) in self.ranks.iter().enumerate().filter(|(_, pieces)| !pieces.is_empty()) {
            let path = self.file(dir, rank);
            let length = regular::open(&path).and_then(|file| file.metadata());
            let length = length.map_err(|error| io_error("open", &path, &error))?.len();
            let expected = pieces.iter().map(|piece| piece.at.saturating_add(piece.bytes)).max().unwrap_or(0);
            if length < expected {
                let text = format!("{} has {length} bytes, expected {expected}", path.display());
                return Err(refused(dir, &text));
            }
        }
        Ok(())
    }

    /// # Errors
    /// If the manifest is in another version of the format; errors of the file system.
    pub(super) fn read(dir: &Path, name: &str) -> Result<Read> {
        let path = dir.join(name);
        let damaged = || Ok(Read::Damaged(refused(dir, "its manifest is damaged")));
        let text = match regular::read_text_at_most(&path, LONGEST) {
            Ok(text) => text,
            Err(error) if error.kind() == IoKind::NotFound => return Ok(Read::Absent),
            Err(error) if error.kind() == IoKind::InvalidData => return damaged(),
            Err(error) => return Err(io_error("read the manifest", &path, &error)),
        };
        let Some((json, sum)) = text.trim_end().split_once('\n') else { return damaged() };
        if u32::from_str_radix(sum, 16) != Ok(crc32fast::hash(json.as_bytes())) {
            return damaged();
        }
        let manifest: Manifest = serde_json::from_str(json).map_err(|error| {
            refused(
                dir,
                &format!(
                    "its manifest is not in format version {VERSION}: {}",
                    armature_text::shown(&error.to_string())
                ),
            )
        })?;
        if manifest.version != VERSION {
            let text = format!("it has format version {}, expected version {VERSION}", manifest.version);
            return Err(refused(dir, &text));
        }
        manifest.check().map_err(|why| refused(dir, &why))?;
        Ok(Read::Whole(manifest))
    }
}
