//! What every rank does, whichever skeleton runs on it. See the README beside this file.

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
pub(crate) mod suspicion;
#[cfg(any(feature = "farm", feature = "workflow"))]
pub(crate) mod trail;
pub(crate) mod user_code;
