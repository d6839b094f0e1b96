//! Random workflows and clusters.

use armature_planner::Result;
use armature_planner::random::Random;
use armature_planner::workflow::{Cluster, Processor, TaskMemory, Workflow};

use super::whole;

/// Parameters of a random workflow.
///
/// ```
/// use armature_papers::workflow::generate::RandomWorkflow;
///
/// let workflow = RandomWorkflow { tasks: 20, ..RandomWorkflow::default() }.build(7)?;
/// assert_eq!(workflow.len(), 20);
/// assert_eq!(workflow, RandomWorkflow { tasks: 20, ..RandomWorkflow::default() }.build(7)?);
/// # Ok::<(), armature_planner::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RandomWorkflow {
    /// Number of tasks, at least 1.
    pub tasks: usize,
    /// Maximum number of tasks from which a task reads.
    pub parents: usize,
    /// Maximum distance, in the order of the tasks, between a task and a task from which it reads.
    pub reach: usize,
    /// Maximum work of a task, at least 1. The default is that of the papers of Kulagina et al.
    pub work: u64,
    /// Maximum memory of a task.
    pub memory: u64,
    /// Maximum size of a file, in the same unit as the memory of a task.
    pub size: u64,
}

impl Default for RandomWorkflow {
    fn default() -> Self {
        RandomWorkflow { tasks: 100, parents: 3, reach: 20, work: 1000, memory: 192, size: 10 }
    }
}

impl RandomWorkflow {
    /// Builds the random workflow that belongs to `seed`.
    ///
    /// # Errors
    /// See [`WorkflowBuilder::build`](armature_planner::workflow::WorkflowBuilder::build).
    pub fn build(&self, seed: u64) -> Result<Workflow> {
        let mut random = Random::new(seed);
        let mut builder = Workflow::builder();
        for task in 0..self.tasks {
            let work = whole(&mut random, 1..=self.work.max(1)) as f64;
            builder.task(format!("t{task}"), work, whole(&mut random, 0..=self.memory));
            let near = task.min(self.reach);
            let count = whole(&mut random, 0..=self.parents.min(near) as u64);
            let mut parents: Vec<u64> =
                (0..count).map(|_| whole(&mut random, (task - near) as u64..=task as u64 - 1)).collect();
            parents.sort_unstable();
            parents.dedup();
            for parent in parents {
                builder.edge(parent as usize, task, whole(&mut random, 0..=self.size));
            }
        }
        builder.build()
    }
}

/// Parameters of a random cluster for a given workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomCluster {
    /// Number of processors of the cluster, at least 1.
    pub processors: usize,
    /// Memory of the largest processor, as a multiple of the memory need of the largest task. Below 1 that task fits on no processor.
    pub largest: f64,
    /// Minimum memory of the other processors, as a fraction of the memory of the largest processor.
    pub smallest: f64,
    /// Size of a processor's buffer for evicted files, as a multiple of its memory.
    pub buffer: f64,
}

impl RandomCluster {
    /// Builds the random cluster that belongs to `seed`: speeds from 1 to 32, and a random bandwidth from 0.1 to 5 for each link.
    ///
    /// # Errors
    /// See [`Cluster::new`].
    pub fn build(&self, workflow: &Workflow, task_memory: TaskMemory, seed: u64) -> Result<Cluster> {
        let mut random = Random::new(seed);
        let most = (0..workflow.len()).map(|task| workflow.requirement(task, task_memory)).max().unwrap_or(0);
        let largest = most as f64 * self.largest;
        let processors = (0..self.processors)
            .map(|p| {
                let part =
                    if p == 0 { 1.0 } else { self.smallest + (1.0 - self.smallest) * random.uniform() };
                let memory = largest * part;
                let speed = whole(&mut random, SPEEDS) as f64;
                Processor::new(format!("p{p}"), speed, memory.ceil() as u64)
                    .with_buffer((memory * self.buffer) as u64)
            })
            .collect();
        let mut cluster = Cluster::new(processors, 1.0)?;
        for from in 0..self.processors {
            for to in (0..self.processors).filter(|&to| to != from) {
                let bandwidth = whole(&mut random, BANDWIDTH_TENTHS) as f64 / TENTHS;
                cluster = cluster.with_link(from, to, bandwidth)?;
            }
        }
        Ok(cluster)
    }
}

/// Speeds of processors in the clusters of Kulagina et al. (2024 and 2025).
const SPEEDS: std::ops::RangeInclusive<u64> = 1..=32;
/// Bandwidths of links in the clusters of Kulagina et al., in tenths.
const BANDWIDTH_TENTHS: std::ops::RangeInclusive<u64> = 1..=50;
const TENTHS: f64 = 10.0;
