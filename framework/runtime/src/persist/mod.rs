//! Data that survives a crash of the job: journals (files of completed results) and checkpoints.

pub(crate) mod identity;
pub mod journal;
#[cfg(any(feature = "loops", feature = "pipeline"))]
pub(crate) mod snapshot;
