//! Loop, executor of user code and heartbeats of a rank, independent of the skeleton that runs on it. `README.md` in this directory describes
//! the parts.

pub(crate) mod blocked_ranks;
pub(crate) mod driver;
pub(crate) mod executor;
#[cfg(any(feature = "farm", feature = "workflow"))]
pub(crate) mod flight_recorder;
pub(crate) mod heartbeat;
mod heartbeat_state;
#[cfg(test)]
mod interleaved_tests;
mod mailbox;
pub(crate) mod protocol;
pub(crate) mod user_code;
