//! Task values (results) that are spilled, which means moved from memory to disk: one file for each value, in a directory of the rank that is removed
//! at the end of the run.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use armature_files::private::PrivateDir;
use armature_files::regular::{Links, open_with};

use super::value::Value;
use crate::error::{Error, ErrorKind, Result};

/// Prefix of the names of the directories to which ranks move task values from memory.
const PREFIX: &str = "armature-spill-";

/// Directory to which a rank moves task values from memory. It is created when the first value is moved.
#[derive(Debug)]
pub(super) struct SpillFolder {
    parent: PathBuf,
    own: Option<PrivateDir>,
}

impl SpillFolder {
    pub(super) fn new(parent: &Path) -> Self {
        SpillFolder { parent: parent.into(), own: None }
    }

    fn file(&self, task: usize) -> PathBuf {
        self.own.as_ref().map_or(self.parent.as_path(), PrivateDir::path).join(task.to_string())
    }

    pub(super) fn write(&mut self, task: usize, value: &Value) -> Result<()> {
        if self.own.is_none() {
            let make = || {
                fs::create_dir_all(&self.parent)?;
                PrivateDir::create(&self.parent, PREFIX)
            };
            self.own = Some(make().map_err(|error| io_error("create a directory in", &self.parent, &error))?);
        }
        let path = self.file(task);
        let write = || {
            let (lengths, pieces) = value.pieces();
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = open_with(&path, &mut options, Links::Refused)?;
            file.write_all(&lengths)?;
            pieces.into_iter().try_for_each(|piece| file.write_all(piece))
        };
        write().map_err(|error| io_error("write", &path, &error))
    }

    pub(super) fn read(&self, task: usize) -> Result<Value> {
        let path = self.file(task);
        let bytes = fs::read(&path).map_err(|error| io_error("read", &path, &error))?;
        Value::unpack(bytes.into()).ok_or_else(|| {
            let text = format!("{} has changed since it was written", path.display());
            Error::new(ErrorKind::Io, text)
        })
    }

    pub(super) fn remove(&self, task: usize) {
        if self.own.is_some() {
            // If the file of the value cannot be removed now, it is removed with the directory at the end of the run.
            let _ = fs::remove_file(self.file(task));
        }
    }
}

fn io_error(doing: &str, path: &Path, error: &std::io::Error) -> Error {
    let text = format!("cannot {doing} {}, to which values are evicted from memory: {error}", path.display());
    Error::new(ErrorKind::Io, text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::wire::Codec;

    #[test]
    fn spilled_values_round_trip_and_the_folder_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = SpillFolder::new(dir.path());
        let value = Value::encode(vec![1.5; 5_000], &Codec::of_type()).unwrap();
        // File in the parent directory with the name that a spilled value has in the rank's own directory. It must be neither read nor overwritten.
        let others = dir.path().join("7");
        fs::write(&others, "somebody else's").unwrap();
        folder.remove(7);
        folder.write(7, &value).unwrap();
        assert_eq!(fs::read(&others).unwrap(), b"somebody else's");
        let [directory, file] = [folder.own.as_ref().unwrap().path(), folder.file(7).as_path()]
            .map(|path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777);
        assert_eq!((directory, file), (0o700, 0o600));
        assert_eq!(folder.read(7).unwrap().decode::<Vec<f64>>().unwrap(), vec![1.5; 5_000]);
        fs::write(folder.file(7), b"another").unwrap();
        assert!(folder.read(7).unwrap_err().message().contains("has changed since it was written"));
        folder.remove(7);
        assert_eq!(folder.read(7).unwrap_err().kind(), ErrorKind::Io);
        drop(folder);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "only what was there before");
    }
}
