//! Journals: a file of completed results, so that a restarted job does not compute them again.
//!
//! A [`Journal`] is an append-only file of records, each with a task number, a payload and a checksum. It belongs to one job ([`Identity`])
//! and has one writer, rank 0. `README.md` in this directory describes the format and the guarantees.
//!
//! ```
//! use armature::journal::{Identity, Journal};
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("squares.journal");
//! # let now = std::time::Duration::ZERO;
//! // Whatever decides the results belongs into the fingerprint: parameters, input, their hashes.
//! let job = Identity::new("squares", "1", 10u64.to_le_bytes());
//!
//! let (mut journal, recovery) = Journal::open(&path, &job, |_, _| Ok(()))?;
//! assert_eq!(recovery.tasks, 0);
//! journal.append(now, 3, b"nine")?;
//! journal.close()?;
//!
//! // The job is started again.
//! let mut known = Vec::new();
//! let (_journal, recovery) = Journal::open(&path, &job, |task, payload| {
//!     known.push((task, payload));
//!     Ok(())
//! })?;
//! assert_eq!(recovery.tasks, 1);
//! assert_eq!(known, [(3, b"nine".as_slice().into())]);
//! # Ok::<(), armature::Error>(())
//! ```

mod cut;
#[cfg(test)]
mod cut_tests;
mod format;
#[cfg(test)]
mod golden_tests;
mod holes;
mod open;
mod scan;
mod sync;
mod sync_schedule;
#[cfg(test)]
mod tests;
mod write;

pub use write::Journal;

use std::path::{Path, PathBuf};

use armature_text::shown;

use crate::error::{Error, ErrorKind};

/// Lowest record number in a journal that stands for a note about the death of a rank. Records with results have the number of their task, which is
/// lower.
pub(crate) const FIRST_NOTE: u64 = 1 << 63;

/// Identity of the job whose results a journal holds.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    name: String,
    version: String,
    fingerprint: Vec<u8>,
}

impl Identity {
    /// Identifies a job by its `name` and `version`, which appear in error messages, and by a `fingerprint`: any bytes that differ if the
    /// results may differ, such as input, parameters or seeds. Each of the three has at most 65535 bytes, which is checked when a journal is
    /// opened.
    pub fn new(name: impl Into<String>, version: impl Into<String>, fingerprint: impl Into<Vec<u8>>) -> Self {
        Identity { name: name.into(), version: version.into(), fingerprint: fingerprint.into() }
    }
}

const READABLE: usize = 200;

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` version `{}`, fingerprint ", shown(&self.name), shown(&self.version))?;
        // A fingerprint is shown as text if possible: many fingerprints are texts, in which a reader sees the difference between two jobs.
        let text = std::str::from_utf8(&self.fingerprint).ok();
        if let Some(text) =
            text.filter(|t| !t.is_empty() && t.len() <= READABLE && !t.contains(char::is_control))
        {
            return write!(f, "`{}`", armature_text::line(text));
        }
        let start = &self.fingerprint[..self.fingerprint.len().min(16)];
        start.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        if start.len() < self.fingerprint.len() {
            write!(f, "… ({} bytes)", self.fingerprint.len())?;
        }
        Ok(())
    }
}

/// Contents of a journal when it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Number of tasks whose results the journal holds.
    pub tasks: u64,
    /// Number of records that were skipped because an earlier record holds a result of the same task.
    pub duplicates: u64,
    /// Damaged data that was cut off the end of the journal, if the journal did not end with a whole record.
    pub cut: Option<Cut>,
}

/// Torn or damaged end of a journal, which has been cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cut {
    /// Start of the damaged end, in bytes from the start of the journal.
    pub at: u64,
    /// Size of the damaged end in bytes.
    pub bytes: u64,
    /// Number of records that were recognised after the start of the damage. They are not trusted: their tasks are computed again.
    pub records: u64,
    /// File that holds a copy of the damaged end, in the same directory as the journal; `None` if all bytes of the damaged end are zero.
    pub copy: Option<PathBuf>,
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Cut { at, bytes, records, copy } = self;
        write!(f, "no complete record at byte {at}; {bytes} bytes from there on were cut off")?;
        if *records > 0 {
            write!(f, ", with {records} records after the damage")?;
        }
        if let Some(copy) = copy {
            write!(f, ", and are kept in {}", copy.display())?;
        }
        Ok(())
    }
}

fn io_error(doing: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {doing} the journal {}: {error}", path.display()))
}

fn refused(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Config, format!("the journal {}: {why}", path.display()))
}
