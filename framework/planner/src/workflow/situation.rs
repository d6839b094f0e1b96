//! State of a workflow run: the progress of its tasks, and the memory or buffer that holds each file.

use serde::{Deserialize, Serialize};

use super::cluster::Cluster;
use super::graph::Workflow;
use super::plan::Plan;

/// Progress of a task of a workflow run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Progress {
    /// The task has not started, or must run again.
    Waiting,
    /// The task has started and has its input files. If it is still running, `finish` is an estimate.
    Started {
        /// Processor on which the task runs or has run.
        processor: usize,
        /// Start of the task in seconds since the start of the run.
        start: f64,
        /// Actual or expected end of the task in seconds since the start of the run.
        finish: f64,
    },
}

/// Memory or buffer that holds a file between two tasks of a workflow run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilePlace {
    /// The file is not written, or it is lost and its writer must run again.
    Nowhere,
    /// The file is in the memory of the given processor.
    Memory(usize),
    /// The file is in the buffer of the given processor.
    Buffer(usize),
    /// The task that reads the file has started. While it runs, the file counts as part of its memory.
    Read,
}

/// State of a workflow run, from which the remaining tasks are planned.
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
    /// Current time in seconds since the start of the run; no planned task starts earlier.
    pub now: f64,
    tasks: Vec<Progress>,
    files: Vec<FilePlace>,
    lost: Vec<bool>,
}

impl Situation {
    /// Creates the state of a run before its first task.
    pub fn new(graph: &Workflow, cluster: &Cluster) -> Self {
        Situation {
            now: 0.0,
            tasks: vec![Progress::Waiting; graph.len()],
            files: vec![FilePlace::Nowhere; graph.edges().len()],
            lost: vec![false; cluster.len()],
        }
    }

    /// Returns the state at time `now` of a run that follows `plan`. The plan must have been made from this state, and send files as soon as they
    /// are written ([`Execution::Events`](super::Execution::Events)). A file that is being sent at that time is still in the memory or buffer from
    /// which it is sent.
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

    /// Records that a task has started, and possibly ended. The task has its input files. Its output files are in the memory of its processor from
    /// the end of the task on. The tasks from which it reads must have been recorded before.
    ///
    /// # Panics
    /// Panics if the task does not exist.
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

    /// Records that a file (number `edge`), whose reader has not started, was sent or evicted to the memory or buffer `place`.
    ///
    /// # Panics
    /// Panics if the edge does not exist.
    pub fn set_place(&mut self, edge: usize, place: FilePlace) {
        self.files[edge] = place;
    }

    /// Records the loss of a processor with all files that it held. Tasks that it was running must run again, and so must the tasks that wrote the
    /// missing files, back to tasks whose input files still exist.
    ///
    /// # Panics
    /// Panics if the processor does not exist.
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
            // Remaining copies of the files of a task that must run again are dropped, because the task writes all of its files again.
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

    /// Returns the progress of a task.
    ///
    /// # Panics
    /// Panics if the task does not exist.
    pub fn progress(&self, task: usize) -> Progress {
        self.tasks[task]
    }

    /// Returns the memory or buffer in which the file of an edge is, or whether it was read or is not yet written.
    ///
    /// # Panics
    /// Panics if the edge does not exist.
    pub fn file(&self, edge: usize) -> FilePlace {
        self.files[edge]
    }

    /// Returns true if the processor is lost.
    ///
    /// # Panics
    /// Panics if the processor does not exist.
    pub fn is_lost(&self, processor: usize) -> bool {
        self.lost[processor]
    }

    /// Returns the number of tasks that have not started or must run again.
    pub fn waiting(&self) -> usize {
        self.tasks.iter().filter(|&&progress| progress == Progress::Waiting).count()
    }
}
