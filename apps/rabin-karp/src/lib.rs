//! The search of Rabin and Karp (1987) for a set of patterns, as a pipeline: read → hash → verify → reduce.
//!
//! A hash that rolls over the text proposes where a pattern may be, and a comparison of bytes decides. It is the second
//! application of Beard and Chamberlain, *Run Time Approximation of Non-blocking Service Rates for Streaming Systems* (2015).
//!
//! - [`patterns`]: what is looked for, and its fingerprints
//! - [`hash`]: the rolling hash, which proposes
//! - [`verify`]: the comparison, which decides
//! - [`text`]: what is searched, cut into segments that overlap
//! - [`places`]: the same for files that all ranks read
//! - [`pipeline`]: all of it on ranks
//! - [`lines`]: what is printed of it
//! - [`cost`]: what the stages cost where computing takes no time by itself

pub mod cli;
pub mod cost;
pub mod hash;
pub mod lines;
pub mod patterns;
pub mod pipeline;
pub mod places;
pub mod text;
pub mod verify;
