//! What rank 0 tells the others while a pipeline runs, and what they answer.

use std::time::Duration;

use armature_planner::Link;
use serde::{Deserialize, Serialize};

use super::machine::table::Table;

/// A mapping is to come: set up what it puts on you, and say when that is done. The stream goes on meanwhile.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Prepare {
    pub(crate) table: Table,
    /// Take the sizes of items on so many batches of every edge.
    pub(crate) weigh: usize,
    /// Time since the run began, by rank 0's clock: the ranks' logs of events begin with it.
    pub(crate) elapsed: Duration,
    /// How often to send measurements; never where nothing is decided by them.
    pub(crate) measure_every: Option<Duration>,
    /// By sender, the links into that rank as they were probed; none where nobody wants to know what traffic tells of
    /// them. Then batches are not stamped either.
    pub(crate) links: Vec<Link>,
}

/// The stages of a mapping are set up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub(crate) epoch: u32,
    /// Serial stages made here whose state can go on elsewhere.
    pub(crate) movable: Vec<usize>,
    /// What the factories took, by stage.
    pub(crate) warm_up: Vec<(usize, Duration)>,
}

/// All are ready: use the mapping of that epoch from now on.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Switch {
    pub(crate) epoch: u32,
}
