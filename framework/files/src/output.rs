//! Output files: results that a user has named, and internal files. New content replaces the old content of a file
//! atomically.
//!
//! ```
//! use std::io::Write;
//! use armature_files::output::Output;
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("answers.tsv");
//!
//! std::fs::write(&path, "old")?;
//! let mut output = Output::create(&path)?;
//! output.write_all(b"new")?;
//! assert_eq!(std::fs::read_to_string(&path)?, "old");
//! output.commit()?;
//! assert_eq!(std::fs::read_to_string(&path)?, "new");
//! # Ok::<(), std::io::Error>(())
//! ```

mod target;
mod temporary_file;

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use target::OutputTarget;
pub(crate) use temporary_file::sync_parent;
use temporary_file::{Durability, TemporaryFile};

use crate::regular::unexpected;

/// Maximum time to wait for the reader of a FIFO. A reader that is started together with the writer needs a moment to
/// open the FIFO. With a much longer limit, a mistyped name would block a job with many ranks.
const READER: Duration = Duration::from_secs(10);
const POLL_PERIOD: Duration = Duration::from_millis(20);

/// Output file that a user has named, for example with `-o FILE`.
///
/// If the path names a regular file or does not exist, the content is written to a temporary file in the same directory.
/// [`commit`](Output::commit) moves the temporary file to the destination, so that other processes see the old content or the complete new
/// content. The new file keeps the permissions of the file that it replaces. An output that is dropped without a commit leaves no file
/// behind. A symbolic link stays, and its target is replaced or created.
///
/// Files of other types are opened and written directly: terminals and other devices, FIFOs, and descriptors of this process such as
/// `/dev/stdout`.
#[derive(Debug)]
pub struct Output {
    /// Destination of the written bytes; `None` after the commit.
    to: Option<To>,
}

#[derive(Debug)]
enum To {
    Replacement(BufWriter<TemporaryFile>),
    Stream(BufWriter<File>),
}

impl Output {
    /// Opens an output at `path`.
    ///
    /// # Errors
    /// If `path` is a directory or names no file, its directory cannot be written to, or a FIFO has no reader within ten
    /// seconds.
    pub fn create(path: &Path) -> io::Result<Self> {
        let to = match OutputTarget::of(path)? {
            OutputTarget::Replaced { at, mode } => {
                To::Replacement(BufWriter::new(TemporaryFile::create(&at, mode)?))
            }
            OutputTarget::Fifo(at) => To::Stream(BufWriter::new(open_fifo(&at, READER)?)),
            OutputTarget::Device(at) => To::Stream(BufWriter::new(open_device(&at)?)),
            OutputTarget::Descriptor(at) => To::Stream(BufWriter::new(open_descriptor(&at)?)),
        };
        Ok(Output { to: Some(to) })
    }

    /// Finishes the output: makes the content of a file durable and moves the file to its destination.
    ///
    /// # Errors
    /// If writing or moving fails. A destination that was a regular file then still has its old content.
    pub fn commit(mut self) -> io::Result<()> {
        match self.to.take() {
            Some(To::Replacement(file)) => {
                file.into_inner().map_err(io::IntoInnerError::into_error)?.finish(Durability::Synced)
            }
            Some(To::Stream(mut file)) => file.flush(),
            None => Ok(()),
        }
    }

    fn writer(&mut self) -> io::Result<&mut dyn Write> {
        match &mut self.to {
            Some(To::Replacement(file)) => Ok(file),
            Some(To::Stream(file)) => Ok(file),
            None => Err(io::Error::other("the file has been committed")),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer()?.flush()
    }
}

/// Writes `bytes` to the [`Output`] at `path` and commits it.
///
/// # Errors
/// The errors of [`Output::create`] and [`Output::commit`].
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut output = Output::create(path)?;
    output.write_all(bytes)?;
    output.commit()
}

/// Replaces a file that other processes read repeatedly, such as the status of a job. Readers find the old content or the complete new
/// content. The call does not wait until the content is on the disk, so that it is cheap enough for frequent updates. A device or a
/// descriptor is written directly. A FIFO is refused, because writing to it may block. Symbolic links are resolved as in [`Output`].
///
/// # Errors
/// The errors of [`Output::create`], without waiting for a FIFO.
pub fn publish(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match OutputTarget::of(path)? {
        OutputTarget::Replaced { at, mode } => {
            let mut file = TemporaryFile::create(&at, mode)?;
            file.write_all(bytes)?;
            file.finish(Durability::Unsynced)
        }
        OutputTarget::Device(at) => open_device(&at)?.write_all(bytes),
        OutputTarget::Descriptor(at) => open_descriptor(&at)?.write_all(bytes),
        OutputTarget::Fifo(at) => Err(unexpected(at.metadata()?.file_type())),
    }
}

/// Replaces an internal file with a predictable name. Any file with this name is replaced; a symbolic link is replaced itself and not
/// followed. Content and directory entry are on the disk when the function returns.
///
/// # Errors
/// Errors of the file system. The old file is then still there.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = TemporaryFile::create(path, None)?;
    file.write_all(bytes)?;
    file.finish(Durability::Synced)
}

/// Returns the file that a path names after its symbolic links, and the permission mode of an existing file.
///
/// # Errors
/// If the path names a file that is not regular; errors of the file system.
pub(crate) fn regular_target(path: &Path) -> io::Result<(PathBuf, Option<u32>)> {
    match OutputTarget::of(path)? {
        OutputTarget::Replaced { at, mode } => Ok((at, mode)),
        OutputTarget::Fifo(at) | OutputTarget::Device(at) | OutputTarget::Descriptor(at) => {
            Err(unexpected(at.metadata()?.file_type()))
        }
    }
}

/// Returns true if `name` is the name of a temporary file with new content for `file`, which a process
/// that died may have left.
pub fn is_left_over(name: &str, file: &str) -> bool {
    temporary_file::is_temporary_of(name, file)
}

fn open_device(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).custom_flags(OFlags::NOCTTY.bits() as i32).open(path)
}

/// Opens a file by the path of a descriptor that this process has open. Standard output and standard error are
/// duplicated and keep their file offsets. Any other descriptor is opened again in append mode, so that data written
/// through it before is kept.
fn open_descriptor(path: &Path) -> io::Result<File> {
    let duplicate = |standard: &dyn AsFd| standard.as_fd().try_clone_to_owned().map(File::from);
    match path.file_name().and_then(|name| name.to_str()) {
        Some("1") => {
            // Buffered output of this process must come before the new output.
            io::stdout().flush()?;
            duplicate(&io::stdout())
        }
        Some("2") => duplicate(&io::stderr()),
        _ => OpenOptions::new().append(true).open(path),
    }
}

fn open_fifo(path: &Path, limit: Duration) -> io::Result<File> {
    let start = Instant::now();
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let file = loop {
        match options.open(path) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                if start.elapsed() >= limit {
                    let limit = limit.as_secs_f64();
                    let text = format!("is a FIFO that no process has opened for reading within {limit} s");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                std::thread::sleep(POLL_PERIOD);
            }
            result => break result?,
        }
    };
    // From now on, a write blocks until a slow reader of the FIFO has read.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
