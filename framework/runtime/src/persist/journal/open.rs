//! Opening of a journal (file of completed results): checks that it belongs to this job, reads its records, and finds the end at which records are
//! appended.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind as IoKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use armature_files::lock::lock;
use armature_files::regular::{Links, open_with};
use bytes::Bytes;

use super::format::{self, LONGEST_IDENTITY, MAGIC, SUM, Start, VERSION};
use super::scan::{Scan, Stop, scan};
use super::{Identity, cut, io_error, refused};
use crate::error::{Error, ErrorKind, Result};

/// Opens and locks the journal at `path`, so that records can be appended after the last whole record. Tries `tries` times to lock the file.
pub(super) fn open(
    path: &Path,
    identity: &Identity,
    tries: u32,
    each: impl FnMut(u64, Bytes) -> Result<()>,
) -> Result<(File, Scan)> {
    let header = format::header(identity).map_err(|why| refused(path, &why))?;
    // The header ends with its checksum, on which the checksum of the first record depends.
    let chain = header.last_chunk().map_or(0, |sum| u32::from_le_bytes(*sum));
    let io = |doing: &'static str| move |error| io_error(doing, path, &error);
    let mut options = OpenOptions::new();
    let file = open_with(path, options.read(true).append(true).create(true), Links::Followed);
    let file = file.map_err(io("open"))?;
    let waiting = |holder: &str| {
        log::info!("the journal {} is in use by {holder}; waiting for its lock", path.display());
    };
    lock(&file, tries, waiting).map_err(|error| match error.kind() {
        IoKind::ResourceBusy => refused(path, &error.to_string()),
        _ => io_error("lock", path, &error),
    })?;
    let size = file.metadata().map_err(io("read"))?.len();
    if is_unfinished(&file, size, &header).map_err(io("read"))? {
        begin(&file, path, &header, size)?;
    } else {
        check(&file, path, size, identity)?;
    }
    let start = header.len() as u64;
    let size = size.max(start);
    let mut scan = scan(&file, start, size, chain, each).map_err(|stop| stopped(stop, path))?;
    if let Some(cut) = &mut scan.recovery.cut {
        cut.copy = cut::keep(&file, path, cut.at, size).map_err(io("keep a copy of the damaged end of"))?;
        file.set_len(scan.end).map_err(io("cut the damaged end off"))?;
        log::warn!("the journal {}: {cut}; {} tasks were restored", path.display(), scan.recovery.tasks);
    }
    Ok((file, scan))
}

/// Passes the whole records of the journal at `path` to `each`. This process already has the journal open for writing.
pub(super) fn read(
    path: &Path,
    identity: &Identity,
    each: impl FnMut(u64, Bytes) -> Result<()>,
) -> Result<()> {
    let header = format::header(identity).map_err(|why| refused(path, &why))?;
    let chain = header.last_chunk().map_or(0, |sum| u32::from_le_bytes(*sum));
    let file = File::open(path).map_err(|error| io_error("read", path, &error))?;
    let size = file.metadata().map_err(|error| io_error("read", path, &error))?.len();
    scan(&file, header.len() as u64, size, chain, each).map(drop).map_err(|stop| stopped(stop, path))
}

fn stopped(stop: Stop, path: &Path) -> Error {
    match stop {
        Stop::Io(error) => io_error("read", path, &error),
        Stop::Caller(error) => error,
    }
}

/// Returns true if the file is empty or contains an incomplete write of the journal's header: a part of it, or zeros in place of bytes that did not
/// reach the disk.
fn is_unfinished(mut file: &File, size: u64, header: &[u8]) -> std::io::Result<bool> {
    if size > header.len() as u64 {
        return Ok(false);
    }
    let mut found = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(size).read_to_end(&mut found)?;
    let same = found.iter().zip(header).take_while(|(a, b)| a == b).count();
    Ok(same < header.len() && found[same..].iter().all(|&byte| byte == 0))
}

pub(super) fn begin(mut file: &File, path: &Path, header: &[u8], size: u64) -> Result<()> {
    let io = |error| io_error("begin", path, &error);
    if size > 0 {
        log::warn!(
            "the journal {}: its writer stopped before the first record; the journal starts again",
            path.display()
        );
        file.set_len(0).map_err(io)?;
    }
    file.write_all(header).map_err(io)?;
    file.sync_all().map_err(io)?;
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|directory| directory.sync_all()).map_err(io)
}

fn check(mut file: &File, path: &Path, size: u64, ours: &Identity) -> Result<()> {
    let io = |error| io_error("read", path, &error);
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    let mut start = Vec::new();
    file.take((Start::SIZE + LONGEST_IDENTITY + SUM) as u64).read_to_end(&mut start).map_err(io)?;
    let theirs = read_header(&start).map_err(|why| refused(path, &format!("{why} ({size} bytes)")))?;
    if &theirs == ours {
        return Ok(());
    }
    let mut text = format!("it belongs to another job: it contains results of {theirs:?}; expected {ours:?}");
    if (&theirs.name, &theirs.version) == (&ours.name, &ours.version) {
        text += " (the same program with other input or parameters)";
    }
    text += ". Remove it, or name another file";
    Err(Error::new(ErrorKind::Config, format!("the journal {}: {text}", path.display())))
}

fn read_header(bytes: &[u8]) -> Result<Identity, String> {
    let Some(Start { magic, version, length }) = Start::read(bytes) else {
        return Err("the file is not a journal: it is shorter than a header".into());
    };
    let magic = magic.to_le_bytes();
    if magic != MAGIC {
        let (found, expected) = (magic.escape_ascii(), MAGIC.escape_ascii());
        return Err(format!("the file is not a journal: it begins with `{found}`, expected `{expected}`"));
    }
    if version != VERSION {
        return Err(format!("it has format version {version}, expected version {VERSION}"));
    }
    let damaged = || "its header is damaged, so the job of its results is unknown".to_string();
    let end = Start::SIZE.saturating_add(length as usize);
    let (header, rest) = bytes.split_at_checked(end).ok_or_else(damaged)?;
    let sum = rest.first_chunk().ok_or_else(damaged)?;
    if crc32fast::hash(header) != u32::from_le_bytes(*sum) {
        return Err(damaged());
    }
    format::identity(&header[Start::SIZE..]).ok_or_else(damaged)
}
