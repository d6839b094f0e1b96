//! Loops over grids: each rank holds a block of neighbouring rows. `README.md` in this directory describes the protocol.

#[cfg(test)]
mod chain_tests;
mod checkpoint;
#[cfg(test)]
mod checkpoint_tests;
mod convergence;
mod coordinator;
mod directive;
mod doacross;
mod findings;
#[cfg(test)]
mod golden_tests;
mod grid_loop;
mod huge_pages;
mod kernel;
mod local_rows;
mod messages;
mod neighbours;
mod participant;
#[cfg(test)]
mod periodic_tests;
mod prefetch;
mod row_migration;
mod rowless;
mod shape;
mod stencil;
mod stencil_step;
mod strip_width;
mod table;
#[cfg(test)]
mod table_checkpoint_tests;
mod table_loop;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
mod times;
mod view;
mod wavefront;
mod worker;

/// Name of a loop in messages such as "has waited 10 s for rank 3 to reach the loop".
const NAME: &str = "the loop";

pub use doacross::{DoAcross, DoAcrossLoop};
pub use shape::Shape;
pub use stencil::{Stencil, StencilLoop};
pub use table::{Cells, Line, Table};
pub use table_loop::TableLoop;
pub use view::{Grid, OldGrid};
