//! Workflows and clusters of the papers of Kulagina, Meyerhenke and Benoit (2024 and 2025).

use armature_papers::workflow::generate::{Family, paper_cluster};
use armature_planner::workflow::{Cluster, TaskMemory, Workflow};
use armature_workflow_files::read;

use crate::RunResult;

/// Bandwidth between processors for generated workflows: the papers of Kulagina, Meyerhenke and Benoit (2024 and 2025) use 1 unit of size per unit of
/// time.
const BANDWIDTH: f64 = 1.0;
/// Bandwidth between processors for workflows from real traces, in KiB per second; 1 GiB/s, about that of a 10 Gbit/s network.
const GIB_IN_KIB: f64 = 1_048_576.0;

/// Workflow to be planned, with the bandwidth of the network.
pub(super) struct Instance {
    pub(super) name: String,
    pub(super) workflow: Workflow,
    pub(super) task_memory: TaskMemory,
    /// Bandwidth between all processors, in the unit of the workflow's file sizes per second.
    bandwidth: f64,
}

/// Generates a workflow of a family, with weights of tasks and files drawn as in the papers of Kulagina et al.
pub(super) fn generated(
    family: Family,
    tasks: usize,
    seed: u64,
    task_memory: TaskMemory,
) -> RunResult<Instance> {
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

/// Returns workflows from traces of real runs with measured memory. Each consists of `copies` independent copies, like a run with more samples. Sizes
/// are in KiB, because twice the sum of all sizes must not overflow in the planners.
pub(super) fn traced(copies: usize) -> RunResult<Vec<Instance>> {
    const KIB: u64 = 1 << 10;
    let copied = |&(name, bytes): &(&str, &[u8])| -> RunResult<Instance> {
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
    pub(super) fn max_task_memory(&self) -> u64 {
        let need = |task| self.workflow.requirement(task, self.task_memory);
        (0..self.workflow.len()).map(need).max().unwrap_or(0)
    }

    /// Returns the default cluster of the paper of Kulagina et al. (2024), with `of_each` processors of each of its six kinds. If a task needs more
    /// memory than the largest processor has, the memories of all processors are scaled up until the task fits.
    pub(super) fn fitting_cluster(&self, of_each: usize) -> RunResult<Cluster> {
        let cluster = paper_cluster(of_each, 1, BANDWIDTH)?;
        let factor = self.max_task_memory() as f64 / cluster.largest_memory() as f64;
        self.scaled(&cluster, factor.max(1.0))
    }

    /// Returns the default cluster of the paper of Kulagina et al. (2025), with the memories of all processors scaled so that the largest task needs
    /// the fraction `part` of the largest memory.
    pub(super) fn cluster_filled_to(&self, part: f64) -> RunResult<Cluster> {
        const PROCESSORS_PER_KIND: usize = 12;
        let cluster = paper_cluster(PROCESSORS_PER_KIND, 1, BANDWIDTH)?;
        self.scaled(&cluster, self.max_task_memory() as f64 / part / cluster.largest_memory() as f64)
    }

    /// Returns the instance with a workflow in which each task writes a single value for all its readers instead of one file per reader. The
    /// framework's ranks pass values in this way.
    pub(super) fn with_one_value_a_task(self) -> RunResult<Instance> {
        Ok(Instance { workflow: self.workflow.with_one_value_a_task()?, ..self })
    }

    pub(super) fn scaled(&self, cluster: &Cluster, factor: f64) -> RunResult<Cluster> {
        let scale = |bytes: u64| (bytes as f64 * factor).ceil() as u64;
        let of = cluster.processors();
        let scaled = cluster.clone().with_room(|p| (scale(of[p].memory), scale(of[p].buffer)));
        Ok(Cluster::new(scaled.processors().to_vec(), self.bandwidth)?)
    }
}
