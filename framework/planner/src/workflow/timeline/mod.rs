//! The event model: when each task starts where, when each file travels, and where it lies meanwhile.
//!
//! Tasks are placed one after the other, in an order in which each comes after those that it reads from; each starts
//! after the last one placed on its processor. The model:
//!
//! - A task holds what [`TaskMemory`] says from its start to its end, files read and written included.
//! - A file whose reader is on the same processor stays in memory until the reader starts. If it is evicted meanwhile,
//!   it cannot be read there any more, unless [`Rules::read_back`] allows it: then it is read from the buffer.
//! - A file for another processor is sent as soon as it is written, and its channel (one for each ordered pair of
//!   processors, one file after the other, in the order in which their readers are placed) is free. It lies in the
//!   sender's memory until it has arrived, or until it is evicted: then in the sender's buffer.
//! - The receiver puts it into its buffer, if it arrives before the memory for its reader is free and the buffer
//!   has room; if not, sending waits for that memory.
//! - A task starts when its processor is free, its files are there, and memory suffices. If it would not suffice, files on
//!   their way are evicted, or waited for where the buffer is full, and then the largest of those that wait for a reader.
//!
//! This differs from HEFTM as published in that files on their way are counted: there they are gone at once.

mod buffer;
mod candidate;
mod moment;
mod processor;

use candidate::Candidate;
pub(super) use candidate::Outcome;
pub(super) use moment::Moment;
use processor::Processor;

use super::cluster::Cluster;
use super::graph::Workflow;
use super::memory::TaskMemory;
use super::plan::{Eviction, Execution, Plan, Transfer};
use super::situation::{FilePlace, Progress, Situation};

/// What holds for everything that is placed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// What a task holds while it runs.
    pub(super) task_memory: TaskMemory,
    /// Whether a file that was evicted can be read from the buffer by a task on the same processor.
    pub(super) read_back: bool,
    /// Whether memory counts at all.
    pub(super) memory_blind: bool,
}

/// Where a file lies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
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
struct File {
    place: Place,
    /// From this moment on it can be read or sent.
    available: f64,
}

/// Tasks placed so far, and what follows for memory, buffers and channels.
#[derive(Clone, Debug)]
pub(super) struct Timeline<'a> {
    graph: &'a Workflow,
    cluster: &'a Cluster,
    rules: Rules,
    processors: Vec<Processor>,
    /// When the channel from one processor to another is free; row-major.
    channels: Vec<f64>,
    files: Vec<File>,
    processor_of: Vec<Option<usize>>,
    start: Vec<f64>,
    finish: Vec<f64>,
    orders: Vec<Vec<usize>>,
    sequence: Vec<usize>,
    transfers: Vec<Transfer>,
    /// None for one that turned out not to be needed, because its file had been sent before.
    evictions: Vec<Option<Eviction>>,
    /// What each task holds while it runs, and what it writes for others.
    requirements: Vec<u64>,
    output_sizes: Vec<u64>,
    candidate: Candidate,
}

