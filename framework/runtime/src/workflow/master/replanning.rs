//! State of replanning: the current plan, the measurements that may require a new one, and the reason for it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use armature_planner::workflow::Plan;

use crate::workflow::forecast::{Deviation, Forecast};
use crate::workflow::planning::Clusters;

/// Reason for computing a new plan during a run.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::workflow) enum Cause {
    /// This rank is lost, so the plan, which has tasks for it, is no longer used.
    Lost(usize),
    /// Measurements of tasks or ranks differ from the assumptions of the plan.
    Deviation(Deviation),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Lost(rank) => write!(f, "rank {rank} is lost"),
            Cause::Deviation(deviation) => deviation.fmt(f),
        }
    }
}

/// Plan of a run, and everything on which the decision about a new plan depends.
#[derive(Debug)]
pub(super) struct Replanning {
    pub(super) forecast: Forecast,
    pub(super) clusters: Arc<Clusters>,
    pub(super) plan: Arc<Plan>,
    /// Time at which the planner was last asked or answered. `takes` is the expected time to compute a new plan.
    pub(super) at: Duration,
    pub(super) takes: Duration,
    pub(super) lost: Option<usize>,
    /// Number of lost ranks when the planner was asked; `None` if no answer is outstanding.
    pub(super) requested: Option<usize>,
}

/// Result of asking the planner for a new plan during a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::workflow) enum Change {
    /// A new plan replaces the current one. The number is the predicted time to the end of the run in seconds.
    Fresh(f64),
    /// The current plan stays, because no other plan ends the run sufficiently earlier. The number is the predicted time to the end of the run in
    /// seconds.
    Kept(f64),
    /// The planner's answer is not used: the planner found no plan, or a rank was lost meanwhile.
    None,
}

impl Replanning {
    /// Records the loss of a rank as the reason for a new plan.
    pub(super) fn on_lost(&mut self, rank: usize) {
        self.lost = Some(rank);
    }
}
