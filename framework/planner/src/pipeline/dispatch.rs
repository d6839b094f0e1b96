//! Dispatch of items to replicas.

use serde::{Deserialize, Serialize};

/// Dispatch of the items of a replicated block to its hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Dispatch {
    /// One item to each host in turn, as in the paper. The slowest replica delays the others.
    RoundRobin,
    /// The next item to the replica that requests work, so that replicas of unequal speed receive unequal shares.
    #[default]
    OnDemand,
}
