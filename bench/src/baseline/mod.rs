//! Hand-written MPI programs, tuned as their authors would tune them; the framework is compared with them.
//!
//! The programs use no part of the framework; the loops share their kernels with the applications. The programs are
//! written for a quiet machine, most of them for two ranks, and wait with MPI's own busy waiting, which is the
//! fastest way there.

pub mod chain;
pub mod hand_written_farm;
pub mod loops;
mod slot;
pub mod stages;
mod sweep;
pub mod task;
