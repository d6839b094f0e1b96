//! The manifest: which checkpoint counts, and what is in it.

use std::fs::{self, File};
use std::io::{ErrorKind as IoKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{io_error, refused};
use crate::error::Result;

/// The version of the format that we read and write.
const VERSION: u32 = 1;
/// The manifest's name.
const NAME: &str = "manifest";

/// A piece of a rank's file: neighbouring units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::loops) struct Saved {
    /// The first unit.
    pub(in crate::loops) first: u64,
    /// How many there are.
    pub(in crate::loops) count: u64,
    /// Where in the file their data begin.
    pub(in crate::loops) at: u64,
    /// Bytes of the data.
    pub(in crate::loops) bytes: u64,
    /// CRC-32 of the data.
    pub(in crate::loops) sum: u32,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::loops) struct Manifest {
    version: u32,
    /// The loop.
    name: String,
    /// What else the units depend on, as hexadecimal digits.
    fingerprint: String,
    /// Its units.
    units: u64,
    /// Passes that have been done.
    pub(in crate::loops) pass: u64,
    /// By rank: what it has written.
    pub(super) ranks: Vec<Vec<Saved>>,
}

impl Manifest {
    /// The file of a rank.
    pub(super) fn file(&self, dir: &Path, rank: usize) -> PathBuf {
        file(dir, self.pass, rank)
    }
}

/// The file of a rank at the end of a pass.
pub(super) fn file(dir: &Path, pass: u64, rank: usize) -> PathBuf {
    generation(dir, pass).join(format!("rank-{rank}"))
}

fn generation(dir: &Path, pass: u64) -> PathBuf {
    dir.join(format!("pass-{pass}"))
}

/// Makes sure that the names in a directory are on the disk.
pub(super) fn sync(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Rank 0's side: collects what ranks have written, and says when a checkpoint is whole.
#[derive(Debug)]
pub(in crate::loops) struct Book {
    dir: PathBuf,
    blank: Manifest,
    /// The checkpoint that counts.
    last: Option<u64>,
    /// The one that is being written.
    next: Option<(u64, Vec<Option<Vec<Saved>>>)>,
}

impl Book {
    /// The directory of a loop's checkpoints, which is made if it is not there; with the checkpoint in it.
    ///
    /// # Errors
    /// If it holds one of another loop, or one that is damaged; errors of the file system.
    pub(in crate::loops) fn open(
        dir: &Path,
        name: &str,
        fingerprint: &[u8],
        units: u64,
    ) -> Result<(Self, Option<Manifest>)> {
        fs::create_dir_all(dir).map_err(|error| io_error("make the directory", dir, &error))?;
        let blank = Manifest {
            version: VERSION,
            name: name.to_string(),
            fingerprint: fingerprint.iter().map(|byte| format!("{byte:02x}")).collect(),
            units,
            pass: 0,
            ranks: Vec::new(),
        };
        let found = read(dir)?;
        if let Some(found) = &found {
            let theirs = (&found.name, &found.fingerprint, found.units);
            if theirs != (&blank.name, &blank.fingerprint, blank.units) {
                let text = format!(
                    "it belongs to another job: it is of loop {} with {} units and fingerprint {}; expected loop {} with {} \
                     units and fingerprint {}",
                    found.name, found.units, found.fingerprint, blank.name, blank.units, blank.fingerprint
                );
                return Err(refused(dir, &text));
            }
        }
        let last = found.as_ref().map(|found| found.pass);
        Ok((Book { dir: dir.to_path_buf(), blank, last, next: None }, found))
    }

    /// Whether a checkpoint is being written.
    pub(in crate::loops) fn is_open(&self) -> bool {
        self.next.is_some()
    }

    /// A checkpoint of the units after so many passes begins, of so many ranks. False, and nothing begins, if it is the
    /// one that counts: its files must not be written over.
    pub(in crate::loops) fn begin(&mut self, pass: u64, ranks: usize) -> bool {
        if self.last == Some(pass) {
            return false;
        }
        self.next = Some((pass, vec![None; ranks]));
        true
    }

    /// A rank has written its part. True if with that the checkpoint is whole, and counts from now on.
    ///
    /// # Errors
    /// If the pieces are not all units, each once; errors of the file system.
    pub(in crate::loops) fn add(&mut self, rank: usize, pass: u64, saved: Vec<Saved>) -> Result<bool> {
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
        let manifest = Manifest { pass, ranks, ..self.blank.clone() };
        check(&manifest).map_err(|why| refused(&self.dir, &why))?;
        write(&self.dir, &manifest).map_err(|error| io_error("write the manifest", &self.dir, &error))?;
        if let Some(before) = self.last.replace(pass).filter(|before| *before != pass) {
            // What is left over takes room and nothing else.
            let _ = fs::remove_dir_all(generation(&self.dir, before));
        }
        Ok(true)
    }
}

/// Whether the pieces are all units, each once.
fn check(manifest: &Manifest) -> Result<(), String> {
    let mut pieces: Vec<&Saved> = manifest.ranks.iter().flatten().collect();
    pieces.sort_by_key(|piece| piece.first);
    let mut next = 0;
    for piece in pieces.iter().filter(|piece| piece.count > 0) {
        if piece.first != next {
            return Err(format!("units from {next} on should follow, but units from {} on do", piece.first));
        }
        next += piece.count;
    }
    match manifest.units {
        units if units == next => Ok(()),
        units => Err(format!("it has {next} units, expected {units}")),
    }
}

fn write(dir: &Path, manifest: &Manifest) -> std::io::Result<()> {
    let mut text = serde_json::to_string(manifest)?;
    let sum = crc32fast::hash(text.as_bytes());
    text += &format!("\n{sum:08x}\n");
    let new = dir.join("manifest.new");
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, dir.join(NAME))?;
    sync(dir)
}

fn read(dir: &Path) -> Result<Option<Manifest>> {
    let path = dir.join(NAME);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == IoKind::NotFound => return Ok(None),
        Err(error) if error.kind() == IoKind::InvalidData => {
            return Err(refused(dir, "its manifest is damaged"));
        }
        Err(error) => return Err(io_error("read the manifest", &path, &error)),
    };
    let damaged = || refused(dir, "its manifest is damaged");
    let (json, sum) = text.trim_end().split_once('\n').ok_or_else(damaged)?;
    if u32::from_str_radix(sum, 16) != Ok(crc32fast::hash(json.as_bytes())) {
        return Err(damaged());
    }
    let manifest: Manifest = serde_json::from_str(json)
        .map_err(|error| refused(dir, &format!("its manifest is not of version {VERSION}: {error}")))?;
    if manifest.version != VERSION {
        let text = format!("it is in version {} of the format, expected version {VERSION}", manifest.version);
        return Err(refused(dir, &text));
    }
    check(&manifest).map_err(|why| refused(dir, &why))?;
    Ok(Some(manifest))
}
