//! What the verifier finds.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::workflow::cluster::Cluster;
use crate::workflow::memory::TaskMemory;
use crate::workflow::plan::{Execution, Plan};

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
    /// Before anything of it has been judged.
    pub(super) fn of(cluster: &Cluster, plan: &Plan) -> Self {
        Verdict {
            execution: plan.execution,
            task_memory: plan.task_memory,
            makespan: 0.0,
            peak: vec![0; cluster.len()],
            buffer_peak: vec![0; cluster.len()],
            violations: Vec::new(),
        }
    }

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

    pub(super) fn add(&mut self, rule: Rule, message: String) {
        self.violations.push(Violation { rule, message });
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Whether two times are equal but for rounding.
pub(super) fn near(a: f64, b: f64, makespan: f64) -> bool {
    (a - b).abs() <= ROUNDING * makespan
}
