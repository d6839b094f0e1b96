//! Verifier of workflow plans from any planner.
//!
//! The verifier shares no code with the planners except the types of workflow, cluster and plan. It takes the times and moves of files in a plan as
//! given, and checks each rule for them.

mod blocks;
mod case;
mod residence;
mod shape;
mod staircase;
mod steps;
mod times;
mod verification;

pub use staircase::memory_over_time;
pub use verification::{Rule, Verification, Violation};

use case::Case;
use verification::near;

use super::cluster::Cluster;
use super::graph::Workflow;
use super::plan::{Execution, Plan};
use super::situation::Situation;

/// Checks that a workflow plan violates no rule of valid plans.
///
/// ```
/// use armature_planner::workflow::{Cluster, Processor, Rule, TaskMemory, Workflow, heft, verify};
///
/// let mut builder = Workflow::builder();
/// builder.task("small", 1.0, 2);
/// builder.task("large", 2.0, 8);
/// let workflow = builder.build()?;
/// let cluster = Cluster::new(vec![Processor::new("fast", 4.0, 4), Processor::new("slow", 1.0, 8)], 1.0)?;
///
/// // HEFT ignores memory limits and places both tasks on the fast processor.
/// let verdict = verify(&workflow, &cluster, &heft(&workflow, &cluster, TaskMemory::Additive));
/// assert_eq!(verdict.count(Rule::Memory), 1);
/// assert_eq!(verdict.peak, [8, 0]);
/// assert!(verdict.certificate().unwrap_err().message().contains("\"large\""));
/// # Ok::<(), armature_planner::Error>(())
/// ```
pub fn verify(graph: &Workflow, cluster: &Cluster, plan: &Plan) -> Verification {
    verify_rest(graph, cluster, &Situation::new(graph, cluster), plan)
}

/// Checks a plan for the rest of a run. The plan must not change tasks that have started.
pub fn verify_rest(graph: &Workflow, cluster: &Cluster, situation: &Situation, plan: &Plan) -> Verification {
    let mut verification = Verification::of(cluster, plan);
    let case = Case { graph, cluster, plan, situation };
    shape::check(case, &mut verification);
    if !verification.is_valid() {
        return verification;
    }
    case.check_history(&mut verification);
    match plan.execution {
        Execution::Blocks { crossing } => blocks::check(graph, cluster, plan, crossing, &mut verification),
        Execution::Events => {
            times::check(case, &mut verification);
            residence::check(case, &mut verification);
        }
    }
    check_summary(plan, &mut verification);
    verification
}

fn check_summary(plan: &Plan, verification: &mut Verification) {
    if !near(plan.makespan, verification.makespan, verification.makespan) {
        let message =
            format!("the makespan is {}, but the plan says {}", verification.makespan, plan.makespan);
        verification.add(Rule::Time, message);
    }
    for (p, &recorded) in plan.peak.iter().enumerate() {
        let peak = verification.peak[p];
        if recorded < peak {
            verification
                .add(Rule::Memory, format!("processor {p} holds up to {peak}, but the plan says {recorded}"));
        }
    }
}
