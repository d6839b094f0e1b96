//! Last activity of a dead rank. It is read from the flight record of the rank (a record in memory that outlives the rank) or taken from its last
//! heartbeat.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::rank::flight_recorder::{FlightRecordLocation, FlightRecordReader};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LastActivity {
    /// The rank is alive, or died for a reason that has nothing to do with its tasks.
    Innocent,
    /// The rank was in this task, which its last heartbeat named, or in a later one. If no task is named, the rank may have been in any of
    /// its tasks.
    Behind(Option<u64>),
    /// The rank was in this chunk of tasks, and in this task of the chunk if the task is known. In a workflow, a chunk is one call of a
    /// closure.
    Chunk { id: u64, task: Option<u64> },
    /// The rank was in the task that its last heartbeat named, or in a later one; if no task is named, it may have been in any of its tasks. Its
    /// flight record (number of its current task, in memory) names no chunk. The rank had therefore not begun a task in which a rank may have died
    /// before: such a task is written to the flight record before it begins.
    Unrecorded(Option<u64>),
}

/// Flight records of other ranks on this machine: the number of each rank's current task, in shared memory that outlives the rank.
#[derive(Debug, Default)]
pub(crate) struct FlightRecords(BTreeMap<usize, FlightRecordReader>);

impl FlightRecords {
    pub(crate) fn open(&mut self, rank: usize, location: Option<&FlightRecordLocation>) {
        self.0.extend(location.and_then(FlightRecordReader::open).map(|reader| (rank, reader)));
    }

    pub(crate) fn close(&mut self, rank: usize) {
        self.0.remove(&rank);
    }

    /// Returns the last activity of a lost rank, from its flight record or else from its last heartbeat, which named the task `reported`. `died` is
    /// false if the rank is not dead, or cannot have died of a task.
    pub(crate) fn last_activity(&self, rank: usize, died: bool, reported: Option<u64>) -> LastActivity {
        match self.0.get(&rank).map(FlightRecordReader::read) {
            _ if !died => LastActivity::Innocent,
            Some(Some((id, task))) => LastActivity::Chunk { id, task },
            Some(None) => LastActivity::Unrecorded(reported),
            None => LastActivity::Behind(reported),
        }
    }
}
