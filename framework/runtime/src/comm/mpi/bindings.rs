//! MPI bindings that programs use for their own MPI calls.

pub use ::mpi;

/// An MPI communicator, as a type of the Rust bindings of MPI that this crate uses.
pub type Communicator = ::mpi::topology::SimpleCommunicator;
