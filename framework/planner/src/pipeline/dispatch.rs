//! Dispatch of the items of a pipeline to the replicas of a stage.

use serde::{Deserialize, Serialize};

/// Dispatch of the items of a replicated block of stages to the processors that run it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Dispatch {
    /// Round robin: one item to each host in turn, as in the HeDPM paper. The slowest replica delays the others.
    RoundRobin,
    /// On demand: the next item goes to a replica that has requested work, so that replicas of unequal speed receive unequal shares.
    #[default]
    OnDemand,
}
