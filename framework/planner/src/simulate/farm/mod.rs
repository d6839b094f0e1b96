//! Simulation of a farm, chunk by chunk.
//!
//! The master sends through one port, one message at a time. A message with k tasks occupies the port for `mo + λ b_m k` (start-up time `mo`, time
//! per byte λ, b_m bytes per task), and arrives one [latency](crate::farm::Knowledge::latency) later. The worker computes the tasks, and the results,
//! of b_w bytes per task, arrive `mo + λ b_w k` and one latency after the end of the computation; receiving takes no time on the master. A worker
//! sends its next request when its results have arrived, or earlier by [`Knowledge::ahead`](crate::farm::Knowledge::ahead) chunks. Requests are
//! served in the order of their times; at the beginning all workers send requests in turn. With one chunk for each worker and equal tasks, the time
//! equals equation 9 of the model of Cesar et al. (2006).
//!
//! A [`Dispatcher`] decides on the sizes of chunks. [`Dispatch`] uses a [`Chunker`](crate::farm::Chunker) for this, the type that a running farm
//! uses.
//!
//! ```
//! use armature_planner::farm::{Chunker, Chunking, IterationModel, Knowledge, MessageCosts, Protocol};
//! use armature_planner::simulate::farm::{Dispatch, Farm, Tasks};
//!
//! let knowledge =
//!     Knowledge { messages: MessageCosts::new(1e-4, 1e-7), task_bytes: 12.0, result_bytes: 12.0, ..Knowledge::default() };
//! let tasks = Tasks::new(&vec![0.5e-3; 1000]);
//! let farm = Farm::new(knowledge);
//! let mut chunker = Chunker::new(Chunking::Static);
//! let run = Dispatch::new(&mut chunker, &tasks, knowledge).iteration(&farm, &[0, 1, 2, 3]);
//!
//! let model = IterationModel {
//!     messages: knowledge.messages,
//!     volume: 24_000.0,
//!     out: 0.5,
//!     compute: 0.5,
//!     master: 0.0,
//!     protocol: Protocol::Synchronous,
//! };
//! assert!((run.time / model.time(4) - 1.0).abs() < 1e-12);
//! assert!((run.efficiency(4) - model.efficiency(4)).abs() < 1e-12);
//! ```

mod dispatch;
mod engine;
mod tasks;

pub use dispatch::Dispatch;
pub use engine::{Dispatcher, Farm, InitialState, Run};
pub use tasks::Tasks;
