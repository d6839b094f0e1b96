//! Hardware of a node: its cores and caches, without a restriction to those that this process may use.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Physical core of a node, with the processing units of it that this process may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Core {
    /// Number of the package (socket) of the core, as assigned by the operating system.
    pub package: usize,
    /// Processing units (hardware threads) of the core that this process may use, with the numbers of the operating system.
    pub processing_units: Vec<usize>,
}

/// Library or files from which the data of a [`Topology`](super::Topology) were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Source {
    /// The hwloc library.
    Hwloc,
    /// The kernel's files below `/sys`.
    Sysfs,
}

/// Cores and caches of the whole node, without a restriction to those that this process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hardware {
    pub(super) cores: Vec<Core>,
    pub(super) caches: [Option<u64>; 3],
    pub(super) source: Source,
}

impl Core {
    pub(super) fn within(mut self, allowed: &BTreeSet<usize>) -> Option<Core> {
        self.processing_units.retain(|unit| allowed.contains(unit));
        (!self.processing_units.is_empty()).then_some(self)
    }
}
