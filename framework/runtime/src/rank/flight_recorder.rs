//! The flight record of a rank: the number of its current task, in memory that outlives the rank.
//!
//! A task that kills its process leaves no time for a message. A rank that is a process therefore records the start of each chunk, task and
//! closure, unless the work is short, in an anonymous file in memory. Rank 0, or a sub-master, on the same machine keeps the file open and reads
//! it when the process has ended. Flight records of ranks on other machines cannot be read.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use crate::comm::process::Process;

/// Minimum time of a chunk or task that is recorded. A record takes about 0.6 µs and a chunk causes two records in addition to those of its tasks, so
/// that recording costs less than 1 %.
pub(crate) const MIN_RECORDED: Duration = Duration::from_micros(200);

/// Location of a rank's flight record, which holds the number of the task that the rank is running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FlightRecordLocation {
    pub(crate) process: Process,
    pub(crate) file: i32,
}

/// Content of a flight record: the number of the current chunk plus one, or 0 for none, followed by the number of the current task, also plus
/// one.
type FlightRecord = [u8; 16];

#[derive(Debug)]
pub(crate) struct FlightRecorder {
    file: File,
    names_task: bool,
}

impl FlightRecorder {
    /// Creates an empty flight record (number of the current task); `None` if the system has no anonymous files. Without a flight record, more
    /// tasks are suspected of having killed the rank.
    pub(crate) fn new() -> Option<Self> {
        let file = File::from(memfd_create("armature-trail", MemfdFlags::CLOEXEC).ok()?);
        file.write_all_at(&FlightRecord::default(), 0).ok()?;
        Some(FlightRecorder { file, names_task: false })
    }

    pub(crate) fn place(&self) -> FlightRecordLocation {
        FlightRecordLocation { process: Process::own(), file: self.file.as_raw_fd() }
    }

    pub(crate) fn begin(&mut self, id: u64, task: Option<u64>) {
        let mut record = FlightRecord::default();
        record[..8].copy_from_slice(&id.wrapping_add(1).to_le_bytes());
        record[8..].copy_from_slice(&task.map_or(0, |task| task.wrapping_add(1)).to_le_bytes());
        self.names_task = true;
        self.write(&record);
    }

    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.names_task) {
            self.write(&FlightRecord::default());
        }
    }

    fn write(&self, record: &FlightRecord) {
        // An error in writing the file is ignored: only the number of the task would be missing in it. It is unlikely, because the space was
        // reserved at creation.
        let _ = self.file.write_all_at(record, 0);
    }
}

/// Reader of another rank's flight record (number of its current task), for rank 0 or a sub-master of a farm.
#[derive(Debug)]
pub(crate) struct FlightRecordReader(File);

impl FlightRecordReader {
    pub(crate) fn open(place: &FlightRecordLocation) -> Option<Self> {
        if !Process::own().sees(&place.process) {
            return None;
        }
        let path = format!("/proc/{}/fd/{}", place.process.number(), place.file);
        File::open(path).ok().map(FlightRecordReader)
    }

    /// Returns the numbers of the chunk of tasks that was started last and has not ended, and of its task that was started last, as far as they are
    /// recorded.
    pub(crate) fn read(&self) -> Option<(u64, Option<u64>)> {
        let mut record = FlightRecord::default();
        self.0.read_exact_at(&mut record, 0).ok()?;
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |n, &byte| n << 8 | u64::from(byte));
        let id = number(&record[..8]).checked_sub(1)?;
        Some((id, number(&record[8..]).checked_sub(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_readable_by_another_process() {
        let mut flight_recorder = FlightRecorder::new().expect("Linux has files in memory");
        let FlightRecordLocation { process, file } = flight_recorder.place();
        assert!(
            FlightRecordReader::open(&flight_recorder.place()).is_none(),
            "a process does not look at itself"
        );
        let path = format!("/proc/{}/fd/{file}", process.number());
        let reader = FlightRecordReader(File::open(path).expect("it is open"));
        assert_eq!(reader.read(), None);
        flight_recorder.begin(0, None);
        assert_eq!(reader.read(), Some((0, None)));
        flight_recorder.begin(7, Some(0));
        assert_eq!(reader.read(), Some((7, Some(0))));
        flight_recorder.end();
        assert_eq!(reader.read(), None);
        flight_recorder.begin(8, Some(9));
        drop(flight_recorder);
        assert_eq!(reader.read(), Some((8, Some(9))), "it outlives its writer");
    }
}
