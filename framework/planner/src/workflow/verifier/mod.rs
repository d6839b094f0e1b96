//! Judges plans, whoever made them.
//!
//! It shares no code with the planners beyond the workflow, the cluster and the plan itself: what a plan says of its times and
//! files is taken for what would happen, and each rule is checked of that.

mod blocks;
mod case;
mod residence;
mod shape;
mod times;

use std::fmt;

use case::Case;

use super::cluster::Cluster;
use super::graph::Workflow;
use super::memory::TaskMemory;
use super::plan::{Execution, Plan};
use super::situation::Situation;
use crate::error::{Error, ErrorKind, Result};

/// Times that follow from others may differ from them by this part of the makespan: sums of some ten thousand numbers in
/// another order differ by 1e-12. Nothing else is tolerated: memory is exact, and no task may start before its files are there.
const ROUNDING: f64 = 1e-9;

/// Which rule is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Each task runs once, on a processor that exists; each list has an entry for each task or processor.
    Shape,
    /// Tasks come after those that they read from, blocks do not wait for one another in a circle.
    Order,
    /// Times follow from work, speed, sizes and bandwidth, and from what comes before.
    Time,
    /// Each file that goes to another processor is sent once, after it was written, and alone on its channel.
    Transfer,
    /// What a processor holds fits its memory.
    Memory,
    /// What is evicted, or has arrived early, fits the buffer.
    Buffer,
}

/// A rule that a plan breaks.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// Where, and by how much.
    pub message: String,
}

/// What the verifier found.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// How the plan is run, and so for what this holds.
    pub execution: Execution,
    /// What the tasks' memory was taken for.
    pub task_memory: TaskMemory,
    /// When the last task ends, as far as could be computed.
    pub makespan: f64,
    /// Most memory that each processor ever holds.
    pub peak: Vec<u64>,
    /// Most that each buffer ever holds.
    pub buffer_peak: Vec<u64>,
    /// The rules that are broken; at most one for each task, file, processor and rule.
    pub violations: Vec<Violation>,
}

impl Verdict {
    /// Whether the plan keeps all rules.
    pub fn is_valid(&self) -> bool {
        self.violations.is_empty()
    }

    /// How often a rule is broken.
    pub fn count(&self, rule: Rule) -> usize {
        self.violations.iter().filter(|violation| violation.rule == rule).count()
    }

    /// Itself, if the plan keeps all rules: the plan's certificate.
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`] with the first rule that is broken.
    pub fn certificate(self) -> Result<Verdict> {
        match self.violations.first() {
            Some(violation) => Err(Error::new(ErrorKind::Mapping, violation.to_string())),
            None => Ok(self),
        }
    }

    fn add(&mut self, rule: Rule, message: String) {
        self.violations.push(Violation { rule, message });
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Judges a plan.
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
/// // HEFT knows no memory, and takes the fast processor for both.
/// let verdict = verify(&workflow, &cluster, &heft(&workflow, &cluster, TaskMemory::Additive));
/// assert_eq!(verdict.count(Rule::Memory), 1);
/// assert_eq!(verdict.peak, [8, 0]);
/// assert!(verdict.certificate().unwrap_err().message().contains("\"large\""));
/// # Ok::<(), armature_planner::Error>(())
/// ```
pub fn verify(graph: &Workflow, cluster: &Cluster, plan: &Plan) -> Verdict {
    verify_rest(graph, cluster, &Situation::new(graph, cluster), plan)
}

/// Judges a plan for the rest of a run. What has started is taken for what it was.
pub fn verify_rest(graph: &Workflow, cluster: &Cluster, situation: &Situation, plan: &Plan) -> Verdict {
    let mut verdict = Verdict {
        execution: plan.execution,
        task_memory: plan.task_memory,
        makespan: 0.0,
        peak: vec![0; cluster.len()],
        buffer_peak: vec![0; cluster.len()],
        violations: Vec::new(),
    };
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

/// The plan says of itself what it comes to.
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

/// Whether two times are equal but for rounding.
fn near(a: f64, b: f64, makespan: f64) -> bool {
    (a - b).abs() <= ROUNDING * makespan
}
