//! Input of the verifier: a plan, with the workflow, the cluster and the state of the run.

use super::verification::{Rule, Verification};
use crate::workflow::cluster::Cluster;
use crate::workflow::graph::Workflow;
use crate::workflow::plan::Plan;
use crate::workflow::situation::{FilePlace, Progress, Situation};

/// Plan for the rest of a workflow run, which is to be verified.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) graph: &'a Workflow,
    pub(super) cluster: &'a Cluster,
    pub(super) plan: &'a Plan,
    pub(super) situation: &'a Situation,
}

/// Origin of a file: the first processor that holds it in a plan, the time in seconds at which it appears there, and true if it appears in the buffer
/// of the processor.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    pub(super) processor: usize,
    pub(super) from: f64,
    pub(super) in_buffer: bool,
}

impl Case<'_> {
    pub(super) fn is_started(&self, task: usize) -> bool {
        self.situation.progress(task) != Progress::Waiting
    }

    /// Returns the origin of a file (its first place in the plan). The result is `None` if the reader has the file, or if the file was written and is
    /// nowhere, which is an invalid state of the run.
    pub(super) fn origin(&self, edge: usize) -> Option<Origin> {
        let writer = self.graph.edges()[edge].from;
        if self.is_started(self.graph.edges()[edge].to) {
            return None;
        }
        let Progress::Started { finish, .. } = self.situation.progress(writer) else {
            let (processor, from) = (self.plan.processor_of[writer], self.plan.finish[writer]);
            return Some(Origin { processor, from, in_buffer: false });
        };
        let from = finish.max(self.situation.now);
        match self.situation.file(edge) {
            FilePlace::Memory(processor) => Some(Origin { processor, from, in_buffer: false }),
            FilePlace::Buffer(processor) => Some(Origin { processor, from, in_buffer: true }),
            FilePlace::Nowhere | FilePlace::Read => None,
        }
    }

    /// Checks that the plan does not change tasks which have started, and runs no other task on a lost processor or in the past.
    pub(super) fn check_history(&self, verification: &mut Verification) {
        for task in 0..self.graph.len() {
            let plan = self.plan;
            let (p, name) = (plan.processor_of[task], self.graph.name(task));
            match self.situation.progress(task) {
                Progress::Started { processor, start, finish } => {
                    if (p, plan.start[task], plan.finish[task]) != (processor, start, finish) {
                        let message = format!(
                            "task {name:?} has run on processor {processor} from {start} to {finish}, but the plan says otherwise"
                        );
                        verification.add(Rule::Shape, message);
                    }
                }
                Progress::Waiting if self.situation.is_lost(p) => {
                    let message = format!("task {name:?} is to run on processor {p}, which is lost");
                    verification.add(Rule::Shape, message);
                }
                Progress::Waiting if plan.start[task] < self.situation.now => {
                    let message = format!(
                        "task {name:?} is to start at {}, but it is {} already",
                        plan.start[task], self.situation.now
                    );
                    verification.add(Rule::Time, message);
                }
                Progress::Waiting => {}
            }
        }
    }
}
