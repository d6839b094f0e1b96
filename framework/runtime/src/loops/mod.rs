//! Parallel loops whose units move between ranks: rows of a matrix, of a grid, of a picture.
//!
//! The iterations of the distributed loop are its *units*. Each rank owns some of the units, with their data, which the framework stores.
//! While the loop runs, ranks report their speed, and units move to ranks that compute them sooner. The result is that of the serial loop,
//! to the last bit, wherever the units are.
//!
//! | loop | trait |
//! |---|---|
//! | over units that do not depend on each other (DOALL) | [`DoAll`]; over mere indices [`ParallelFor`]; in short [`map`] and [`reduce`]; without a closure [`Ranges`] |
//! | over a grid in place, each value from new and old neighbours (Gauss-Seidel order) | [`DoAcross`] |
//! | over a table that is filled once, each value from those above and to the left (dynamic programming) | [`Table`] |
//! | from grid to grid, each value from old neighbours (Jacobi, finite differences) | [`Stencil`] |
//!
//! Rank 0 decides about movements with the balancer of [`armature_planner::loops`], and also computes its own units; no rank waits for a
//! decision. Options are methods of the loops, such as [`DoAllLoop::balance`], and all of them have defaults.

mod closures;
#[cfg(doctest)]
mod compile_fail;
mod controller;
mod coordinator;
mod doall;
mod events;
#[cfg(any(test, feature = "experiments"))]
mod experiments;
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

const NAME: &str = "the loop";
/// Time between two polls of a computing rank for messages or for the end of a disk operation. It is about the time of a message to a sleeping rank,
/// and a thousand times the cost of a poll.
const POLL_INTERVAL: std::time::Duration = std::time::Duration::from_millis(1);

pub use closures::{map, reduce};
pub use doall::{DoAll, DoAllLoop};
pub use grid::{
    Cells, DoAcross, DoAcrossLoop, Grid, Line, OldGrid, Shape, Stencil, StencilLoop, Table, TableLoop,
};
pub use parallel_for::ParallelFor;
pub use ranges::Ranges;
#[cfg(any(test, feature = "experiments"))]
pub use settings::Settings;
pub use summary::{RankReport, Summary};
pub use units::{Rows, Units};
pub use until::{Converged, Until};
