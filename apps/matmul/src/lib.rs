//! Product of two square matrices as a loop over rows, the first example of Siegell and Steenkiste (1997).
//!
//! Rows of the product do not depend on each other. A row of A and the row of C with the same number move between ranks together; all ranks have B.
//! [`kernel`] is the serial product, and [`product`] is the parallel loop.

pub mod cli;
pub mod kernel;
pub mod product;
