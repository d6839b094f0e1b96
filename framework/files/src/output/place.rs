//! What is to be written to, for a path that a user has named.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// As many links as Linux follows.
const LINKS: usize = 40;

/// What is at a path, behind its links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A regular file with these permissions, or nothing yet.
    Replaced { at: PathBuf, mode: Option<u32> },
    /// A FIFO.
    Fifo(PathBuf),
    /// A terminal, `/dev/null`, a disk and the like.
    Device(PathBuf),
    /// An open file of a process, as `/dev/stdout` is.
    Descriptor(PathBuf),
}

impl Place {
    /// Follows the links of `path` one by one: a link may lead to a file that is still to be made.
    ///
    /// # Errors
    /// If a directory is there, or nothing can be.
    pub(super) fn of(path: &Path) -> io::Result<Place> {
        let mut at = path.to_path_buf();
        for _ in 0..LINKS {
            if at.file_name().is_none() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
            }
            let found = match fs::symlink_metadata(&at) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Place::Replaced { at, mode: None });
                }
                Err(error) => return Err(error),
            };
            let kind = found.file_type();
            if kind.is_symlink() {
                if is_descriptor(&at) {
                    return Ok(Place::Descriptor(at));
                }
                let to = fs::read_link(&at)?;
                at = at.parent().unwrap_or(Path::new("")).join(to);
            } else if kind.is_file() {
                return Ok(Place::Replaced { at, mode: Some(found.permissions().mode() & 0o7777) });
            } else if kind.is_fifo() {
                return Ok(Place::Fifo(at));
            } else if kind.is_dir() {
                let text = "is a directory, expected the name of a file";
                return Err(io::Error::new(io::ErrorKind::IsADirectory, text));
            } else {
                return Ok(Place::Device(at));
            }
        }
        Err(rustix::io::Errno::LOOP.into())
    }
}

/// Whether a link is one of those in `/proc` that stand for the open files of a process. They lead to what is open itself, also
/// where it has no name, and are not to be read.
fn is_descriptor(link: &Path) -> bool {
    let parent = link.parent().and_then(|parent| parent.canonicalize().ok());
    parent.is_some_and(|parent| parent.starts_with("/proc") && parent.ends_with("fd"))
}
