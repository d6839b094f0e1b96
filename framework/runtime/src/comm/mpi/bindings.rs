//! The bindings to MPI, as programs get them.

pub use ::mpi;

/// A communicator in the bindings of this crate.
pub type Communicator = ::mpi::topology::SimpleCommunicator;
