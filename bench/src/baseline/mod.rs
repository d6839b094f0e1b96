//! Hand-written MPI programs, tuned as their authors would tune them: what the framework is held against.
//!
//! They use no part of the framework. They are written for two ranks on a quiet machine and wait by MPI's own
//! busy waits, which is the fastest there.

pub mod chain;
pub mod loops;
mod slot;
pub mod stages;
mod sweep;
pub mod task;
pub mod two_ranks;
