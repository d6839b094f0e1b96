//! Successive over-relaxation of a grid in Gauss-Seidel order, the example of Siegell and Steenkiste (1997).
//!
//! Each value becomes a combination of itself and its four neighbours, two of which are already new. The loops over rows and over columns both carry
//! dependences, so that neither is parallel. Strips of columns, however, can pass through the ranks as a wavefront. [`kernel`] is the serial loop,
//! and [`sweep`] the parallel one.

pub mod cli;
pub mod kernel;
pub mod sweep;
