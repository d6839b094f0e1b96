//! The rescue file: tasks that are done, written down as they end, so that a run that is started again leaves them out.

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use armature_files::regular::{self, Links};
use armature_workflow_files::{Description, rescue};
use rustix::fs::{FlockOperation, flock};

/// A rescue file, to which every rank appends.
#[derive(Clone, Debug)]
pub struct Rescue {
    path: PathBuf,
}

impl Rescue {
    /// The rescue file at this path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Rescue { path: path.into() }
    }

    /// Marks the tasks as done that the file names; says how many there are. A file that is not there names none.
    ///
    /// # Errors
    /// A file that cannot be read, or names what is no task of the workflow.
    pub fn read(&self, description: &mut Description) -> Result<usize, Box<dyn Error>> {
        let bytes = match regular::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                return Err(format!("cannot read the rescue file {}: {error}", self.path.display()).into());
            }
        };
        rescue::read(&self.path.display().to_string(), &bytes, description)?;
        Ok(description.tasks().iter().filter(|task| task.done).count())
    }

    /// Notes that a task is done.
    ///
    /// # Errors
    /// If the file cannot be written to.
    pub fn add(&self, task: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
        let wrong = |error| format!("cannot write to the rescue file {}: {error}", self.path.display());
        let write = || {
            let mut file = regular::open_with(
                &self.path,
                OpenOptions::new().read(true).append(true).create(true),
                Links::Followed,
            )?;
            // Ranks on other hosts append, too: on network file systems only a lock brings the true end of the file.
            flock(&file, FlockOperation::LockExclusive)?;
            let length = file.seek(SeekFrom::End(0))?;
            if length > 0 {
                let mut last = [0];
                file.seek(SeekFrom::End(-1))?;
                file.read_exact(&mut last)?;
                if last != *b"\n" {
                    // A run that was killed has left half a line, which may be the name of another task.
                    let mut all = Vec::new();
                    file.rewind()?;
                    file.read_to_end(&mut all)?;
                    let whole = all.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
                    file.set_len(whole as u64)?;
                }
            }
            file.write_all(format!("DONE {task}\n").as_bytes())
        };
        write().map_err(|error| wrong(error).into())
    }

    /// Removes the file: nothing is left to be done.
    pub fn remove(&self) {
        // It is not there if there was nothing to do.
        let _ = fs::remove_file(&self.path);
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let rescue = Rescue::new(dir.path().join("a.rescue"));
        let mut description =
            armature_workflow_files::read("a.dag", b"TASK a x\nTASK b x\nTASK c x\n").unwrap();
        assert_eq!(rescue.read(&mut description).unwrap(), 0);
        rescue.add("c").unwrap();
        rescue.add("a").unwrap();
        assert_eq!(rescue.read(&mut description).unwrap(), 2);
        assert!(!description.tasks()[1].done);
        // Half a line is none, and the next does not continue it.
        let half = std::fs::read_to_string(rescue.path()).unwrap() + "DONE b";
        std::fs::write(rescue.path(), half).unwrap();
        rescue.add("c").unwrap();
        assert_eq!(std::fs::read_to_string(rescue.path()).unwrap(), "DONE c\nDONE a\nDONE c\n");
        rescue.remove();
        assert!(!rescue.path().exists());
    }
}
