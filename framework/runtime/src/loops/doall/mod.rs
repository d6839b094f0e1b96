//! DOALL loops: the units of the loop (rows, values or indices) do not depend on each other, so that any rank
//! may compute any unit.
//!
//! `README.md` in the directory of this module describes the protocol.

mod block_size;
mod checkpoint;
#[cfg(test)]
mod checkpoint_tests;
mod coordinator;
mod do_all;
mod gather;
#[cfg(test)]
pub(super) mod golden_tests;
#[cfg(test)]
mod indices_tests;
mod messages;
#[cfg(test)]
mod nowait_tests;
mod rank_loop;
mod run;
mod running;
#[cfg(test)]
mod tests;
mod unit_queue;
mod user_code;
mod worker;

pub use do_all::DoAllLoop;
pub(super) use gather::gather;
pub(super) use messages::UnitMigration;
pub(super) use rank_loop::RankLoop;
pub(super) use running::{CallerRequest, Run, Running};
pub(super) use unit_queue::{Segment, UnitBlock};
pub use user_code::DoAll;
pub(super) use user_code::{Body, ByCaller, Done, blame};
