//! Output files that a job writes over several starts: each start continues where the previous start stopped.

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
/// which removes what was written after it. The hidden file is created at the first write, so that the output can be resumed before.
///
/// ```
/// use std::io::Write;
/// use armature_files::partial::PartialOutput;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("answers.tsv");
///
/// let mut output = PartialOutput::new(&path)?;
/// output.write_all(b"one ")?;
/// let length = output.sync()?;
/// output.write_all(b"lost")?;
/// output.flush()?;
/// drop(output);
///
/// let mut output = PartialOutput::new(&path)?;
/// output.resume(length)?;
/// output.write_all(b"two")?;
/// output.finish()?;
/// assert_eq!(std::fs::read_to_string(&path)?, "one two");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct PartialOutput {
    content: Content,
    partial: PathBuf,
    destination: PathBuf,
    mode: Option<u32>,
    length: u64,
}

#[derive(Debug)]
enum Content {
    /// This start of the job has neither written nor resumed the output.
    New,
    /// The partial file is open. If `is_kept` is true, the partial file stays when this value is dropped, because a
    /// later start of the job may resume it.
    Open { file: BufWriter<File>, is_kept: bool },
    /// An earlier start of the job has moved the file to its destination.
    Complete,
}

impl PartialOutput {
    /// Prepares an output at `path`, without writing anything.
    ///
    /// # Errors
    /// If `path` is not the path of a regular file or of a new one, or its directory does not exist; errors of the file system.
    pub fn new(path: &Path) -> io::Result<Self> {
        let (destination, mode) = regular_target(path)?;
        let mut name = OsString::from(".");
        name.push(destination.file_name().unwrap_or_default());
        name.push(".partial");
        let partial = destination.with_file_name(name);
        let directory = partial.parent().filter(|directory| !directory.as_os_str().is_empty());
        fs::metadata(directory.unwrap_or(Path::new(".")))?;
        Ok(PartialOutput { content: Content::New, partial, destination, mode, length: 0 })
    }

    /// Continues, after its first `length` bytes, the output that an earlier start of the job has written.
    ///
    /// # Errors
    /// If neither the partial file nor the complete file has this length; errors of the file system.
    pub fn resume(&mut self, length: u64) -> io::Result<()> {
        let opened = regular::open_with(&self.partial, OpenOptions::new().write(true), Links::Refused);
        self.content = match opened {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let complete = fs::metadata(&self.destination).map(|found| found.len());
                if complete.ok() != Some(length) {
                    let text = format!(
                        "there is no {}, in which it has been written so far",
                        self.partial.display()
                    );
                    return Err(io::Error::new(ErrorKind::NotFound, text));
                }
                Content::Complete
            }
            opened => {
                let mut file = opened?;
                let found = file.metadata()?.len();
                if found < length {
                    let text = format!(
                        "{} has {found} bytes, expected at least the {length} of the snapshot",
                        self.partial.display()
                    );
                    return Err(io::Error::new(ErrorKind::InvalidData, text));
                }
                file.set_len(length)?;
                file.seek(SeekFrom::Start(length))?;
                Content::Open { file: BufWriter::new(file), is_kept: true }
            }
        };
        self.length = length;
        Ok(())
    }

    /// Waits until the content written so far is on the disk. Returns its length.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn sync(&mut self) -> io::Result<u64> {
        self.create()?;
        if let Content::Open { file, is_kept } = &mut self.content {
            file.flush()?;
            file.get_ref().sync_all()?;
            if !*is_kept {
                // The directory entry of a new partial file must be durable, too.
                sync_parent(&self.partial)?;
                *is_kept = true;
            }
        }
        Ok(self.length)
    }

    /// Waits until the content is on the disk, and moves the file to its destination.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn finish(mut self) -> io::Result<()> {
        self.sync()?;
        if let Content::Open { .. } = self.content {
            fs::rename(&self.partial, &self.destination)?;
            self.content = Content::Complete;
            sync_parent(&self.destination)?;
        }
        Ok(())
    }

    /// Creates the partial file if this start of the job has not opened it yet. A partial file of another job is
    /// replaced.
    fn create(&mut self) -> io::Result<()> {
        if !matches!(self.content, Content::New) {
            return Ok(());
        }
        match fs::remove_file(&self.partial) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).open(&self.partial)?;
        if let Some(mode) = self.mode {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        self.content = Content::Open { file: BufWriter::new(file), is_kept: false };
        Ok(())
    }
}

impl Write for PartialOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.create()?;
        let Content::Open { file, .. } = &mut self.content else {
            return Err(io::Error::other("the file is complete"));
        };
        let written = file.write(bytes)?;
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Content::Open { file, .. } = &mut self.content { file.flush() } else { Ok(()) }
    }
}

/// Removes the partial file if no later start of the job can resume it.
impl Drop for PartialOutput {
    fn drop(&mut self) {
        if let Content::Open { is_kept: false, .. } = self.content {
            let _ = fs::remove_file(&self.partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resumed(path: &Path, length: u64) -> io::Result<PartialOutput> {
        let mut output = PartialOutput::new(path)?;
        output.resume(length)?;
        Ok(output)
    }

    #[test]
    fn output_is_resumed_behind_its_last_sync() {
        let dir = tempfile::tempdir().unwrap();
        let (path, partial) = (dir.path().join("out"), dir.path().join(".out.partial"));
        let mut output = PartialOutput::new(&path).unwrap();
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
        let mut output = resumed(&path, 4).unwrap();
        output.write_all(b", more").unwrap();
        output.finish().unwrap();
        assert_eq!((fs::read(&path).unwrap().as_slice(), partial.exists()), (&b"kept, more"[..], false));
        // A job that died after it had moved the file to its destination finds the complete file when it is
        // restarted.
        resumed(&path, 10).unwrap().finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"kept, more");
    }

    #[test]
    fn missing_or_shortened_partial_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let (path, partial) = (dir.path().join("out"), dir.path().join(".out.partial"));
        fs::write(&path, "an older result").unwrap();
        let error = resumed(&path, 4).unwrap_err().to_string();
        assert_eq!(error, format!("there is no {}, in which it has been written so far", partial.display()));
        fs::write(&partial, "abc").unwrap();
        let error = resumed(&path, 4).unwrap_err().to_string();
        assert!(error.ends_with("has 3 bytes, expected at least the 4 of the snapshot"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"an older result");
    }

    #[test]
    fn output_without_a_sync_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut output = PartialOutput::new(&dir.path().join("out")).unwrap();
        output.write_all(b"lost").unwrap();
        drop(output);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let error = PartialOutput::new(dir.path()).unwrap_err().to_string();
        assert_eq!(error, "is a directory, expected a file name");
        let error = PartialOutput::new(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.starts_with("is a character device"), "{error}");
        let error = PartialOutput::new(&dir.path().join("missing/out")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
