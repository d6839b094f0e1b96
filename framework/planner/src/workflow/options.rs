//! What is asked of the planners.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::memory::MemoryModel;

/// Plans that local search tries unless the caller says otherwise. One of 30,000 tasks takes about a quarter of a second, so that
/// this many, on two cores, leave room within the minute that planning may take; most of the gain is in the first of them.
const EVALUATIONS: usize = 100;

/// Partitions that DagHetPart begins with unless the caller says otherwise. With all numbers of blocks on a cluster of 36 it takes
/// three times as long, for block plans that end up to a quarter earlier; list schedules end earlier still in all of 54 cases measured.
const PARTITIONS: usize = 12;

/// What is asked of the planners.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// How memory is counted.
    pub memory: MemoryModel,
    /// How many plans local search tries. 0 for none.
    pub evaluations: usize,
    /// How many partitions DagHetPart begins with, at most: see [`DagHetPart::most_partitions`](super::DagHetPart::most_partitions).
    pub partitions: usize,
    /// Of the choices that local search leaves to chance.
    pub seed: u64,
    /// How many threads plan; 0 for as many as there are cores. It changes nothing but the time.
    pub threads: usize,
    /// Ends the local search, once it is set, with the best plan so far.
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
