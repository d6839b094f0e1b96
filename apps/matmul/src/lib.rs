//! The product of two square matrices, as a loop over rows: the first example of Siegell and Steenkiste (1997).
//!
//! Rows of the product do not depend on each other. Rows of A and of C belong together and move between ranks; B is on all of
//! them. [`kernel`] is the serial product, [`product`] what makes a parallel one of it.

pub mod cli;
pub mod kernel;
pub mod product;
