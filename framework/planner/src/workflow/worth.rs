//! Which of several plans is the best.

use super::graph::Workflow;
use super::plan::Plan;

/// Plans whose makespans differ by less than this part of the shortest count as equally long, since run times are not known better than
/// that; the one that moves fewer bytes is taken.
pub(super) const EQUALLY_LONG: f64 = 0.01;

/// What plans are compared by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Worth {
    pub(super) makespan: f64,
    /// Bytes that are evicted, and bytes that are sent.
    evicted: u64,
    sent: u64,
}

impl Worth {
    pub(super) fn of(graph: &Workflow, plan: &Plan) -> Self {
        Worth { makespan: plan.makespan, evicted: plan.evicted_bytes(graph), sent: plan.sent_bytes(graph) }
    }

    /// Whether this one is better, where no plan is known that is shorter than `shortest`.
    pub(super) fn is_better(&self, other: &Worth, shortest: f64) -> bool {
        let limit = shortest * (1.0 + EQUALLY_LONG);
        let key = |worth: &Worth| match worth.makespan <= limit {
            true => (0.0, worth.evicted, worth.sent, worth.makespan),
            false => (worth.makespan, 0, 0, 0.0),
        };
        key(self) < key(other)
    }
}
