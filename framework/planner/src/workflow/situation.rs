//! What has happened of a run so far.

use serde::{Deserialize, Serialize};

use super::cluster::Cluster;
use super::graph::Workflow;
use super::plan::Plan;

/// What has become of a task.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// It has not started, or must run again.
    Waiting,
    /// It has started and has its input files; if it still runs, the end is in the future, as far as can be told.
    Started {
        /// Where.
        processor: usize,
        /// When, in seconds.
        start: f64,
        /// When it ended or will end.
        finish: f64,
    },
}

/// Where a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilePlace {
    /// Not written, or lost: its writer is waiting.
    Nowhere,
    /// In the memory of this processor.
    Memory(usize),
    /// In the buffer of this processor.
    Buffer(usize),
    /// With its reader, which has started.
    Read,
}

/// What has happened of a run so far: the state from which the rest is planned.
///
/// ```
/// use armature_planner::workflow::{Cluster, FilePlace, Processor, Progress, Situation, Workflow};
///
/// let mut builder = Workflow::builder();
/// for name in ["read", "sum", "store"] {
///     builder.task(name, 1.0, 1);
/// }
/// builder.edge(0, 1, 5);
/// builder.edge(1, 2, 1);
/// let workflow = builder.build()?;
/// let cluster = Cluster::new(vec![Processor::new("p", 1.0, 10); 2], 1.0)?;
///
/// let mut situation = Situation::new(&workflow, &cluster);
/// situation.now = 3.0;
/// situation.started(&workflow, 0, 0, 0.0, 1.0);
/// assert_eq!(situation.file(0), FilePlace::Memory(0));
/// situation.started(&workflow, 1, 0, 1.0, 4.0);
/// assert_eq!(situation.file(0), FilePlace::Read);
/// // When the first processor dies, both tasks are to be run again.
/// situation.lose(&workflow, 0);
/// assert_eq!(situation.progress(0), Progress::Waiting);
/// assert_eq!(situation.waiting(), 3);
/// # Ok::<(), armature_planner::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Situation {
    /// The present, in seconds since the start: nothing that is planned is earlier.
    pub now: f64,
    tasks: Vec<Progress>,
    files: Vec<FilePlace>,
    lost: Vec<bool>,
}

impl Situation {
    /// Nothing has happened.
    pub fn new(graph: &Workflow, cluster: &Cluster) -> Self {
        Situation {
            now: 0.0,
            tasks: vec![Progress::Waiting; graph.len()],
            files: vec![FilePlace::Nowhere; graph.edges().len()],
            lost: vec![false; cluster.len()],
        }
    }

    /// What will be the case at a later moment if all goes as a plan of events says that was made from here. A file that is being
    /// sent then is still where it came from.
    pub fn later(&self, graph: &Workflow, plan: &Plan, now: f64) -> Self {
        let mut later = Situation { now, ..self.clone() };
        let starts = |task: usize| self.tasks[task] == Progress::Waiting && plan.start[task] < now;
        for &task in plan.sequence.iter().filter(|&&task| starts(task)) {
            later.started(graph, task, plan.processor_of[task], plan.start[task], plan.finish[task]);
        }
        for eviction in plan.evictions.iter().filter(|eviction| eviction.at < now) {
            if let FilePlace::Memory(p) = later.files[eviction.edge] {
                later.files[eviction.edge] = FilePlace::Buffer(p);
            }
        }
        for transfer in plan.transfers.iter().filter(|transfer| transfer.finish <= now) {
            let p = plan.processor_of[graph.edges()[transfer.edge].to];
            if matches!(later.files[transfer.edge], FilePlace::Memory(_) | FilePlace::Buffer(_)) {
                later.files[transfer.edge] =
                    if transfer.to_buffer { FilePlace::Buffer(p) } else { FilePlace::Memory(p) };
            }
        }
        later
    }

    /// A task has started, perhaps ended: it has its input files, and its output files are in its processor's memory, from its
    /// end on. Of its parents it is expected that they have started.
    ///
    /// # Panics
    /// If there is no such task.
    pub fn started(&mut self, graph: &Workflow, task: usize, processor: usize, start: f64, finish: f64) {
        self.tasks[task] = Progress::Started { processor, start, finish };
        for &file in graph.input_numbers(task) {
            self.files[file] = FilePlace::Read;
        }
        for file in graph.output_numbers(task) {
            let reader = graph.edges()[file].to;
            let read = self.tasks[reader] != Progress::Waiting;
            self.files[file] = if read { FilePlace::Read } else { FilePlace::Memory(processor) };
        }
    }

    /// A file whose reader has not started is now here: it was sent, or evicted.
    ///
    /// # Panics
    /// If there is no such edge.
    pub fn moved(&mut self, edge: usize, place: FilePlace) {
        self.files[edge] = place;
    }

    /// A processor is gone, with all that it held. Tasks that it ran, and those that wrote the files that are missing now, are to
    /// be run again, and so on back to tasks whose inputs are still there.
    ///
    /// # Panics
    /// If there is no such processor.
    pub fn lose(&mut self, graph: &Workflow, processor: usize) {
        self.lost[processor] = true;
        let mut again: Vec<usize> = Vec::new();
        for (task, &progress) in self.tasks.iter().enumerate() {
            if let Progress::Started { processor: p, finish, .. } = progress
                && p == processor
                && finish > self.now
            {
                again.push(task);
            }
        }
        for (file, place) in self.files.iter().enumerate() {
            if matches!(*place, FilePlace::Memory(p) | FilePlace::Buffer(p) if p == processor) {
                again.push(graph.edges()[file].from);
            }
        }
        while let Some(task) = again.pop() {
            if self.tasks[task] == Progress::Waiting {
                continue;
            }
            self.tasks[task] = Progress::Waiting;
            // It writes all of its files anew; copies that are left are dropped.
            for file in graph.output_numbers(task) {
                if self.files[file] != FilePlace::Read {
                    self.files[file] = FilePlace::Nowhere;
                }
            }
            for &file in graph.input_numbers(task) {
                self.files[file] = FilePlace::Nowhere;
                again.push(graph.edges()[file].from);
            }
        }
    }

    /// What has become of a task.
    ///
    /// # Panics
    /// If there is no such task.
    pub fn progress(&self, task: usize) -> Progress {
        self.tasks[task]
    }

    /// Where a file is.
    ///
    /// # Panics
    /// If there is no such edge.
    pub fn file(&self, edge: usize) -> FilePlace {
        self.files[edge]
    }

    /// Whether a processor is gone.
    ///
    /// # Panics
    /// If there is no such processor.
    pub fn is_lost(&self, processor: usize) -> bool {
        self.lost[processor]
    }

    /// Number of tasks that are to be run.
    pub fn waiting(&self) -> usize {
        self.tasks.iter().filter(|&&progress| progress == Progress::Waiting).count()
    }
}
