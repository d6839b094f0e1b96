//! State of the timeline of a workflow plan: placed tasks and their effects.

use std::collections::HashMap;

use super::candidate::Candidate;
use super::moment::Moment;
use super::processor::Processor;
use crate::workflow::cluster::Cluster;
use crate::workflow::graph::Workflow;
use crate::workflow::memory::TaskMemory;
use crate::workflow::plan::{Eviction, Execution, Plan, Transfer};
use crate::workflow::situation::{FilePlace, Progress, Situation};

#[derive(Clone, Copy, Debug)]
pub(in crate::workflow) struct Rules {
    pub(in crate::workflow) task_memory: TaskMemory,
    /// True if a task can read an evicted file from the buffer of its processor.
    pub(in crate::workflow) read_back: bool,
    pub(in crate::workflow) memory_blind: bool,
}

/// Memory or buffer that holds a file, after the tasks placed so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FileLocation {
    /// The task that writes the file has not been placed on a processor.
    Nowhere,
    Memory(usize),
    /// The file is in the buffer of the given processor. The second field is the index of its eviction, if the file was evicted after its writer was
    /// placed.
    Buffer(usize, Option<usize>),
    /// The task that reads the file has been placed on a processor. The file then occupies memory as part of the needs of this task.
    Read,
}

/// Memory or buffer that holds a file between two tasks, and the time from which the file can be used.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    pub(super) location: FileLocation,
    pub(super) available: f64,
}

/// Timeline of a workflow plan: placed tasks, and their effects on memory, buffers and channels.
#[derive(Clone, Debug)]
pub(in crate::workflow) struct Timeline<'a> {
    pub(super) graph: &'a Workflow,
    pub(super) cluster: &'a Cluster,
    pub(super) rules: Rules,
    pub(super) processors: Vec<Processor>,
    /// For each pair of sender and receiver, the time from which the channel between the two processors is free; in row-major order.
    pub(super) channels: Vec<f64>,
    pub(super) files: Vec<File>,
    /// Used only if each task writes one value for all its readers: for each pair of task and processor, the end of the transfer of the value to the
    /// processor.
    pub(super) copies: HashMap<(usize, usize), f64>,
    pub(super) processor_of: Vec<Option<usize>>,
    pub(super) start: Vec<f64>,
    pub(super) finish: Vec<f64>,
    pub(super) orders: Vec<Vec<usize>>,
    pub(super) sequence: Vec<usize>,
    pub(super) transfers: Vec<Transfer>,
    /// Evictions of files; an entry is `None` if the eviction proved to be unnecessary, because the file had been sent before.
    pub(super) evictions: Vec<Option<Eviction>>,
    /// Memory that each task needs while it runs. The field `output_sizes` is the total size of the files that each task writes for other tasks.
    pub(super) requirements: Vec<u64>,
    pub(super) output_sizes: Vec<u64>,
    pub(super) candidate: Candidate,
}

impl<'a> Timeline<'a> {
    pub(in crate::workflow) fn new(graph: &'a Workflow, cluster: &'a Cluster, rules: Rules) -> Self {
        let (tasks, count) = (graph.len(), cluster.len());
        Timeline {
            graph,
            cluster,
            rules,
            processors: vec![Processor::default(); count],
            channels: vec![0.0; count * count],
            files: vec![File { location: FileLocation::Nowhere, available: 0.0 }; graph.edges().len()],
            copies: HashMap::new(),
            processor_of: vec![None; tasks],
            start: vec![0.0; tasks],
            finish: vec![0.0; tasks],
            orders: vec![Vec::new(); count],
            sequence: Vec::with_capacity(tasks),
            transfers: Vec::new(),
            evictions: Vec::new(),
            requirements: (0..tasks).map(|task| graph.requirement(task, rules.task_memory)).collect(),
            output_sizes: (0..tasks).map(|task| graph.output_size(task)).collect(),
            candidate: Candidate::default(),
        }
    }

