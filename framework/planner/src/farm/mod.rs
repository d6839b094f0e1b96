//! Farms: how large chunks are, how many workers pay, and what an iteration takes.
//!
//! A master hands out tasks to workers in *chunks*. Large chunks cost few messages, small ones even out what tasks
//! and workers differ by. A [`Chunker`] says how large the next one is, by any of the policies of [`Chunking`], and
//! by default by the one that a simulation of the farm's own measurements finds fastest.
//!
//! The policies FSC, DPF and DAF, the model and the indexes are those of Cesar, Moreno, Sorribes and Luque, *Modeling
//! Master/Worker applications for automatic performance tuning*, Parallel Computing 32 (2006); numbers in
//! parentheses are its equations. All times are in seconds, sizes in bytes.

mod auto;
mod by_worker;
mod chunker;
mod chunking;
mod fit;
mod knowledge;
mod messages;
mod model;
mod policy;
mod statistics;
mod stream;
mod workers;

pub use auto::Choice;
pub use chunker::Chunker;
pub use chunking::Chunking;
pub use fit::FarmFit;
pub use knowledge::{ChunkDone, Knowledge, Supply};
pub use messages::{MessageCosts, StartUp};
pub use model::{
    IterationModel, Protocol, idle_bound, idle_index, performance_index, real_optima, time_bound,
    unbalanced_time,
};
pub use statistics::TaskStatistics;
pub use stream::{Repeated, StreamModel};
pub use workers::{CountOutcome, WorkerCount};

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod reference_tests;
