//! The rescue file: tasks that are done, written down as they end, so that a run that is started again leaves them out.

use std::error::Error;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use armature_files::regular;
use armature_workflow_files::{Description, rescue};

/// A rescue file, to which every rank appends by its [ledger](crate::ledger).
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;

    #[test]
    fn what_was_added_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let rescue = Rescue::new(dir.path().join("a.rescue"));
        let mut description =
            armature_workflow_files::read("a.dag", b"TASK a x\nTASK b x\nTASK c x\n").unwrap();
        assert_eq!(rescue.read(&mut description).unwrap(), 0);
        let mut ledger = Ledger::new(rescue.path());
        ledger.note("c", &[]).unwrap();
        ledger.note("a", &[]).unwrap();
        assert_eq!(rescue.read(&mut description).unwrap(), 2);
        assert!(!description.tasks()[1].done);
        // Half a line is none, and the next does not continue it.
        let half = std::fs::read_to_string(rescue.path()).unwrap() + "DONE b";
        std::fs::write(rescue.path(), half).unwrap();
        ledger.note("c", &[]).unwrap();
        assert_eq!(std::fs::read_to_string(rescue.path()).unwrap(), "DONE c\nDONE a\nDONE c\n");
    }
}
