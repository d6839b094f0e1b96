//! Content-based image similarity search: which images of a collection look like this one?
//!
//! A query image goes through six stages: it is decoded ([`stages::load`]), cut into regions ([`segment`]),
//! each region is described by a vector ([`features`]), similar regions are looked up in a hash index
//! ([`index`], [`lsh`]), the images found are ranked by the earth mover's distance ([`emd`], [`rank`]), and the
//! best are written out ([`stages::out`]). The [`stages`] are plain functions from value to value.
//!
//! The same input gives the same bytes on every machine: the arithmetic uses only operations that IEEE 754
//! defines exactly, and randomness is seeded.

mod adjacency;
pub mod build;
pub mod cli;
pub mod cost;
pub mod database;
pub mod distance;
pub mod emd;
pub mod eval;
pub mod features;
pub mod files;
pub mod fingerprint;
pub mod index;
pub mod lsh;
pub mod pairs;
mod parallel;
pub mod picture;
pub mod pipeline;
pub mod profile;
pub mod queries;
pub mod query;
pub mod rank;
mod raw;
pub mod record;
mod regions;
pub mod replay;
pub mod resample;
pub mod scene;
pub mod segment;
pub mod stages;
pub mod synth;
pub mod timing;
pub mod variant;
