//! Parallel loops whose units move: rows of a matrix, of a grid, of a picture.
//!
//! The iterations of the distributed loop are its *units*. Each rank has some of them, with their data, which the
//! framework keeps; while the loop runs, ranks report how fast they are, and units move to where they are done
//! sooner. Results are those of the serial loop, to the bit, wherever units are done.
//!
//! | loop | trait |
//! |---|---|
//! | over units that do not depend on each other (DOALL) | [`DoAll`]; over mere indices [`ParallelFor`]; in short [`parallel_for`], [`map`], [`reduce`]; without a closure [`Ranges`] |
//! | over a grid in place, each value from new and old neighbours (Gauss-Seidel order) | [`DoAcross`] |
//! | over a table that is filled once, each value from those above and to the left (dynamic programming) | [`Table`] |
//! | from grid to grid, each value from old neighbours (Jacobi, finite differences) | [`Stencil`] |
//!
//! Rank 0 decides, beside its own share of the work, by the balancer of [`armature_planner::loops`]; nobody waits for a
//! decision. What can be set are methods of the loops, such as [`DoAllLoop::balance`]; nothing needs to be.
//! [`Settings`] has the same options as a value.

mod closures;
#[cfg(doctest)]
mod compile_fail;
mod controller;
mod coordinator;
mod doall;
mod events;
mod grid;
mod metrics;
mod pack;
mod parallel_for;
mod quantum;
mod random_shares;
mod ranges;
mod settings;
mod summary;
mod units;
mod until;
#[cfg(test)]
mod until_tests;

pub use crate::persist::snapshot::Checkpoint;

/// What ranks come to, in what is said of those that do not.
const NAME: &str = "the loop";
/// The time between two looks at messages while a rank has something to compute, and between two looks at a disk that it waits for:
/// messages wait about as long anyway for ranks that sleep, and a look costs a thousandth of it.
const LOOK: std::time::Duration = std::time::Duration::from_millis(1);

pub use armature_planner::loops::{LoopOptions, Smoothing, Trend, TrendTable};
pub use closures::{map, parallel_for, reduce, reduce_any_order};
pub use doall::{DoAll, DoAllLoop};
pub use grid::{
    Cells, DoAcross, DoAcrossLoop, Grid, Line, OldGrid, Shape, Stencil, StencilLoop, Table, TableLoop,
};
pub use parallel_for::ParallelFor;
pub use ranges::Ranges;
pub use settings::Settings;
pub use summary::{RankReport, Summary};
pub use units::{Rows, Units};
pub use until::{Converged, Until};
