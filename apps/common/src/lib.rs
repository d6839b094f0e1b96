//! Code shared by the programs in `apps`.
//!
//! - [`farm`](mod@farm): command-line options of every farm
//! - [`pipeline`]: command-line options of every pipeline
//! - [`loops`]: command-line options of every loop
//! - [`grid`]: size of a loop's grid, and comparison with the serial loop
//! - [`output`]: output of a pipeline, which a job with snapshots continues after a restart
//! - [`names`]: file names, escaped for output in a line
//! - [`terminal`]: standard output and standard error, whose reader may close them
//! - [`random`]: seeded random numbers that are equal on every machine
//! - [`spin`]: synthetic work that only takes time
//! - [`version`]: arguments of a program, whose `--version` also names the MPI library

pub mod farm;
pub mod grid;
pub mod loops;
pub mod names;
pub mod output;
pub mod pipeline;
pub mod random;
pub mod spin;
pub mod terminal;
pub mod version;
