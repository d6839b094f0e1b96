//! Loops over blocks of neighbouring rows. `README.md` beside this file has the protocol.

mod bands;
mod block;
#[cfg(test)]
mod chain_tests;
#[cfg(test)]
mod checkpoint_tests;
mod doacross;
mod driver;
mod ending;
mod field;
#[cfg(test)]
mod golden_tests;
mod grid;
mod halo;
mod leader;
mod machine;
mod mail;
mod neighbours;
mod orders;
mod pages;
mod relocation;
mod scribe;
mod shape;
mod stencil;
mod strips;
mod sweeper;
#[cfg(test)]
mod tests;

pub use doacross::{DoAcross, SweepLoop};
pub use grid::{Grid, OldGrid};
pub use shape::Shape;
pub use stencil::{Stencil, StencilLoop};
