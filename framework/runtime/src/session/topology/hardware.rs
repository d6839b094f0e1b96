//! What a node has: its cores and caches, before the part of one process is taken.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// A physical core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Core {
    /// The operating system's number of the package that it sits in.
    pub package: usize,
    /// Its processing units (hardware threads) that this process may use, by the operating system's numbers.
    pub processing_units: Vec<usize>,
}

/// Where a [`Topology`](super::Topology) comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Source {
    /// The hwloc library.
    Hwloc,
    /// The kernel's files below `/sys`.
    Sysfs,
}

/// Cores and caches of the whole node, before the part of this process is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hardware {
    pub(super) cores: Vec<Core>,
    pub(super) caches: [Option<u64>; 3],
    pub(super) source: Source,
}

impl Core {
    /// What is left of the core under an affinity mask, if anything.
    pub(super) fn within(mut self, allowed: &BTreeSet<usize>) -> Option<Core> {
        self.processing_units.retain(|unit| allowed.contains(unit));
        (!self.processing_units.is_empty()).then_some(self)
    }
}
