//! Options for experiments and tests (feature `experiments`), which are not part of the public interface: all options of a loop as one value,
//! the scheduler's quantum, and random movements of units (rows or indices).
#![cfg_attr(not(feature = "experiments"), allow(unreachable_pub))]

use std::time::Duration;

use super::settings::{Settings, loop_options};
use super::{DoAcross, DoAcrossLoop, DoAll, DoAllLoop, ParallelFor, Stencil, StencilLoop, Table, TableLoop};

impl Settings {
    /// Returns the default options of a loop.
    pub fn new() -> Self {
        Settings::default()
    }

    loop_options!(common);
    loop_options!(block_size);
    loop_options!(strip_width);
    loop_options!(checkpoint);
    loop_options!(periodic);
    loop_options!(panel_width);

    /// Sets the scheduler's quantum: how long the operating system lets a process run while other processes wait for the core. By default it is
    /// measured.
    pub fn quantum(self, quantum: Duration) -> Self {
        self.change(|settings| settings.quantum = Some(quantum))
    }

    /// Moves units (rows or indices) at random at each decision, with the random seed `seed`. Measurements are ignored.
    pub fn forced(self, seed: u64) -> Self {
        self.change(|settings| settings.forced = Some(seed))
    }

    fn change(mut self, set: impl FnOnce(&mut Settings)) -> Self {
        set(&mut self);
        self
    }
}

macro_rules! takes_settings {
    () => {
        /// Replaces all options of the loop that were set before this call.
        pub fn settings(self, settings: Settings) -> Self {
            self.change(|before| *before = settings)
        }
    };
}

impl ParallelFor {
    takes_settings!();
}

impl<L: DoAll> DoAllLoop<L> {
    takes_settings!();
}

impl<U: DoAcross> DoAcrossLoop<U> {
    takes_settings!();
}

impl<U: Stencil> StencilLoop<U> {
    takes_settings!();
}

impl<U: Table> TableLoop<U> {
    takes_settings!();
}
