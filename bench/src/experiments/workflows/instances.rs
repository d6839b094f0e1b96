//! Workflows and clusters as in the papers.

use armature_planner::workflow::generate::{Family, paper_cluster};
use armature_planner::workflow::{Cluster, TaskMemory, Workflow};
use armature_workflow_files::read;

use crate::Outcome;

/// The default of both papers, for sizes that are drawn.
const BANDWIDTH: f64 = 1.0;
/// Of the clusters for real traces, in KiB per second: about a network of 10 Gbit/s.
const GIB_IN_KIB: f64 = 1_048_576.0;

/// A workflow with its name.
pub(super) struct Instance {
    pub(super) name: String,
    pub(super) workflow: Workflow,
    pub(super) task_memory: TaskMemory,
    /// Between all processors, in the workflow's unit of size per second.
    bandwidth: f64,
}

/// A workflow of a family, with weights drawn as in the papers.
pub(super) fn generated(
    family: Family,
    tasks: usize,
    seed: u64,
    task_memory: TaskMemory,
) -> Outcome<Instance> {
    Ok(Instance {
        name: format!("{family:?} {tasks}"),
        workflow: family.build(tasks, seed)?,
        task_memory,
        bandwidth: BANDWIDTH,
    })
}

const TRACES: [(&str, &[u8]); 6] = [
    ("bacass", include_bytes!("../../../../framework/workflow-files/tests/data/bacass-1.5.json")),
    ("fetchngs", include_bytes!("../../../traces/fetchngs-1.5.json")),
    ("hic", include_bytes!("../../../traces/hic-1.5.json")),
    ("methylseq", include_bytes!("../../../traces/methylseq-1.5.json")),
    ("sarek", include_bytes!("../../../traces/sarek-1.5.json")),
    ("scrnaseq", include_bytes!("../../../traces/scrnaseq-1.5.json")),
];

/// Real runs whose memory was measured, each so many times side by side, as if there were more samples. Bytes become KiB: the
/// planners add up what they count, and twice the sum of all must be a number.
pub(super) fn traced(copies: usize) -> Outcome<Vec<Instance>> {
    const KIB: u64 = 1 << 10;
    let copied = |&(name, bytes): &(&str, &[u8])| -> Outcome<Instance> {
        let one = read(&format!("{name}.json"), bytes)?.to_workflow()?;
        let mut builder = Workflow::builder();
        for copy in 0..copies {
            for task in 0..one.len() {
                let memory = one.memory(task).div_ceil(KIB);
                builder.task(format!("{}-{copy}", one.name(task)), one.work(task), memory);
            }
            for edge in one.edges() {
                let first = copy * one.len();
                builder.edge(first + edge.from, first + edge.to, edge.size.div_ceil(KIB));
            }
        }
        Ok(Instance {
            name: format!("{name} × {copies}"),
            workflow: builder.build()?,
            task_memory: TaskMemory::IncludesIo,
            bandwidth: GIB_IN_KIB,
        })
    };
    TRACES.iter().map(copied).collect()
}

impl Instance {
    /// What the task needs that needs most.
    pub(super) fn most(&self) -> u64 {
        let need = |task| self.workflow.requirement(task, self.task_memory);
        (0..self.workflow.len()).map(need).max().unwrap_or(0)
    }

    /// The cluster of 2024, so many processors of each of its six kinds. Where a task needs more than the largest has, all
    /// memories grow until it fits.
    pub(super) fn fitting_cluster(&self, of_each: usize) -> Outcome<Cluster> {
        let cluster = paper_cluster(of_each, 1, BANDWIDTH)?;
        let factor = self.most() as f64 / cluster.largest_memory() as f64;
        self.scaled(&cluster, factor.max(1.0))
    }

    /// The cluster of 2025, in a size where the task that needs most needs this part of the largest memory.
    pub(super) fn cluster_filled_to(&self, part: f64) -> Outcome<Cluster> {
        const OF_EACH: usize = 12;
        let cluster = paper_cluster(OF_EACH, 1, BANDWIDTH)?;
        self.scaled(&cluster, self.most() as f64 / part / cluster.largest_memory() as f64)
    }

    /// The same workflow as ranks run it: what a task writes is one value for all that read it.
    pub(super) fn with_one_value_a_task(self) -> Outcome<Instance> {
        Ok(Instance { workflow: self.workflow.with_one_value_a_task()?, ..self })
    }

    /// The same cluster with memories and buffers in another size.
    pub(super) fn scaled(&self, cluster: &Cluster, factor: f64) -> Outcome<Cluster> {
        let scale = |bytes: u64| (bytes as f64 * factor).ceil() as u64;
        let of = cluster.processors();
        let scaled = cluster.clone().with_room(|p| (scale(of[p].memory), scale(of[p].buffer)));
        Ok(Cluster::new(scaled.processors().to_vec(), self.bandwidth)?)
    }
}
