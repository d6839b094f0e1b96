//! Planning of farms: chunk sizes, the number of workers, and the time of an iteration.
//!
//! A master sends tasks to workers in *chunks*. Large chunks need few messages; small chunks balance differences between tasks and between workers. A
//! [`Chunker`] computes the size of the next chunk by a policy of [`Chunking`]. The default policy simulates the farm with the measured task times
//! and uses the policy that is fastest in the simulation.
//!
//! The policies FSC, DPF and DAF, the model and the indexes are those of Cesar, Moreno, Sorribes and Luque, *Modeling Master/Worker applications
//! for automatic performance tuning*, Parallel Computing 32 (2006). Numbers in parentheses are the equations of that paper. All times are in
//! seconds, sizes in bytes.

mod auto;
mod by_worker;
mod chunker;
mod chunking;
mod fit;
mod knowledge;
mod messages;
mod model;
mod policy;
mod second_copies;
mod statistics;
mod stream;
mod workers;

pub use auto::Choice;
pub use chunker::Chunker;
pub use chunking::{Chunking, Published};
pub use fit::FarmFit;
pub use knowledge::{ChunkDone, Knowledge, Supply};
pub use messages::{MessageCosts, StartUp};
pub use model::{IterationModel, Protocol, performance_index};
pub use second_copies::{HeldChunk, second_copies};
pub use statistics::TaskStatistics;
pub use stream::{Repeated, StreamModel};
pub use workers::{CountOutcome, WorkerCount};

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod reference_tests;
