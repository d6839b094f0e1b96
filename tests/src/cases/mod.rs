//! Parallel programs (cases) whose result must equal the serial result on any number of ranks.

mod blocks;
mod collect;
mod commands;
mod deaths;
mod expanding;
mod farms;
mod flow;
mod groups;
mod items;
mod memory;
mod order;
mod remaps;
mod serial;
mod sessions;
mod simulated;
mod streams;
mod tables;
mod units;
mod values;
mod workflows;

pub use commands::CASES as WORKFLOWS;
pub use deaths::CASES as DEATHS;
pub use flow::bounded;
pub use groups::groups;
pub use memory::{ARRAY, ARRAYS, CASES as MEMORY};
pub use serial::moves_state;

use crate::Case;

/// Loops that run with hundreds of seeds, each of which selects movements of rows or other data between ranks. They take too long for every way of
/// running and all settings.
pub const SEEDS: &[Case] = &[units::SEEDS, blocks::SEEDS[0], blocks::SEEDS[1]];

/// Test programs (farms and loops) in which a call of user code takes seconds.
pub const SLOW: &[&[Case]] = &[farms::SLOW, units::SLOW];

/// Cases that run in every way: on threads, under each MPI library, and on simulated hosts.
pub(crate) const ALL: &[&[Case]] = &[
    order::CASES,
    serial::CASES,
    remaps::CASES,
    items::CASES,
    flow::CASES,
    expanding::CASES,
    farms::CASES,
    blocks::CASES,
    tables::CASES,
    units::CASES,
    workflows::CASES,
    collect::CASES,
    sessions::CASES,
    streams::CASES,
    simulated::CASES,
    values::CASES,
    groups::CASES,
];
