//! Copies of damaged data that is cut off the end of a journal (file of completed results), in the journal's directory.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::holes;

/// Maximum number of copies of damaged data for one journal (file of completed results), so that the copies do not fill the disk.
const MOST: u32 = 100;

/// Copies the damaged end of the journal `file`, between the offsets `at` and `size`, to a new file, whose name is that of the journal with the
/// suffix `.cut-1`, or with the next unused number. Holes (ranges that were never written) are preserved. Returns `None` if the bytes are all zero.
///
/// # Errors
/// If the copy cannot be written, in which case it is removed, or if there are too many copies.
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
            let _ = fs::remove_file(&name);
            Err(error)
        }
    }
}

fn is_zero(file: &File, at: u64, size: u64) -> io::Result<bool> {
    /// Kind of the error by which `check_zero` reports that a byte is not zero.
    const FOUND: io::ErrorKind = io::ErrorKind::AlreadyExists;
    let check_zero = |_, piece: &[u8]| match piece.iter().all(|&byte| byte == 0) {
        true => Ok(()),
        false => Err(FOUND.into()),
    };
    match holes::data(file, at..size, check_zero) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == FOUND => Ok(false),
        Err(error) => Err(error),
    }
}

/// Creates a new file for a copy of the damaged end of a journal. An existing file or link with the same name is not changed.
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
    Err(io::Error::other(format!(
        "there are {MOST} copies of damaged ends that were cut off earlier; remove them"
    )))
}
