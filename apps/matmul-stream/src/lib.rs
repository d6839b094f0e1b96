//! Product of two single-precision matrices as a pipeline: read → dot (multiply) → reduce (assemble).
//!
//! The program is the first application of Beard and Chamberlain, *Run Time Approximation of Non-blocking Service Rates for Streaming Systems*
//! (2015): copies of rows and columns are streamed to a stage that multiplies them, and a reducer assembles the product. An item is one row and one
//! column, as in the paper, or a block of rows and a block of columns.
//!
//! - [`matrix`]: matrices, and the shape of a product
//! - [`kernel`]: product of a block, and the serial loop
//! - [`blocks`]: division of a product into items
//! - [`reduce`]: assembly of parts into complete rows, by a stage with state
//! - [`pipeline`]: parallel product

pub mod blocks;
pub mod cli;
pub mod kernel;
pub mod matrix;
pub mod pipeline;
pub mod reduce;
