//! Comparison of workflow plans by makespan and moved bytes.

use super::graph::Workflow;
use super::plan::Plan;

/// Relative difference from the shortest makespan up to which makespans count as equal, because run times are not known more precisely. Among plans
/// with equal makespans the one that moves fewer bytes is better.
pub(super) const EQUALLY_LONG: f64 = 0.01;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Worth {
    pub(super) makespan: f64,
    /// Total bytes of evicted files. The field `sent` is the total bytes of transfers.
    evicted: u64,
    sent: u64,
}

impl Worth {
    pub(super) fn of(graph: &Workflow, plan: &Plan) -> Self {
        Worth { makespan: plan.makespan, evicted: plan.evicted_bytes(graph), sent: plan.sent_bytes(graph) }
    }

    /// Returns true if this plan is better than `other`, where `shortest` is the shortest makespan of all compared plans.
    pub(super) fn is_better(&self, other: &Worth, shortest: f64) -> bool {
        let limit = shortest * (1.0 + EQUALLY_LONG);
        let key = |worth: &Worth| match worth.makespan <= limit {
            true => (0.0, worth.evicted, worth.sent, worth.makespan),
            false => (worth.makespan, 0, 0, 0.0),
        };
        key(self) < key(other)
    }
}
