//! Options of the workflow planners.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::memory::MemoryModel;

/// Default number of plans that the local search evaluates. A plan of 30,000 tasks takes about a quarter of a second. On two cores this number of
/// such plans takes well under a minute, which is the time that planning may take. Most of the gain is in the first plans.
const EVALUATIONS: usize = 100;

/// Default number of partitions of the workflow from which the planner DagHetPart starts. Trying all numbers of partitions on a cluster of 36
/// processors takes three times as long, and gives block plans that are up to a quarter shorter; list schedules were shorter still in all of 54
/// measured cases.
const PARTITIONS: usize = 12;

/// Options of the workflow planners.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PlanOptions {
    /// Meaning of the memory of a task, and time for which files between blocks of tasks occupy memory.
    pub memory: MemoryModel,
    /// Number of plans that the local search evaluates; 0 disables the local search.
    pub evaluations: usize,
    /// Maximum number of partitions of the workflow from which the planner DagHetPart of the crate `armature-papers` starts.
    pub partitions: usize,
    /// Seed of the random changes of the local search.
    pub seed: u64,
    /// Number of threads for planning; 0 uses all cores. The plan does not depend on this number.
    pub threads: usize,
    /// Flag that another thread can set to end the local search with the best plan found so far.
    pub stop: Option<Arc<AtomicBool>>,
}

impl Default for PlanOptions {
    fn default() -> Self {
        PlanOptions {
            memory: MemoryModel::default(),
            evaluations: EVALUATIONS,
            partitions: PARTITIONS,
            seed: 1,
            threads: 0,
            stop: None,
        }
    }
}
