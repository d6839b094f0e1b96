//! Behaviour of every rank, independent of the skeleton that runs on it. `README.md` in this directory describes the parts.

pub(crate) mod driver;
pub(crate) mod executor;
pub(crate) mod heartbeat;
pub(crate) mod hold_up;
#[cfg(test)]
mod interleaved_tests;
mod mailbox;
pub(crate) mod protocol;
mod sign;
#[cfg(any(feature = "farm", feature = "workflow"))]
pub(crate) mod trail;
pub(crate) mod user_code;
