//! Search for a set of patterns by the algorithm of Rabin and Karp (1987), as a pipeline: read → hash → verify → reduce.
//!
//! A rolling hash proposes candidates, and a comparison of bytes decides which of them are matches. The program is the second application of Beard
//! and Chamberlain, *Run Time Approximation of Non-blocking Service Rates for Streaming Systems* (2015).
//!
//! - [`patterns`]: patterns and their fingerprints
//! - [`hash`]: rolling hash, which proposes candidates
//! - [`verify`]: comparison of candidates (possible matches) with patterns
//! - [`text`]: texts, divided into overlapping segments
//! - [`places`]: segments of files that each rank reads itself
//! - [`pipeline`]: parallel search
//! - [`lines`]: lines of the output
//! - [`cost`]: cost model of the pipeline's stages for simulated machines

pub mod cli;
pub mod cost;
pub mod hash;
pub mod lines;
pub mod patterns;
pub mod pipeline;
pub mod places;
pub mod text;
pub mod verify;
