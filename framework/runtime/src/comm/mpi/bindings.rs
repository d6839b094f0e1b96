//! MPI bindings that programs use for their own MPI calls.

pub use ::mpi;

/// A communicator, as a type of the MPI bindings that this crate uses.
pub type Communicator = ::mpi::topology::SimpleCommunicator;
