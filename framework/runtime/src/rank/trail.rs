//! The trail of a rank: the number of its current task, in memory that outlives the rank.
//!
//! A task that kills its process leaves no time for a message. A rank that is a process therefore records each chunk, task and closure,
//! unless it is short, in an anonymous file in memory. Rank 0, or a sub-master, on the same machine keeps the file open and reads it when the
//! process has ended. Trails of ranks on other machines cannot be read.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use crate::comm::process::Process;

/// Minimum time of a chunk or task that is recorded. A record takes about 0.6 µs and a chunk causes two records in addition to those of its tasks, so
/// that recording costs less than 1 %.
pub(crate) const NOTED: Duration = Duration::from_micros(200);

/// Location of a trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TrailLocation {
    pub(crate) process: Process,
    pub(crate) file: i32,
}

/// Record in a trail: the number of the current chunk plus one, or 0 for none, followed by the number of the current task in the same form.
type DeathNote = [u8; 16];

/// Writing end of a trail, for the rank itself.
#[derive(Debug)]
pub(crate) struct Trail {
    file: File,
    /// True if the last record names a chunk or task.
    says: bool,
}

impl Trail {
    /// Creates an empty trail; `None` if the system has no anonymous files, without which a death is attributed to more tasks.
    pub(crate) fn new() -> Option<Self> {
        let file = File::from(memfd_create("armature-trail", MemfdFlags::CLOEXEC).ok()?);
        file.write_all_at(&DeathNote::default(), 0).ok()?;
        Some(Trail { file, says: false })
    }

    pub(crate) fn place(&self) -> TrailLocation {
        TrailLocation { process: Process::own(), file: self.file.as_raw_fd() }
    }

    /// Records that chunk `id`, or its task `task`, starts.
    pub(crate) fn begin(&mut self, id: u64, task: Option<u64>) {
        let mut note = DeathNote::default();
        note[..8].copy_from_slice(&id.wrapping_add(1).to_le_bytes());
        note[8..].copy_from_slice(&task.map_or(0, |task| task.wrapping_add(1)).to_le_bytes());
        self.says = true;
        self.write(&note);
    }

    /// Records that no chunk is running.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.says) {
            self.write(&DeathNote::default());
        }
    }

    fn write(&self, note: &DeathNote) {
        // A write is unlikely to fail, because the space was reserved at creation. If it fails, the record is missing.
        let _ = self.file.write_all_at(note, 0);
    }
}

/// Reading end of a trail, for rank 0 or a sub-master.
#[derive(Debug)]
pub(crate) struct TrailReader(File);

impl TrailReader {
    /// Opens the trail of another process on this machine.
    pub(crate) fn open(place: &TrailLocation) -> Option<Self> {
        if !Process::own().sees(&place.process) {
            return None;
        }
        let path = format!("/proc/{}/fd/{}", place.process.number(), place.file);
        File::open(path).ok().map(TrailReader)
    }

    /// Returns the last started chunk that has not ended, and its task, as far as they are recorded.
    pub(crate) fn read(&self) -> Option<(u64, Option<u64>)> {
        let mut note = DeathNote::default();
        self.0.read_exact_at(&mut note, 0).ok()?;
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |n, &byte| n << 8 | u64::from(byte));
        let id = number(&note[..8]).checked_sub(1)?;
        Some((id, number(&note[8..]).checked_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trail_is_readable_by_another_process() {
        let mut trail = Trail::new().expect("Linux has files in memory");
        let TrailLocation { process, file } = trail.place();
        assert!(TrailReader::open(&trail.place()).is_none(), "a process does not look at itself");
        let path = format!("/proc/{}/fd/{file}", process.number());
        let trails = TrailReader(File::open(path).expect("it is open"));
        assert_eq!(trails.read(), None);
        trail.begin(0, None);
        assert_eq!(trails.read(), Some((0, None)));
        trail.begin(7, Some(0));
        assert_eq!(trails.read(), Some((7, Some(0))));
        trail.end();
        assert_eq!(trails.read(), None);
        trail.begin(8, Some(9));
        drop(trail);
        assert_eq!(trails.read(), Some((8, Some(9))), "it outlives its writer");
    }
}
