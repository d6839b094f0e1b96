//! The heat equation on a plate, by explicit steps: each value of the new grid is made of old ones (Jacobi's order).
//!
//! [`kernel`] is the serial step, [`plate`] what makes a parallel one of it.

pub mod cli;
pub mod kernel;
pub mod plate;