    /// Creates a timeline with the tasks of a run that have started, on their processors and at their times.
    pub(in crate::workflow) fn resume(
        graph: &'a Workflow,
        cluster: &'a Cluster,
        rules: Rules,
        situation: &Situation,
    ) -> Self {
        let mut timeline = Timeline::new(graph, cluster, rules);
        for (p, processor) in timeline.processors.iter_mut().enumerate() {
            processor.ready = situation.now;
            processor.lost = situation.is_lost(p);
        }
        let mut started: Vec<(Moment, usize, f64, usize)> = Vec::new();
        for &task in graph.topological_order() {
            if let Progress::Started { processor, start, finish } = situation.progress(task) {
                started.push((Moment(start), processor, finish, task));
            }
        }
        started.sort_by_key(|&(start, ..)| start);
        for (start, p, finish, task) in started {
            timeline.processors[p].ready = timeline.processors[p].ready.max(finish);
            timeline.record(task, p, start.0, finish);
        }
        for (file, edge) in graph.edges().iter().enumerate() {
            let available = timeline.finish[edge.from].max(situation.now);
            let location = match situation.file(file) {
                FilePlace::Nowhere => FileLocation::Nowhere,
                FilePlace::Memory(p) => {
                    timeline.processors[p].keep(file, edge.size);
                    FileLocation::Memory(p)
                }
                FilePlace::Buffer(p) => {
                    timeline.processors[p].buffer.hold(available, f64::INFINITY, edge.size);
                    FileLocation::Buffer(p, None)
                }
                FilePlace::Read => FileLocation::Read,
            };
            timeline.files[file] = File { location, available };
        }
        for processor in &mut timeline.processors {
            processor.peak = processor.waiting_bytes;
        }
        timeline
    }

    pub(super) fn record(&mut self, task: usize, p: usize, start: f64, finish: f64) {
        (self.processor_of[task], self.start[task], self.finish[task]) = (Some(p), start, finish);
        self.orders[p].push(task);
        self.sequence.push(task);
    }

    /// Returns the numbers of a task's input edges, in the order in which the files become available.
    pub(in crate::workflow) fn inputs(&self, task: usize) -> Vec<usize> {
        let mut inputs = self.graph.input_numbers(task).to_vec();
        inputs.sort_by_key(|&file| (Moment(self.files[file].available), file));
        inputs
    }

    /// Returns the plan with all placed tasks. All tasks must have been placed.
    pub(in crate::workflow) fn into_plan(self) -> Plan {
        let makespan = self.finish.iter().copied().fold(0.0, f64::max);
        Plan {
            execution: Execution::Events,
            task_memory: self.rules.task_memory,
            processor_of: self.processor_of.into_iter().map(Option::unwrap_or_default).collect(),
            orders: self.orders,
            sequence: self.sequence,
            start: self.start,
            finish: self.finish,
            makespan,
            peak: self.processors.iter().map(|processor| processor.peak).collect(),
            transfers: self.transfers,
            evictions: self.evictions.into_iter().flatten().collect(),
        }
    }

    pub(super) fn size(&self, file: usize) -> u64 {
        self.graph.edges()[file].size
    }

    pub(in crate::workflow) fn is_idle(&self, p: usize) -> bool {
        self.orders[p].is_empty()
    }

    pub(in crate::workflow) fn run_time(&self, task: usize, p: usize) -> f64 {
        self.graph.work(task) / self.cluster.processors()[p].speed
    }

    /// Returns the time at which the value in a file arrived on processor `p` for another reader, if it was sent there. Only a value that a task
    /// writes for all its readers can be there already.
    pub(super) fn copy_on(&self, file: usize, p: usize) -> Option<f64> {
        self.copies.get(&(self.graph.edges()[file].from, p)).copied()
    }

    pub(super) fn place_of(&self, file: usize) -> Option<usize> {
        match self.files[file].location {
            FileLocation::Memory(p) | FileLocation::Buffer(p, _) => Some(p),
            FileLocation::Nowhere | FileLocation::Read => None,
        }
    }
}
