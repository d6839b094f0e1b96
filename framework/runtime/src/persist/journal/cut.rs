//! What is cut off a journal is kept beside it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::holes;

/// Copies of one journal at most. Nobody needs more, and they must not fill the disk.
const MOST: u32 = 100;

/// Copies what `file` has between the bytes `at` and `size` to a file of its own, whose name is that of the journal with
/// `.cut-1` behind it, or the next number that is free. Holes stay holes. `None` if there are only zeros, which say nothing.
///
/// # Errors
/// When the copy cannot be written, or there are too many; nothing is left of it then.
pub(super) fn keep(file: &File, path: &Path, at: u64, size: u64) -> io::Result<Option<PathBuf>> {
    if is_zero(file, at, size)? {
        return Ok(None);
    }
    let (copy, name) = create(path)?;
    let write = || {
        holes::data(file, at..size, |place, piece| copy.write_all_at(piece, place - at))?;
        copy.set_len(size - at)?;
        copy.sync_all()
    };
    match write() {
        Ok(()) => Ok(Some(name)),
        Err(error) => {
            // Half a copy is of no use.
            let _ = fs::remove_file(&name);
            Err(error)
        }
    }
}

fn is_zero(file: &File, at: u64, size: u64) -> io::Result<bool> {
    /// Something else was found.
    const FOUND: io::ErrorKind = io::ErrorKind::AlreadyExists;
    let look = |_, piece: &[u8]| match piece.iter().all(|&byte| byte == 0) {
        true => Ok(()),
        false => Err(FOUND.into()),
    };
    match holes::data(file, at..size, look) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == FOUND => Ok(false),
        Err(error) => Err(error),
    }
}

/// A new file beside the journal. What bears such a name already stays as it is, a link, too.
fn create(path: &Path) -> io::Result<(File, PathBuf)> {
    for number in 1..=MOST {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".cut-{number}"));
        let name = PathBuf::from(name);
        match OpenOptions::new().write(true).create_new(true).open(&name) {
            Ok(copy) => return Ok((copy, name)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(format!("there are {MOST} copies of what was cut off earlier; remove them")))
}
