//! The product of two matrices of single precision as a pipeline: read → dot → reduce.
//!
//! It is the first application of Beard and Chamberlain, *Run Time Approximation of Non-blocking Service Rates for Streaming
//! Systems* (2015): rows and columns are streamed, by copy, to a stage that multiplies them, and a reducer puts the product
//! together. An item is a row and a column, as there, or a block of rows and one of columns.
//!
//! - [`matrix`]: where elements come from, and the shape of a product
//! - [`kernel`]: the product of a block, and the serial loop
//! - [`blocks`]: a product cut into items
//! - [`reduce`]: parts of the product, put together to whole rows, by a stage that remembers them
//! - [`pipeline`]: all of it on ranks

pub mod blocks;
pub mod cli;
pub mod kernel;
pub mod matrix;
pub mod pipeline;
pub mod reduce;
