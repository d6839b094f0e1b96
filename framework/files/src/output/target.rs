//! Target of an output path, after its symbolic links have been resolved.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Maximum number of symbolic links that Linux resolves in one path (`ELOOP`).
const LINKS: usize = 40;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OutputTarget {
    /// A regular file with this permission mode, or no file yet. The file is replaced.
    Replaced {
        at: PathBuf,
        mode: Option<u32>,
    },
    Fifo(PathBuf),
    /// A device such as a terminal, `/dev/null` or a disk.
    Device(PathBuf),
    /// An open file of a process, such as `/dev/stdout`.
    Descriptor(PathBuf),
}

impl OutputTarget {
    /// Resolves the symbolic links of `path` one by one, because the target of a link need not exist yet.
    ///
    /// # Errors
    /// If the path names a directory, has no file name or has too many links; errors of the file system.
    pub(super) fn of(path: &Path) -> io::Result<OutputTarget> {
        let mut at = path.to_path_buf();
        for _ in 0..LINKS {
            if at.file_name().is_none() {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file name"));
            }
            let found = match fs::symlink_metadata(&at) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(OutputTarget::Replaced { at, mode: None });
                }
                Err(error) => return Err(error),
            };
            let kind = found.file_type();
            if kind.is_symlink() {
                if is_descriptor(&at) {
                    return Ok(OutputTarget::Descriptor(at));
                }
                let to = fs::read_link(&at)?;
                at = at.parent().unwrap_or(Path::new("")).join(to);
            } else if kind.is_file() {
                return Ok(OutputTarget::Replaced { at, mode: Some(found.permissions().mode() & 0o7777) });
            } else if kind.is_fifo() {
                return Ok(OutputTarget::Fifo(at));
            } else if kind.is_dir() {
                let text = "is a directory, expected a file name";
                return Err(io::Error::new(io::ErrorKind::IsADirectory, text));
            } else {
                return Ok(OutputTarget::Device(at));
            }
        }
        Err(rustix::io::Errno::LOOP.into())
    }
}

/// Returns true if `link` is a link in `/proc` that represents an open file of a process. The text of this link
/// cannot be used as a path, because the open file may have no name; the kernel resolves the link to the open file
/// itself.
fn is_descriptor(link: &Path) -> bool {
    let parent = link.parent().and_then(|parent| parent.canonicalize().ok());
    parent.is_some_and(|parent| parent.starts_with("/proc") && parent.ends_with("fd"))
}
