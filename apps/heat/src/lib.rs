//! Heat equation on a plate with explicit steps: each value of the new grid is computed from values of the old grid (Jacobi order).
//!
//! [`kernel`] is the serial time step, and [`plate`] is the parallel loop.

pub mod cli;
pub mod kernel;
pub mod plate;
