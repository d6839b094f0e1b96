//! Most central places of a network by repeated squaring of a matrix: a farm of dependent iterations.
//!
//! The centrality of a place is its entry in the dominant eigenvector of the matrix of weights between places ([`places`]). A symmetric matrix with
//! positive eigenvalues that is repeatedly squared and divided by its trace converges to the projection on this vector; each squaring doubles the
//! number of correct digits ([`squaring`]). A squaring is a set of tasks for the farm's workers, each of which multiplies two panels of rows and
//! returns a block of the square ([`block`]). The next squaring needs all blocks ([`farm`]).

pub mod block;
pub mod cli;
pub mod eigen;
pub mod farm;
pub mod matrix;
pub mod places;
pub mod squaring;
