//! Regular files. Files of other types are refused without blocking.
//!
//! ```
//! use armature_files::regular;
//!
//! assert!(regular::read_to_string("/proc/version".as_ref())?.starts_with("Linux"));
//! let error = regular::read("/dev/null".as_ref()).unwrap_err();
//! assert_eq!(error.to_string(), "is a character device, expected a regular file");
//! # Ok::<(), std::io::Error>(())
//! ```

use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Handling of a symbolic link as the last component of a path. Links to directories in the other components are always followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// The link is followed, because a user has named the file.
    Followed,
    /// The link is refused, because the name is an internal one that others can guess.
    Refused,
}

/// Opens a file for reading. A link is followed.
///
/// # Errors
/// Errors of the system. For a file that is not regular, an error such as "is a FIFO, expected a regular file", without blocking.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(path, OpenOptions::new().read(true), Links::Followed)
}

/// Opens a regular file with the options of the caller, which may create or truncate it. The file type is checked before the file is truncated.
///
/// # Errors
/// The errors of [`open`].
pub fn open_with(path: &Path, options: &mut OpenOptions, links: Links) -> io::Result<File> {
    // The file type is checked before the file is opened, because opening some devices has side effects.
    let found = match links {
        Links::Followed => fs::metadata(path),
        Links::Refused => fs::symlink_metadata(path),
    };
    match found {
        Ok(found) => check(&found)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // The file type is checked again, because another process may have replaced the file meanwhile. With `NONBLOCK`,
    // opening a FIFO does not block.
    let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    if links == Links::Refused {
        flags |= OFlags::NOFOLLOW;
    }
    // The flags for opening a file use only low bits, so they fit into an `i32`.
    let file = options.custom_flags(flags.bits() as i32).open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Returns the content of a file. A link is followed.
///
/// # Errors
/// The errors of [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the content of a text file. A link is followed.
///
/// # Errors
/// The errors of [`open`]; [`InvalidData`](io::ErrorKind::InvalidData) if the file is not UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the content of a file of at most `most` bytes. Memory is allocated only for bytes that were read, so that a damaged or huge file
/// cannot exhaust it. A link is followed.
///
/// # Errors
/// The errors of [`open`]; [`InvalidData`](io::ErrorKind::InvalidData) if the file is larger.
pub fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // The buffer grows as bytes are read, because the length that the file system reports may be wrong.
    open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}

/// Returns the content of a text file of at most `most` bytes. A link is followed.
///
/// # Errors
/// The errors of [`read_at_most`], and [`InvalidData`](io::ErrorKind::InvalidData) if the file is not UTF-8.
pub fn read_text_at_most(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read_at_most(path, most)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

fn check(found: &Metadata) -> io::Result<()> {
    if found.is_file() { Ok(()) } else { Err(unexpected(found.file_type())) }
}

pub(crate) fn unexpected(found: FileType) -> io::Error {
    let kind = if found.is_dir() { io::ErrorKind::IsADirectory } else { io::ErrorKind::InvalidInput };
    let remedy = match found.is_fifo() {
        true => "; save the content of the pipe in a file and name that file",
        false => "",
    };
    io::Error::new(kind, format!("is {}, expected a regular file{remedy}", name(found)))
}

fn name(found: FileType) -> &'static str {
    match found {
        _ if found.is_dir() => "a directory",
        _ if found.is_fifo() => "a FIFO",
        _ if found.is_symlink() => "a symbolic link",
        _ if found.is_char_device() => "a character device",
        _ if found.is_block_device() => "a block device",
        _ if found.is_socket() => "a socket",
        _ => "no file",
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::tests::fifo;

    #[test]
    fn only_regular_files_are_read_and_others_do_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        fs::write(dir.join("file"), "text").unwrap();
        symlink("file", dir.join("link")).unwrap();
        fifo(&dir.join("fifo"));
        symlink("fifo", dir.join("to-fifo")).unwrap();
        let _socket = UnixListener::bind(dir.join("socket")).unwrap();
        assert_eq!(read(&dir.join("file")).unwrap(), b"text");
        assert_eq!(read_to_string(&dir.join("link")).unwrap(), "text");
        for (path, what) in [
            (dir.join("fifo"), "a FIFO"),
            (dir.join("to-fifo"), "a FIFO"),
            (dir.join("socket"), "a socket"),
            (dir.to_path_buf(), "a directory"),
            ("/dev/null".into(), "a character device"),
        ] {
            let error = read(&path).unwrap_err().to_string();
            assert!(error.starts_with(&format!("is {what}, expected a regular file")), "{error}");
            assert_eq!(what == "a FIFO", error.contains("save the content of the pipe"), "{error}");
        }
        assert_eq!(read(&dir.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(read(dir).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }

    /// A shell creates the path of an open pipe for `<(…)`, and `/dev/stdin` is one if the input of the process is a
    /// pipe.
    #[test]
    fn path_of_an_anonymous_pipe_is_refused_as_a_fifo() {
        let (reader, _writer) = io::pipe().unwrap();
        let error = read(Path::new(&format!("/proc/self/fd/{}", reader.as_raw_fd()))).unwrap_err();
        assert!(error.to_string().starts_with("is a FIFO, expected a regular file"), "{error}");
    }

    #[test]
    fn symbolic_links_are_refused_unless_following_is_allowed() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        fs::write(dir.join("precious"), "text").unwrap();
        symlink("precious", dir.join("link")).unwrap();
        symlink("new", dir.join("dangling")).unwrap();
        let truncate = |name: &str, links| {
            open_with(&dir.join(name), OpenOptions::new().write(true).create(true).truncate(true), links)
        };
        for name in ["link", "dangling"] {
            let error = truncate(name, Links::Refused).unwrap_err().to_string();
            assert_eq!(error, "is a symbolic link, expected a regular file");
        }
        assert_eq!(fs::read(dir.join("precious")).unwrap(), b"text");
        assert!(!dir.join("new").exists());
        truncate("made", Links::Refused).unwrap();
        truncate("dangling", Links::Followed).unwrap();
        truncate("link", Links::Followed).unwrap();
        assert_eq!(fs::read(dir.join("precious")).unwrap(), b"");
        assert!(dir.join("new").exists() && dir.join("made").exists());
    }

    #[test]
    fn too_large_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "text").unwrap();
        assert_eq!(read_text_at_most(&path, 4).unwrap(), "text");
        assert_eq!(read_at_most(&path, 3).unwrap_err().to_string(), "it has more than 3 bytes");
        // The file has 64 GiB and is refused after its first 64 KiB. Reading all of it would take minutes, and more
        // memory than many machines have.
        File::create(&path).unwrap().set_len(1 << 36).unwrap();
        assert_eq!(read_at_most(&path, 1 << 16).unwrap_err().kind(), io::ErrorKind::InvalidData);
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text_at_most(&path, 4).unwrap_err().to_string(), "it is not UTF-8 text");
    }
}
