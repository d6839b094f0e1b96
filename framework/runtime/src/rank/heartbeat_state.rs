//! Content of a heartbeat.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Activity of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Occupation {
    /// The rank waits for other ranks.
    Waits,
    /// The rank computes.
    Computes,
    /// The rank has nothing to do, and no other rank waits for it.
    Rests,
}

/// State of a rank, as its heartbeats report it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HeartbeatState {
    pub(crate) occupation: Occupation,
    /// True if user code runs on the communicating thread although the user has not chosen that: the rank sends nothing during a call, which
    /// may take longer than earlier calls.
    pub(crate) is_interleaved: bool,
    /// Time, measured from heartbeat to heartbeat, in which the rank has started no job, ended no job and done no other work. Set by the
    /// driver.
    pub(crate) unchanged_for: Duration,
    /// Description of the activity for messages, after "rank 3: ".
    pub(crate) state: String,
    /// Data of the skeleton's protocol, encoded by the protocol.
    pub(crate) details: Vec<u8>,
}

impl HeartbeatState {
    /// Creates the content of a heartbeat without data of the protocol.
    pub(crate) fn new(is_computing: bool, state: impl Into<String>) -> Self {
        let occupation = if is_computing { Occupation::Computes } else { Occupation::Waits };
        let (unchanged_for, details) = (Duration::ZERO, Vec::new());
        HeartbeatState { occupation, is_interleaved: false, unchanged_for, state: state.into(), details }
    }

    /// Sets the activity to computing if the executor is busy.
    pub(crate) fn or_computes(self, computes: bool) -> Self {
        HeartbeatState { occupation: if computes { Occupation::Computes } else { self.occupation }, ..self }
    }

    /// Sets the activity to resting if the rank is not needed.
    pub(crate) fn or_rests(self, rests: bool) -> Self {
        let rests = rests && !self.is_computing();
        HeartbeatState { occupation: if rests { Occupation::Rests } else { self.occupation }, ..self }
    }

    pub(crate) fn is_computing(&self) -> bool {
        self.occupation == Occupation::Computes
    }
}
