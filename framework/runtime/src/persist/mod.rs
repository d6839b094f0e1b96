//! Data that survives a crash: journals and checkpoints.

pub(crate) mod identity;
pub mod journal;
#[cfg(feature = "loops")]
pub(crate) mod snapshot;
