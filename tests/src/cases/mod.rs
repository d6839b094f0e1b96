//! The cases: programs whose result must be the serial one on any ranks.

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
pub use deaths::CASES as MORTAL;
pub use flow::bounded;
pub use groups::groups;
pub use memory::{ARRAY, ARRAYS, CASES as MEMORY};
pub use serial::moves_state;

use crate::Case;

/// Cases of loops that take longer than one should everywhere: units move as hundreds of seeds say.
pub const SEEDS: &[Case] = &[units::SEEDS, blocks::SEEDS[0], blocks::SEEDS[1]];

/// Cases of every skeleton whose user code takes long.
pub const SLOW: &[&[Case]] = &[farms::SLOW, units::SLOW];

/// The cases of every file.
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
