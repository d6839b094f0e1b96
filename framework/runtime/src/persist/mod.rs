//! Data that survives a crash: journals and checkpoints.

pub(crate) mod identity;
pub mod journal;
#[cfg(any(feature = "loops", feature = "pipeline"))]
pub(crate) mod snapshot;
