//! Temporary file in the directory of its destination, and its move to the destination.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::fresh;

/// Maximum number of bytes of the destination's name that become part of the temporary file's name. File systems limit a name to 255 bytes.
const NAME: usize = 100;

/// Guarantee for a finished file: its content is on the disk when the call returns, or not necessarily.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    Synced,
    Unsynced,
}

/// Open temporary file with an unpredictable name. It is removed if it is dropped before it has been moved to its
/// destination.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    file: File,
    temporary: PathBuf,
    destination: PathBuf,
    is_finished: bool,
}

impl TemporaryFile {
    /// Creates a temporary file that will replace `destination`, with the permissions `mode` or, if `mode` is `None`,
    /// those of a new file.
    pub(super) fn create(destination: &Path, mode: Option<u32>) -> io::Result<TemporaryFile> {
        let Some(name) = destination.file_name() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file name"));
        };
        let start = &name.as_bytes()[..name.len().min(NAME)];
        let hidden = [b".", start, b"-", fresh().as_bytes(), b".tmp"].concat();
        let temporary = destination.with_file_name(OsString::from_vec(hidden));
        // `create_new` fails if a file or a link with this name exists.
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary)?;
        let temporary_file =
            TemporaryFile { file, temporary, destination: destination.to_path_buf(), is_finished: false };
        if let Some(mode) = mode {
            temporary_file.file.set_permissions(Permissions::from_mode(mode))?;
        }
        Ok(temporary_file)
    }

    pub(super) fn finish(mut self, durability: Durability) -> io::Result<()> {
        if durability == Durability::Synced {
            self.file.sync_all()?;
        }
        fs::rename(&self.temporary, &self.destination)?;
        self.is_finished = true;
        if durability == Durability::Synced {
            sync_parent(&self.destination)?;
        }
        Ok(())
    }
}

impl Write for TemporaryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Waits until the entry of `path` in its directory is on the disk, so that the file is found after a crash of the
/// machine.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Returns true if `name` is a name that [`TemporaryFile::create`] chooses for a replacement of `file`. The name `file` must be shorter than
/// [`NAME`].
pub(super) fn is_temporary_of(name: &str, file: &str) -> bool {
    let middle = name.strip_prefix('.').and_then(|rest| rest.strip_prefix(file));
    let digits = middle.and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".tmp"));
    digits.is_some_and(|digits| digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
