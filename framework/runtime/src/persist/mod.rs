//! Data that survives a crash: journals and checkpoints.

pub(crate) mod identity;
pub mod journal;
pub(crate) mod snapshot;
