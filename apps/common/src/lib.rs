//! What the programs of `apps` share.
//!
//! - [`run`]: how every program ends
//! - [`farm`](mod@farm): the options that every farm has
//! - [`pipeline`]: the options that every pipeline has
//! - [`loops`]: the options that every loop has
//! - [`grid`]: the size of a loop's grid, and whether it is the serial loop's
//! - [`names`]: names of files, fit for a line
//! - [`terminal`]: standard output and error, whose reader may leave
//! - [`random`]: seeded numbers that are the same on every machine
//! - [`spin`]: work that takes time and does nothing else

pub mod farm;
pub mod grid;
pub mod loops;
pub mod names;
pub mod pipeline;
pub mod random;
pub mod run;
pub mod spin;
pub mod terminal;
