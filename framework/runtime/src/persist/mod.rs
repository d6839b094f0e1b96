//! What survives a crash.

pub mod journal;
pub(crate) mod snapshot;
