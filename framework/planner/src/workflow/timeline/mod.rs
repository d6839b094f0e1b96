//! The event model: when each task starts where, when each file travels, and where it lies meanwhile.
//!
//! Tasks are placed one after the other, in an order in which each comes after those that it reads from; each starts
//! after the last one placed on its processor. The model:
//!
//! - A task holds what `TaskMemory` says from its start to its end, files read and written included.
//! - A file whose reader is on the same processor stays in memory until the reader starts. If it is evicted meanwhile,
//!   it cannot be read there any more, unless [`Rules::read_back`] allows it: then it is read from the buffer.
//! - A file for another processor is sent as soon as it is written, and its channel (one for each ordered pair of
//!   processors, one file after the other, in the order in which their readers are placed) is free. It lies in the
//!   sender's memory until it has arrived, or until it is evicted: then in the sender's buffer.
//!   Where tasks write one value for all readers, a processor that was sent it for one has it for all.
//! - The receiver puts it into its buffer, if it arrives before the memory for its reader is free and the buffer
//!   has room; if not, sending waits for that memory.
//! - A task starts when its processor is free, its files are there, and memory suffices. If it would not suffice, files on
//!   their way are evicted, or waited for where the buffer is full, and then the largest of those that wait for a reader.
//!
//! This differs from HEFTM as published in that files on their way are counted: there they are gone at once.

mod buffer;
mod candidate;
mod examine;
mod moment;
mod place;
mod processor;
mod state;

pub(super) use candidate::Outcome;
pub(super) use moment::Moment;
pub(super) use state::{Rules, Timeline};
