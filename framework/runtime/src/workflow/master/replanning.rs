//! What is known of plans while tasks run, why one is made anew, and what comes of that.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use armature_planner::workflow::Plan;

use crate::workflow::forecast::{Deviation, Forecast};
use crate::workflow::planning::Clusters;

/// Why a plan is made anew.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::workflow) enum Cause {
    /// A rank is lost, and the plan with it.
    Lost(usize),
    /// Tasks or ranks are other than was assumed.
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

/// What is known of plans, where there is one that may be made anew.
#[derive(Debug)]
pub(super) struct Replanning {
    pub(super) forecast: Forecast,
    pub(super) clusters: Arc<Clusters>,
    pub(super) plan: Arc<Plan>,
    /// When the last plan was there, and what one that is made anew takes.
    pub(super) at: Duration,
    pub(super) takes: Duration,
    pub(super) lost: Option<usize>,
    /// Ranks that were lost when the planner was asked, while it has not answered.
    pub(super) asked: Option<usize>,
}

/// What came of a plan that was made anew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::workflow) enum Change {
    /// It is in force, and ends the run in this time, in seconds.
    Fresh(f64),
    /// The one before stays, as none ends sooner by enough; it ends the run in this time, in seconds.
    Kept(f64),
    /// There is none.
    None,
}

impl Replanning {
    /// A rank is lost, and the plan is given up.
    pub(super) fn on_lost(&mut self, rank: usize) {
        self.lost = Some(rank);
    }
}
