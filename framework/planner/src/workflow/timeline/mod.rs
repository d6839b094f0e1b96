//! Event model of workflow plans: start and processor of each task, times of all transfers, and the memory or buffer that holds each file over time.
//!
//! Tasks are placed one after the other, in an order in which each task comes after those from which it reads. Each task starts after the last task
//! placed on its processor. The rules of the model are:
//!
//! - From its start to its end a task holds the memory defined by `TaskMemory`, including the files that it reads and writes.
//! - A file whose reader is on the same processor stays in memory until the reader starts. After an eviction it cannot be read on this processor any
//!   more, unless [`Rules::read_back`] permits reading it from the buffer.
//! - A file for another processor is sent as soon as it is written and its channel is free. Each ordered pair of processors has one channel, which
//!   carries one file at a time, in the order in which the readers are placed. The file stays in the sender's memory until it has arrived, or until
//!   its eviction, after which it is in the sender's buffer. If tasks write one value for all tasks that read from them, a processor that has
//!   received the value for one reader has it for all.
//! - The receiver puts the file into its buffer if it arrives before the memory for its reader is reserved and the buffer has space. Otherwise the
//!   transfer waits for the memory.
//! - A task starts when its processor is free, its files have arrived, and memory is sufficient. If memory is not sufficient, files that are being
//!   sent are evicted, or their transfers are awaited if the buffer is full, and then the largest files that wait for a reader are evicted.
//!
//! Unlike HEFTM as published, this model counts files that are being sent; in the paper of Kulagina et al. they leave memory at once.

mod buffer;
mod candidate;
mod examine;
mod moment;
mod place;
mod processor;
mod state;

pub(super) use candidate::PlacementResult;
pub(super) use moment::Moment;
pub(super) use state::{Rules, Timeline};
