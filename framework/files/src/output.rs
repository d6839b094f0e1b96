//! Files that are written: results where a user wants them, and files of our own, which appear whole or not at all.
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

mod beside;
mod place;

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use beside::{Beside, Durability};
use place::Place;

use crate::regular::unexpected;

/// How long a FIFO is waited for to have a reader. Whoever starts both at once needs a moment for the reader; much longer, and
/// a job on many machines would stand still because of a name that was mistaken.
const READER: Duration = Duration::from_secs(10);
/// How often we look whether there is one.
const LOOK: Duration = Duration::from_millis(20);

/// A result that a user has named, as by `-o FILE`.
///
/// A regular file, or one that is not there yet, is written beside its destination and moved there by
/// [`commit`](Output::commit), so that it appears whole or not at all. It keeps the permissions of the file that it replaces.
/// Dropped without a commit it leaves nothing behind. Of a symbolic link, what it leads to is replaced or made; the link stays.
///
/// What is no regular file is written to as it is: a terminal or another device, a FIFO, a descriptor of this process such as
/// `/dev/stdout`.
#[derive(Debug)]
pub struct Output {
    /// `None` once committed.
    to: Option<To>,
}

#[derive(Debug)]
enum To {
    Beside(BufWriter<Beside>),
    Stream(BufWriter<File>),
}

impl Output {
    /// Begins to write to `path`.
    ///
    /// # Errors
    /// If `path` is a directory or names no file, its directory cannot be written to, or a FIFO has no reader within ten
    /// seconds.
    pub fn create(path: &Path) -> io::Result<Self> {
        let to = match Place::of(path)? {
            Place::Replaced { at, mode } => To::Beside(BufWriter::new(Beside::create(&at, mode)?)),
            Place::Fifo(at) => To::Stream(BufWriter::new(open_fifo(&at, READER)?)),
            Place::Device(at) => To::Stream(BufWriter::new(open_device(&at)?)),
            Place::Descriptor(at) => To::Stream(BufWriter::new(open_descriptor(&at)?)),
        };
        Ok(Output { to: Some(to) })
    }

    /// Ends the output: makes the content of a file durable and moves it to its destination.
    ///
    /// # Errors
    /// If writing or moving fails; a destination that was a regular file still has its old content then.
    pub fn commit(mut self) -> io::Result<()> {
        match self.to.take() {
            Some(To::Beside(file)) => {
                file.into_inner().map_err(io::IntoInnerError::into_error)?.finish(Durability::Synced)
            }
            Some(To::Stream(mut file)) => file.flush(),
            None => Ok(()),
        }
    }

    fn writer(&mut self) -> io::Result<&mut dyn Write> {
        match &mut self.to {
            Some(To::Beside(file)) => Ok(file),
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

/// Writes a whole [`Output`].
///
/// # Errors
/// As [`Output::create`] and [`Output::commit`].
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut output = Output::create(path)?;
    output.write_all(bytes)?;
    output.commit()
}

/// Replaces a file that others look at again and again, such as one that says how a job stands: they find the old content or the
/// new, never half of it. It is not waited for until the disk has it, so that it can be done often. A device is written to as
/// it is; what is neither that nor a regular file is refused, as writing to it might wait. Links are as in [`Output`].
///
/// # Errors
/// As [`Output::create`], but at once.
pub fn publish(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match Place::of(path)? {
        Place::Replaced { at, mode } => {
            let mut file = Beside::create(&at, mode)?;
            file.write_all(bytes)?;
            file.finish(Durability::Unsynced)
        }
        Place::Device(at) => open_device(&at)?.write_all(bytes),
        Place::Descriptor(at) => open_descriptor(&at)?.write_all(bytes),
        Place::Fifo(at) => Err(unexpected(at.metadata()?.file_type())),
    }
}

/// Replaces a file of our own, whose name can be guessed: whatever has the name goes, also a symbolic link, which is not
/// followed. The content is on the disk when this returns, and so is the name.
///
/// # Errors
/// Those of the file system; the old file is still there then.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = Beside::create(path, None)?;
    file.write_all(bytes)?;
    file.finish(Durability::Synced)
}

/// Whether a name is that of a temporary file in which the new content of `file` was to be, and which has been left behind by a
/// process that died.
pub fn is_left_over(name: &str, file: &str) -> bool {
    beside::is_temporary_of(name, file)
}

fn open_device(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).custom_flags(OFlags::NOCTTY.bits() as i32).open(path)
}

/// A descriptor that this process has open already. The standard ones go on where they are; another is opened again and
/// appended to, so that what has been written through it stays.
fn open_descriptor(path: &Path) -> io::Result<File> {
    let duplicate = |standard: &dyn AsFd| standard.as_fd().try_clone_to_owned().map(File::from);
    match path.file_name().and_then(|name| name.to_str()) {
        Some("1") => {
            // What was printed before comes first.
            io::stdout().flush()?;
            duplicate(&io::stdout())
        }
        Some("2") => duplicate(&io::stderr()),
        _ => OpenOptions::new().append(true).open(path),
    }
}

/// Opens a FIFO that somebody reads, or is going to read within this time.
fn open_fifo(path: &Path, limit: Duration) -> io::Result<File> {
    let start = Instant::now();
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let file = loop {
        match options.open(path) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                if start.elapsed() >= limit {
                    let limit = limit.as_secs_f64();
                    let text = format!("is a FIFO that nobody has opened for reading within {limit} s");
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                std::thread::sleep(LOOK);
            }
            result => break result?,
        }
    };
    // A reader that is there may take its time.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
