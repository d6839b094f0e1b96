//! MPI bindings for use by programs.

pub use ::mpi;

/// A communicator, as a type of the MPI bindings that this crate uses.
pub type Communicator = ::mpi::topology::SimpleCommunicator;
