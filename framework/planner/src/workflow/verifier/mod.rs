//! Verifier of plans from any planner.
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
mod verdict;

pub use staircase::memory_over_time;
pub use verdict::{Rule, Verdict, Violation};

use case::Case;
use verdict::near;

use super::cluster::Cluster;
use super::graph::Workflow;
use super::plan::{Execution, Plan};
use super::situation::Situation;

/// Checks a plan.
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
pub fn verify(graph: &Workflow, cluster: &Cluster, plan: &Plan) -> Verdict {
    verify_rest(graph, cluster, &Situation::new(graph, cluster), plan)
}

/// Checks a plan for the rest of a run. Tasks that have started must be unchanged in it.
pub fn verify_rest(graph: &Workflow, cluster: &Cluster, situation: &Situation, plan: &Plan) -> Verdict {
    let mut verdict = Verdict::of(cluster, plan);
    let case = Case { graph, cluster, plan, situation };
    shape::check(case, &mut verdict);
    if !verdict.is_valid() {
        return verdict;
    }
    case.check_history(&mut verdict);
    match plan.execution {
        Execution::Blocks { crossing } => blocks::check(graph, cluster, plan, crossing, &mut verdict),
        Execution::Events => {
            times::check(case, &mut verdict);
            residence::check(case, &mut verdict);
        }
    }
    check_summary(plan, &mut verdict);
    verdict
}

/// Checks the makespan and the peak memories that the plan states.
fn check_summary(plan: &Plan, verdict: &mut Verdict) {
    if !near(plan.makespan, verdict.makespan, verdict.makespan) {
        let message = format!("the makespan is {}, but the plan says {}", verdict.makespan, plan.makespan);
        verdict.add(Rule::Time, message);
    }
    for (p, &said) in plan.peak.iter().enumerate() {
        let peak = verdict.peak[p];
        if said < peak {
            verdict.add(Rule::Memory, format!("processor {p} holds up to {peak}, but the plan says {said}"));
        }
    }
}
