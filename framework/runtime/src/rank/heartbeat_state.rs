//! Content of a heartbeat: the state of the rank that sends it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Occupation {
    Waits,
    Computes,
    /// The rank has nothing to do, and no other rank waits for it.
    Rests,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HeartbeatState {
    pub(crate) occupation: Occupation,
    /// True if user code runs on the communicating thread although the user has not chosen this thread: the rank then sends nothing during a
    /// call of user code, which may take longer than earlier calls.
    pub(crate) is_interleaved: bool,
    /// Time, measured from heartbeat to heartbeat, in which the rank has started no job of user code, ended no job and done no other work. Set
    /// by the driver of the rank.
    pub(crate) unchanged_for: Duration,
    /// Description of the rank's activity for error messages, after "rank 3: ".
    pub(crate) state: String,
    /// Additional data of the skeleton's protocol, in its own encoding.
    pub(crate) details: Vec<u8>,
}

impl HeartbeatState {
    pub(crate) fn new(is_computing: bool, state: impl Into<String>) -> Self {
        let occupation = if is_computing { Occupation::Computes } else { Occupation::Waits };
        let (unchanged_for, details) = (Duration::ZERO, Vec::new());
        HeartbeatState { occupation, is_interleaved: false, unchanged_for, state: state.into(), details }
    }

    pub(crate) fn or_computes(self, computes: bool) -> Self {
        HeartbeatState { occupation: if computes { Occupation::Computes } else { self.occupation }, ..self }
    }

    pub(crate) fn or_rests(self, rests: bool) -> Self {
        let rests = rests && !self.is_computing();
        HeartbeatState { occupation: if rests { Occupation::Rests } else { self.occupation }, ..self }
    }

    pub(crate) fn is_computing(&self) -> bool {
        self.occupation == Occupation::Computes
    }
}
