//! How items are handed to replicas.

use serde::{Deserialize, Serialize};

/// How the items of a replicated block are handed to its hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dispatch {
    /// In turn, one each, as in the paper: the slowest replica holds up the others.
    RoundRobin,
    /// To whichever replica asks for work: unequal replicas get unequal shares.
    #[default]
    OnDemand,
}
