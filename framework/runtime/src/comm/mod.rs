//! Ranks and messages: a [`Transport`] carries frames between ranks, and an [`Endpoint`](endpoint::Endpoint) is a rank's end of the communicator,
//! which sorts messages by run and tag, and knows which ranks are dead.
//!
//! Nothing in this module depends on a skeleton (farm, pipeline, loop or workflow), and only [`mpi`] depends on MPI.

pub(crate) mod backoff;
pub(crate) mod clock;
#[cfg(test)]
mod conformance;
pub(crate) mod endpoint;
#[cfg(test)]
mod golden_tests;
mod liveness;
pub(crate) mod local;
pub(crate) mod message;
#[cfg(feature = "mpi")]
pub(crate) mod mpi;
mod part;
pub(crate) mod process;
pub(crate) mod run_delay;
pub(crate) mod signals;
mod transport;
pub(crate) mod waiting;

pub(crate) use backoff::Backoff;
pub(crate) use liveness::HEARTBEAT_PERIOD;
pub(crate) use part::Part;
pub(crate) use transport::{Capabilities, Frame, Group, Transport, Waker};
pub(crate) use waiting::Reminder;
