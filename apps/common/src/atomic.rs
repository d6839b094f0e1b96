//! Files that appear whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file that is written beside its destination and moved there by [`commit`](AtomicFile::commit). Dropped
/// without a commit it leaves nothing behind.
#[derive(Debug)]
pub struct AtomicFile {
    destination: PathBuf,
    temporary: PathBuf,
    /// `None` once committed.
    file: Option<BufWriter<File>>,
}

impl AtomicFile {
    /// Starts a file that will replace whatever is at `destination`.
    ///
    /// # Errors
    /// If `destination` names no file or its directory cannot be written to.
    pub fn create(destination: &Path) -> io::Result<Self> {
        let Some(name) = destination.file_name() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"));
        };
        for attempt in 0..100 {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{}.{attempt}.tmp", std::process::id()));
            let temporary = destination.with_file_name(hidden);
            match OpenOptions::new().write(true).create_new(true).open(&temporary) {
                Ok(file) => {
                    let file = Some(BufWriter::new(file));
                    return Ok(AtomicFile { destination: destination.to_owned(), temporary, file });
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
        Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "too many temporary files of earlier runs beside it",
        ))
    }

    /// Makes the content durable and moves it to its destination.
    ///
    /// # Errors
    /// If writing or moving fails; the destination then still has its old content.
    pub fn commit(mut self) -> io::Result<()> {
        if let Some(file) = self.file.take() {
            let moved = file
                .into_inner()
                .map_err(io::IntoInnerError::into_error)
                .and_then(|file| file.sync_all())
                .and_then(|()| fs::rename(&self.temporary, &self.destination));
            if moved.is_err() {
                let _ = fs::remove_file(&self.temporary);
            }
            return moved;
        }
        Ok(())
    }

    fn open(&mut self) -> io::Result<&mut BufWriter<File>> {
        self.file.as_mut().ok_or_else(|| io::Error::other("the file has been committed"))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.open()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.open()?.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn appears_on_commit_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, "old").unwrap();
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        file.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["out"]);
    }

    #[test]
    fn leaves_nothing_behind_when_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = AtomicFile::create(&dir.path().join("out")).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert!(names(dir.path()).is_empty());
        assert!(AtomicFile::create(&dir.path().join("missing/out")).is_err());
    }
}
