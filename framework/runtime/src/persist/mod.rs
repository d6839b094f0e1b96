//! Data that survives a crash: journals and checkpoints.

pub mod journal;
pub(crate) mod snapshot;