impl<'a> Timeline<'a> {
    /// Nothing is placed.
    pub(super) fn new(graph: &'a Workflow, cluster: &'a Cluster, rules: Rules) -> Self {
        let (tasks, count) = (graph.len(), cluster.len());
        Timeline {
            graph,
            cluster,
            rules,
            processors: vec![Processor::default(); count],
            channels: vec![0.0; count * count],
            files: vec![File { place: Place::Nowhere, available: 0.0 }; graph.edges().len()],
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
    pub(super) fn resume(
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

    fn record(&mut self, task: usize, p: usize, start: f64, finish: f64) {
        (self.processor_of[task], self.start[task], self.finish[task]) = (Some(p), start, finish);
        self.orders[p].push(task);
        self.sequence.push(task);
    }

    /// The numbers of a task's input edges, in the order in which the files can be sent.
    pub(super) fn inputs(&self, task: usize) -> Vec<usize> {
        let mut inputs = self.graph.input_numbers(task).to_vec();
        inputs.sort_by_key(|&file| (Moment(self.files[file].available), file));
        inputs
    }

    /// Places a task on a processor. None, and nothing has changed, if it cannot be placed there.
    pub(super) fn place(&mut self, task: usize, p: usize, inputs: &[usize]) -> Option<Outcome> {
        let outcome = self.try_on(task, p, inputs, f64::INFINITY)?;
        let candidate = std::mem::take(&mut self.candidate);
        self.move_out(&candidate, p);
        for transfer in &candidate.transfers {
            self.send(transfer, p, outcome.start);
        }
        for &file in inputs {
            let size = self.size(file);
            match std::mem::replace(&mut self.files[file].place, Place::Read) {
                Place::Memory(_) => self.processors[p].drop_waiting(file, size),
                Place::Buffer(..) => self.processors[p].buffer.release(outcome.start, size),
                Place::Nowhere | Place::Read => {}
            }
        }
        let processor = &mut self.processors[p];
        processor.advance(outcome.finish);
        processor.peak = processor.peak.max(candidate.peak);
        for file in self.graph.output_numbers(task) {
            // The reader of a file that is written again may have had it before.
            if self.files[file].place == Place::Nowhere {
                self.files[file] = File { place: Place::Memory(p), available: outcome.finish };
                processor.keep(file, self.graph.edges()[file].size);
            }
        }
        self.record(task, p, outcome.start, outcome.finish);
        self.transfers.extend_from_slice(&candidate.transfers);
        self.candidate = candidate;
        Some(outcome)
    }

    /// The plan, once all tasks are placed.
    pub(super) fn into_plan(self) -> Plan {
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

    /// Carries out the evictions of a candidate.
    fn move_out(&mut self, candidate: &Candidate, p: usize) {
        let at = candidate.reserved;
        for &file in &candidate.evicted {
            let size = self.size(file);
            self.processors[p].drop_waiting(file, size);
            self.processors[p].buffer.hold(at, f64::INFINITY, size);
            self.files[file].place = Place::Buffer(p, Some(self.evictions.len()));
            self.evictions.push(Some(Eviction { edge: file, at }));
        }
        for &(file, end) in &candidate.diverted {
            let size = self.size(file);
            self.processors[p].drop_leaving(file, end);
            self.processors[p].buffer.hold(at, end, size);
            self.evictions.push(Some(Eviction { edge: file, at }));
        }
    }

    /// Sends a file to processor `p`, where its reader starts at `start`.
    fn send(&mut self, transfer: &Transfer, p: usize, start: f64) {
        let &Transfer { edge: file, start: sent, finish, to_buffer } = transfer;
        let size = self.size(file);
        let count = self.processors.len();
        let place = std::mem::replace(&mut self.files[file].place, Place::Read);
        let sender = match place {
            Place::Memory(sender) => {
                self.processors[sender].drop_waiting(file, size);
                self.processors[sender].send(file, size, finish);
                sender
            }
            Place::Buffer(sender, eviction) => {
                let since =
                    eviction.and_then(|eviction| self.evictions[eviction]).map(|eviction| eviction.at);
                if since.is_some_and(|since| finish <= since) {
                    eviction.inspect(|&eviction| self.evictions[eviction] = None);
                }
                let gone = since.map_or(finish, |since| finish.max(since));
                self.processors[sender].buffer.release(gone, size);
                sender
            }
            Place::Nowhere | Place::Read => return,
        };
        self.channels[sender * count + p] = finish;
        if to_buffer {
            self.processors[p].buffer.hold(sent, start, size);
        }
    }

    fn size(&self, file: usize) -> u64 {
        self.graph.edges()[file].size
    }

    fn run_time(&self, task: usize, p: usize) -> f64 {
        self.graph.work(task) / self.cluster.processors()[p].speed
    }

    /// The processor in whose memory or buffer a file lies.
    fn place_of(&self, file: usize) -> Option<usize> {
        match self.files[file].place {
            Place::Memory(p) | Place::Buffer(p, _) => Some(p),
            Place::Nowhere | Place::Read => None,
        }
    }
}
