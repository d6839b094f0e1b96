//! Successive over-relaxation of a grid, in Gauss-Seidel order: the example of Siegell and Steenkiste (1997).
//!
//! Each value goes to a combination of itself and its four neighbours, of which two are new already: the loops over rows
//! and over columns both carry dependences, so neither is parallel, but strips of columns can go down the ranks like a
//! wave. [`kernel`] is the serial loop, [`sweep`] what makes a parallel one of it.

pub mod cli;
pub mod kernel;
pub mod sweep;
