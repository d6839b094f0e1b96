//! Loops over grids: each rank has a block of neighbouring rows. `README.md` beside this file has the protocol.

#[cfg(test)]
mod chain_tests;
mod checkpoint;
#[cfg(test)]
mod checkpoint_tests;
mod coordinator;
mod directive;
mod doacross;
#[cfg(test)]
mod golden_tests;
mod grid_loop;
mod huge_pages;
mod local_rows;
mod messages;
mod neighbours;
mod prefetch;
mod rank;
mod row_migration;
mod shape;
mod shutdown;
mod stencil;
mod stencil_step;
mod strip_width;
#[cfg(test)]
mod tests;
mod view;
mod wavefront;
mod worker;

pub use doacross::{DoAcross, DoAcrossLoop};
pub use shape::Shape;
pub use stencil::{Stencil, StencilLoop};
pub use view::{Grid, OldGrid};
