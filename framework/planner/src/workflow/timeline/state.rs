//! Tasks placed so far, and what follows.

use std::collections::HashMap;

use super::candidate::Candidate;
use super::moment::Moment;
use super::processor::Processor;
use crate::workflow::cluster::Cluster;
use crate::workflow::graph::Workflow;
use crate::workflow::memory::TaskMemory;
use crate::workflow::plan::{Eviction, Execution, Plan, Transfer};
use crate::workflow::situation::{FilePlace, Progress, Situation};

/// What holds for everything that is placed.
#[derive(Clone, Copy, Debug)]
pub(in crate::workflow) struct Rules {
    /// What a task holds while it runs.
    pub(in crate::workflow) task_memory: TaskMemory,
    /// Whether a file that was evicted can be read from the buffer by a task on the same processor.
    pub(in crate::workflow) read_back: bool,
    /// Whether memory counts at all.
    pub(in crate::workflow) memory_blind: bool,
}

/// Where a file lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    /// Not written yet.
    Nowhere,
    /// In the memory of a processor.
    Memory(usize),
    /// In the buffer of a processor; the eviction that put it there after its writer was placed.
    Buffer(usize, Option<usize>),
    /// Its reader is placed.
    Read,
}

/// A file between two tasks.
#[derive(Clone, Copy, Debug)]
pub(super) struct File {
    pub(super) place: Place,
    /// From this moment on it can be read or sent.
    pub(super) available: f64,
}

/// Tasks placed so far, and what follows for memory, buffers and channels.
#[derive(Clone, Debug)]
pub(in crate::workflow) struct Timeline<'a> {
    pub(super) graph: &'a Workflow,
    pub(super) cluster: &'a Cluster,
    pub(super) rules: Rules,
    pub(super) processors: Vec<Processor>,
    /// When the channel from one processor to another is free; row-major.
    pub(super) channels: Vec<f64>,
    pub(super) files: Vec<File>,
    /// Where tasks write one value for all readers: when that of a task, the first of the pair, has been sent to a processor.
    pub(super) copies: HashMap<(usize, usize), f64>,
    pub(super) processor_of: Vec<Option<usize>>,
    pub(super) start: Vec<f64>,
    pub(super) finish: Vec<f64>,
    pub(super) orders: Vec<Vec<usize>>,
    pub(super) sequence: Vec<usize>,
    pub(super) transfers: Vec<Transfer>,
    /// None for one that turned out not to be needed, because its file had been sent before.
    pub(super) evictions: Vec<Option<Eviction>>,
    /// What each task holds while it runs, and what it writes for others.
    pub(super) requirements: Vec<u64>,
    pub(super) output_sizes: Vec<u64>,
    pub(super) candidate: Candidate,
}

impl<'a> Timeline<'a> {
    /// Nothing is placed.
    pub(in crate::workflow) fn new(graph: &'a Workflow, cluster: &'a Cluster, rules: Rules) -> Self {
        let (tasks, count) = (graph.len(), cluster.len());
        Timeline {
            graph,
            cluster,
            rules,
            processors: vec![Processor::default(); count],
            channels: vec![0.0; count * count],
            files: vec![File { place: Place::Nowhere, available: 0.0 }; graph.edges().len()],
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

    /// What has started is placed where and when it did.
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
            let place = match situation.file(file) {
                FilePlace::Nowhere => Place::Nowhere,
                FilePlace::Memory(p) => {
                    timeline.processors[p].keep(file, edge.size);
                    Place::Memory(p)
                }
                FilePlace::Buffer(p) => {
                    timeline.processors[p].buffer.hold(available, f64::INFINITY, edge.size);
                    Place::Buffer(p, None)
                }
                FilePlace::Read => Place::Read,
            };
            timeline.files[file] = File { place, available };
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

    /// The numbers of a task's input edges, in the order in which the files can be sent.
    pub(in crate::workflow) fn inputs(&self, task: usize) -> Vec<usize> {
        let mut inputs = self.graph.input_numbers(task).to_vec();
        inputs.sort_by_key(|&file| (Moment(self.files[file].available), file));
        inputs
    }

    /// The plan, once all tasks are placed.
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

    /// Whether nothing is placed on a processor.
    pub(in crate::workflow) fn is_idle(&self, p: usize) -> bool {
        self.orders[p].is_empty()
    }

    pub(in crate::workflow) fn run_time(&self, task: usize, p: usize) -> f64 {
        self.graph.work(task) / self.cluster.processors()[p].speed
    }

    /// When the value that a file is has been sent to a processor for another reader, if it has.
    pub(super) fn copy_on(&self, file: usize, p: usize) -> Option<f64> {
        self.copies.get(&(self.graph.edges()[file].from, p)).copied()
    }

    /// The processor in whose memory or buffer a file lies.
    pub(super) fn place_of(&self, file: usize) -> Option<usize> {
        match self.files[file].place {
            Place::Memory(p) | Place::Buffer(p, _) => Some(p),
            Place::Nowhere | Place::Read => None,
        }
    }
}
