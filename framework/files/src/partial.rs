//! Output files that a job writes over several starts: each start continues where the one before stopped.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::output::{regular_target, sync_parent};
use crate::regular::{self, Links};

/// Output file that is written to a hidden file `.NAME.partial` next to it, and moved to its destination when it is complete.
///
/// [`sync`](PartialOutput::sync) returns the durable length. A later start of the job passes this length to [`resume`](PartialOutput::resume),
/// which removes what was written after it.
///
/// ```
/// use std::io::Write;
/// use armature_files::partial::PartialOutput;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("answers.tsv");
///
/// let mut output = PartialOutput::create(&path)?;
/// output.write_all(b"one ")?;
/// let length = output.sync()?;
/// output.write_all(b"lost")?;
/// output.flush()?;
/// drop(output);
///
/// let mut output = PartialOutput::resume(&path, length)?;
/// output.write_all(b"two")?;
/// output.finish()?;
/// assert_eq!(std::fs::read_to_string(&path)?, "one two");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct PartialOutput {
    /// The partial file; `None` if an earlier start of the job has moved it to its destination.
    file: Option<BufWriter<File>>,
    partial: PathBuf,
    destination: PathBuf,
    /// Number of bytes written so far.
    length: u64,
    /// True if the partial file is to stay when this value is dropped, because a later start of the job may resume it.
    is_kept: bool,
}

impl PartialOutput {
    /// Starts an empty output at `path`. A partial file of an earlier job is replaced.
    ///
    /// # Errors
    /// If `path` is not the path of a regular file or of a new one; errors of the file system.
    pub fn create(path: &Path) -> io::Result<Self> {
        let (destination, partial, mode) = paths(path)?;
        match fs::remove_file(&partial) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).open(&partial)?;
        if let Some(mode) = mode {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        let file = Some(BufWriter::new(file));
        Ok(PartialOutput { file, partial, destination, length: 0, is_kept: false })
    }

    /// Continues an output after its first `length` bytes; later bytes are removed.
    ///
    /// # Errors
    /// If neither the partial file nor the complete file has this length; errors of the file system.
    pub fn resume(path: &Path, length: u64) -> io::Result<Self> {
        let (destination, partial, _) = paths(path)?;
        let opened = regular::open_with(&partial, OpenOptions::new().write(true), Links::Refused);
        let file = match opened {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let complete = fs::metadata(&destination).map(|found| found.len());
                if complete.ok() != Some(length) {
                    let text =
                        format!("there is no {}, in which it has been written so far", partial.display());
                    return Err(io::Error::new(ErrorKind::NotFound, text));
                }
                None
            }
            opened => {
                let mut file = opened?;
                let found = file.metadata()?.len();
                if found < length {
                    let text = format!(
                        "{} has {found} bytes, expected at least the {length} of the snapshot",
                        partial.display()
                    );
                    return Err(io::Error::new(ErrorKind::InvalidData, text));
                }
                file.set_len(length)?;
                file.seek(SeekFrom::Start(length))?;
                Some(BufWriter::new(file))
            }
        };
        Ok(PartialOutput { file, partial, destination, length, is_kept: true })
    }

    /// Makes the content durable. Returns its length.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn sync(&mut self) -> io::Result<u64> {
        if let Some(file) = &mut self.file {
            file.flush()?;
            file.get_ref().sync_all()?;
            if !self.is_kept {
                // The directory entry of a new partial file must be durable as well as its content.
                sync_parent(&self.partial)?;
                self.is_kept = true;
            }
        }
        Ok(self.length)
    }

    /// Makes the content durable and moves the file to its destination.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn finish(mut self) -> io::Result<()> {
        self.sync()?;
        if self.file.take().is_some() {
            fs::rename(&self.partial, &self.destination)?;
            sync_parent(&self.destination)?;
        }
        Ok(())
    }
}

impl Write for PartialOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = self.file.as_mut().ok_or_else(|| io::Error::other("the file is complete"))?;
        let written = file.write(bytes)?;
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), BufWriter::flush)
    }
}

/// Removes the partial file if no start of the job can resume it.
impl Drop for PartialOutput {
    fn drop(&mut self) {
        if self.file.is_some() && !self.is_kept {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

/// Returns the destination, behind symbolic links, the path of the partial file, and the mode of a file that exists at the destination.
fn paths(path: &Path) -> io::Result<(PathBuf, PathBuf, Option<u32>)> {
    let (destination, mode) = regular_target(path)?;
    let mut name = OsString::from(".");
    name.push(destination.file_name().unwrap_or_default());
    name.push(".partial");
    let partial = destination.with_file_name(name);
    Ok((destination, partial, mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_resumed_behind_its_last_sync() {
        let dir = tempfile::tempdir().unwrap();
        let (path, partial) = (dir.path().join("out"), dir.path().join(".out.partial"));
        let mut output = PartialOutput::create(&path).unwrap();
        output.write_all(b"kept").unwrap();
        assert_eq!(output.sync().unwrap(), 4);
        output.write_all(b" lost").unwrap();
        drop(output);
        assert_eq!(
            fs::read(&partial).unwrap(),
            b"kept lost",
            "buffered bytes are written when it is dropped"
        );
        assert!(!path.exists());
        let mut output = PartialOutput::resume(&path, 4).unwrap();
        output.write_all(b", more").unwrap();
        output.finish().unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), partial.exists()), (&b"kept, more"[..], false));
        // The job may die after the move of the file and be started again, so that it resumes a complete file.
        PartialOutput::resume(&path, 10).unwrap().finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"kept, more");
    }

    #[test]
    fn missing_or_shortened_partial_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (path, partial) = (dir.path().join("out"), dir.path().join(".out.partial"));
        fs::write(&path, "an older result").unwrap();
        let error = PartialOutput::resume(&path, 4).unwrap_err().to_string();
        assert_eq!(error, format!("there is no {}, in which it has been written so far", partial.display()));
        fs::write(&partial, "abc").unwrap();
        let error = PartialOutput::resume(&path, 4).unwrap_err().to_string();
        assert!(error.ends_with("has 3 bytes, expected at least the 4 of the snapshot"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"an older result");
    }

    #[test]
    fn output_without_a_sync_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut output = PartialOutput::create(&dir.path().join("out")).unwrap();
        output.write_all(b"lost").unwrap();
        drop(output);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let error = PartialOutput::create(dir.path()).unwrap_err().to_string();
        assert_eq!(error, "is a directory, expected a file name");
        let error = PartialOutput::create(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.starts_with("is a character device"), "{error}");
    }
}
