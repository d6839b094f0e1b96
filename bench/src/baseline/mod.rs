//! Hand-written MPI programs, tuned as their authors would tune them; the framework is compared with them.
//!
//! The programs use no part of the framework; the loops use the kernels of the programs in `apps`. The programs are written for a quiet machine, most
//! of them for two ranks, and wait in MPI's blocking calls, whose busy waiting is fastest on a quiet machine.

pub mod chain;
pub mod hand_written_farm;
pub mod loops;
mod slot;
pub mod stages;
mod sweep;
pub mod task;
pub mod task_bench;
