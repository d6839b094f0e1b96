//! Loading of the units of a loop (rows or indices) from a checkpoint.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use armature_files::regular;

use super::manifest::{Manifest, Saved};
use super::{Checkpoint, io_error, refused};
use crate::error::{Error, Result};

/// Contiguous units (rows or indices) of a loop, loaded from a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoadedPiece {
    pub(crate) units: Range<u64>,
    pub(crate) data: Vec<u8>,
}

impl Checkpoint {
    pub(crate) fn refused(&self, why: &str) -> Error {
        refused(&self.dir, why)
    }
}

impl LoadedPiece {
    /// Returns an error if a loaded unit (row or index of the loop) does not have `bytes` bytes.
    ///
    /// # Errors
    /// If the sizes differ, because the checkpoint belongs to another program.
    pub(crate) fn check(&self, checkpoint: &Checkpoint, bytes: usize) -> Result<()> {
        let LoadedPiece { units, data } = self;
        let expected = (units.end - units.start) as usize * bytes;
        if data.len() == expected {
            return Ok(());
        }
        let text = format!("units {units:?} have {} bytes, expected {expected}", data.len());
        Err(refused(&checkpoint.dir, &text))
    }
}

/// Loads all pieces of a checkpoint that contain units (rows or indices of the loop) of `range`, which is not empty, in the order of the units. A
/// piece holds contiguous units, as one rank has written them, so the first and the last piece may contain units outside of the range.
///
/// # Errors
/// If a file is shorter than stated in the manifest or a checksum is wrong; errors of the file system.
pub(crate) fn load(dir: &Path, manifest: &Manifest, range: &Range<u64>) -> Result<Vec<LoadedPiece>> {
    let mut loaded = Vec::new();
    for (rank, pieces) in manifest.ranks.iter().enumerate() {
        let wanted =
            pieces.iter().filter(|p| p.count > 0 && p.first < range.end && p.first + p.count > range.start);
        let mut wanted = wanted.peekable();
        if wanted.peek().is_none() {
            continue;
        }
        let path = manifest.file(dir, rank);
        let mut file = regular::open(&path).map_err(|error| io_error("open", &path, &error))?;
        for piece in wanted {
            loaded.push(read(dir, &path, &mut file, piece)?);
        }
    }
    loaded.sort_by_key(|piece| piece.units.start);
    Ok(loaded)
}

/// Loads the additional data of each rank, which the rank has stored in a piece without units (rows or indices) of the loop; empty for a rank without
/// such data. Only the data of ranks of the earlier job for which `is_mine` returns true are loaded.
///
/// # Errors
/// The errors of [`load`].
pub(crate) fn load_rank_data(
    dir: &Path,
    manifest: &Manifest,
    is_mine: impl Fn(usize) -> bool,
) -> Result<Vec<Vec<u8>>> {
    let mine = manifest.ranks.iter().enumerate().filter(|(rank, _)| is_mine(*rank));
    let found = mine.map(|(rank, pieces)| {
        let Some(piece) = pieces.iter().find(|piece| piece.count == 0) else { return Ok(Vec::new()) };
        let path = manifest.file(dir, rank);
        let mut file = regular::open(&path).map_err(|error| io_error("open", &path, &error))?;
        Ok(read(dir, &path, &mut file, piece)?.data)
    });
    found.collect()
}

fn read(dir: &Path, path: &Path, file: &mut File, piece: &Saved) -> Result<LoadedPiece> {
    let io = |error| io_error("read", path, &error);
    let Saved { first, count, at, bytes, sum } = *piece;
    let damaged = |why: &str| {
        let text = format!("units {first}..{} in {} {why}", first + count, path.display());
        Err(refused(dir, &text))
    };
    file.seek(SeekFrom::Start(at)).map_err(io)?;
    // The buffer grows while the file is read, because a damaged checkpoint may state a size that the file does not have.
    let mut data = Vec::new();
    file.by_ref().take(bytes).read_to_end(&mut data).map_err(io)?;
    if data.len() as u64 != bytes {
        return damaged(&format!("have {} bytes, expected {bytes}", data.len()));
    }
    if crc32fast::hash(&data) != sum {
        return damaged("are damaged: their checksum is wrong");
    }
    Ok(LoadedPiece { units: first..first + count, data })
}
