//! Result of the verifier of workflow plans.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::workflow::cluster::Cluster;
use crate::workflow::memory::TaskMemory;
use crate::workflow::plan::{Execution, Plan};

/// Tolerance for times that the verifier computes itself, as a fraction of the makespan: sums of some ten thousand numbers in different orders differ
/// by 1e-12. Nothing else has a tolerance: memory is exact, and no task may start before its files have arrived.
const ROUNDING: f64 = 1e-9;

/// Rule that every valid workflow plan follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Each task runs once, on a processor that exists, and each list of the plan has one entry for each task or processor.
    Shape,
    /// Tasks run after those from which they read, and blocks do not wait for each other in a cycle.
    Order,
    /// The times of tasks follow from work, speed, sizes and bandwidth, and from preceding tasks and transfers.
    Time,
    /// Each file for another processor is sent once, after it was written, and alone on the channel between the two processors.
    Transfer,
    /// At any time, the tasks and files in the memory of a processor fit into it.
    Memory,
    /// At any time, the evicted files and the files that arrived before the memory for their reader was reserved fit into the buffer of their
    /// processor.
    Buffer,
}

/// Violation of a rule by a workflow plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// Rule that the plan violates.
    pub rule: Rule,
    /// Description of the violation: where it is in the plan, and how large it is.
    pub message: String,
}

/// Result of the check of a workflow plan by the verifier.
#[derive(Clone, Debug, PartialEq)]
pub struct Verification {
    /// Execution model for which the plan was checked.
    pub execution: Execution,
    /// Meaning of the memory of a task for which the plan was made.
    pub task_memory: TaskMemory,
    /// End of the last task in seconds, as far as it could be computed.
    pub makespan: f64,
    /// Peak memory of each processor, as computed by the verifier.
    pub peak: Vec<u64>,
    /// Peak use of the buffer of each processor, as computed by the verifier.
    pub buffer_peak: Vec<u64>,
    /// Violations of the rules, at most one for each task, file, processor and rule.
    pub violations: Vec<Violation>,
}

impl Verification {
    pub(super) fn of(cluster: &Cluster, plan: &Plan) -> Self {
        Verification {
            execution: plan.execution,
            task_memory: plan.task_memory,
            makespan: 0.0,
            peak: vec![0; cluster.len()],
            buffer_peak: vec![0; cluster.len()],
            violations: Vec::new(),
        }
    }

    /// Returns true if the plan violates no rule.
    pub fn is_valid(&self) -> bool {
        self.violations.is_empty()
    }

    /// Returns the number of violations of a rule.
    pub fn count(&self, rule: Rule) -> usize {
        self.violations.iter().filter(|violation| violation.rule == rule).count()
    }

    /// Returns the result itself as a certificate of the plan, if the plan violates no rule.
    ///
    /// # Errors
    /// [`ErrorKind::Mapping`] with the first violation.
    pub fn certificate(self) -> Result<Verification> {
        match self.violations.first() {
            Some(violation) => Err(Error::new(ErrorKind::Mapping, violation.to_string())),
            None => Ok(self),
        }
    }

    pub(super) fn add(&mut self, rule: Rule, message: String) {
        self.violations.push(Violation { rule, message });
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

pub(super) fn near(a: f64, b: f64, makespan: f64) -> bool {
    (a - b).abs() <= ROUNDING * makespan
}
