//! DOALL loops: units do not depend on each other, so that any rank may do any of them.
//!
//! The protocol is described in `README.md` beside this module's source.

#[cfg(test)]
mod checkpoint_tests;
mod engine;
mod gather;
#[cfg(test)]
pub(super) mod golden_tests;
#[cfg(test)]
mod indices_tests;
mod keeping;
mod leader;
mod looper;
mod member;
mod messages;
#[cfg(test)]
mod nowait_tests;
mod pace;
mod stock;
mod talk;
#[cfg(test)]
mod tests;

pub(super) use engine::Engine;
pub(super) use gather::gather;
pub(super) use looper::caught;
pub use looper::{DoAll, DoAllLoop};
pub(super) use messages::Shipment;
pub(super) use stock::{Block, Segment};
