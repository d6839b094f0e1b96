//! Which places of a network are the most central, by repeated squaring of a matrix: a farm of dependent iterations.
//!
//! The centrality of a place is its entry in the dominant eigenvector of the matrix of weights between places ([`places`]).
//! Squaring a symmetric matrix with positive eigenvalues, and dividing it by its trace, again and again leaves the
//! projection on that vector; each squaring doubles the digits that are right ([`squaring`]). One squaring is a set of
//! tasks: each multiplies two panels of rows and gives a block of the square ([`block`]). The next squaring needs all of
//! them ([`farm`]).

pub mod block;
pub mod cli;
pub mod eigen;
pub mod farm;
pub mod matrix;
pub mod places;
pub mod squaring;
