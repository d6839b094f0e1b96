//! Content-based image similarity search: finds the images of a collection that are most similar to a query image.
//!
//! A query image passes through six stages. It is decoded ([`stages::load`]) and segmented into regions ([`segment`]), and each region is described
//! by a vector ([`features`]). Similar regions are looked up in a hash index ([`index`], [`lsh`]), the images found are ranked by the earth mover's
//! distance ([`emd`], [`rank`]), and the best ones are written ([`stages::out`]). The functions of the [`stages`] have no side effects.
//!
//! Equal inputs yield equal bytes on every machine, because the arithmetic only uses operations that IEEE 754 defines exactly, and random numbers are
//! seeded.

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
