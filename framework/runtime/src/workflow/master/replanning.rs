//! State of replanning in a workflow's run: the current plan, the measurements that may contradict it, and the reason for a new plan.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use armature_planner::workflow::Plan;

use crate::workflow::forecast::{Deviation, Forecast};
use crate::workflow::planning::Clusters;

#[derive(Clone, Debug, PartialEq)]
pub(in crate::workflow) enum Cause {
    /// This rank has died, so the plan, which has tasks for it, cannot be used any more.
    Lost(usize),
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

/// Plan of a run, with everything that determines whether a new plan is needed.
#[derive(Debug)]
pub(super) struct Replanning {
    pub(super) forecast: Forecast,
    pub(super) clusters: Arc<Clusters>,
    pub(super) plan: Arc<Plan>,
    /// Time of the last request to the planner or of its last reply, whichever was later. `takes` is the expected time to compute a new plan.
    pub(super) at: Duration,
    pub(super) takes: Duration,
    pub(super) lost: Option<usize>,
    /// Number of dead ranks at the time of the request to which the planner has not replied; `None` if there is no such request.
    pub(super) requested: Option<usize>,
}

/// Result of a request to the planner for a new plan during a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::workflow) enum Change {
    /// A new plan replaces the current one. The number is the predicted remaining time of the run in seconds.
    Fresh(f64),
    /// The current plan stays, because no new plan ends the run sufficiently earlier. The number is the predicted remaining time of the run in
    /// seconds.
    Kept(f64),
    /// The planner's reply is not used: the planner found no plan, or a rank died while it was computing.
    None,
}

impl Replanning {
    pub(super) fn on_lost(&mut self, rank: usize) {
        self.lost = Some(rank);
    }
}
