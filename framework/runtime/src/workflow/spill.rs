//! Values on disk: a file each, in a folder of the rank's own that goes with the run.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::value::Value;
use crate::error::{Error, ErrorKind, Result};

/// A rank's folder, made when it is needed first.
#[derive(Debug)]
pub(super) struct SpillFolder {
    path: PathBuf,
    is_made: bool,
}

impl SpillFolder {
    /// Within `parent`, for a run of this process.
    pub(super) fn new(parent: &Path, run: u32, rank: usize) -> Self {
        let name = format!("armature-spill-{}-{run}-{rank}", std::process::id());
        SpillFolder { path: parent.join(name), is_made: false }
    }

    fn file(&self, task: usize) -> PathBuf {
        self.path.join(task.to_string())
    }

    pub(super) fn write(&mut self, task: usize, value: &Value) -> Result<()> {
        let path = self.file(task);
        let write = || {
            if !self.is_made {
                fs::create_dir_all(&self.path)?;
            }
            let (lengths, pieces) = value.pieces();
            let mut file = fs::File::create(&path)?;
            file.write_all(&lengths)?;
            pieces.into_iter().try_for_each(|piece| file.write_all(piece))
        };
        write().map_err(|error| io_error("write", &path, &error))?;
        self.is_made = true;
        Ok(())
    }

    pub(super) fn read(&self, task: usize) -> Result<Value> {
        let path = self.file(task);
        let bytes = fs::read(&path).map_err(|error| io_error("read", &path, &error))?;
        Value::unpack(bytes.into()).ok_or_else(|| {
            let text = format!("{} is not what was written there: somebody has changed it", path.display());
            Error::new(ErrorKind::Io, text)
        })
    }

    pub(super) fn remove(&self, task: usize) {
        // What cannot be removed goes with the folder.
        let _ = fs::remove_file(self.file(task));
    }
}

impl Drop for SpillFolder {
    fn drop(&mut self) {
        if self.is_made
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            log::warn!("cannot remove {}: {error}", self.path.display());
        }
    }
}

fn io_error(doing: &str, path: &Path, error: &std::io::Error) -> Error {
    let text = format!("cannot {doing} {}, where values wait for memory: {error}", path.display());
    Error::new(ErrorKind::Io, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Codec;

    #[test]
    fn values_come_back_and_the_folder_goes() {
        let dir = tempfile::tempdir().unwrap();
        let mut folder = SpillFolder::new(dir.path(), 1, 2);
        let value = Value::encode(vec![1.5; 5_000], &Codec::of_type()).unwrap();
        folder.write(7, &value).unwrap();
        assert_eq!(folder.read(7).unwrap().decode::<Vec<f64>>().unwrap(), vec![1.5; 5_000]);
        fs::write(folder.file(7), b"another").unwrap();
        assert!(folder.read(7).unwrap_err().message().contains("somebody has changed it"));
        folder.remove(7);
        assert_eq!(folder.read(7).unwrap_err().kind(), ErrorKind::Io);
        drop(folder);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
