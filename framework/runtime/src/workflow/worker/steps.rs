//! Next step of a rank: a task, or a disk operation that makes room for a task.

use std::cmp::Reverse;

use super::{Key, Place, Queued, Reason, Running, Worker};
use crate::observe::{Event, ValueOnDisk};
use crate::workflow::messages::{ANNOUNCED, Content};
use crate::workflow::value::Value;

/// Step for user code or the disk.
#[derive(Debug)]
pub(in crate::workflow) enum Step {
    /// Run a task with these inputs.
    Run { task: usize, attempt: u32, exceeded: u32, inputs: Vec<Value> },
    /// Write a value to disk.
    Spill(usize, Value),
    /// Read a value from disk.
    Load(usize),
    /// Nothing to do until the next event.
    Nothing,
}

impl Worker {
    /// Returns the next step. Called when user code and the disk have room for one.
    pub(in crate::workflow) fn next(&mut self) -> Step {
        if !self.fits(0)
            && let Some(step) = self.evict(None)
        {
            return step;
        }
        if let Some(step) = self.serve() {
            return step;
        }
        match self.start(false) {
            Step::Nothing => self.gather(),
            step => step,
        }
    }

    /// Returns the next command to run. Commands run concurrently with user code.
    pub(in crate::workflow) fn next_command(&mut self) -> Step {
        self.start(true)
    }

    /// Begins the first order that can begin, among commands or among closures.
    fn start(&mut self, command: bool) -> Step {
        let bounded = self.settings.budget < u64::MAX;
        let is_asked = |key: &&Key| self.graph.needs(self.queue[*key].task).is_command == command;
        let graph = self.graph.clone();
        let next = self.next_by_plan().filter(|key| self.ready.contains(key));
        let ready = self.ready.iter().take_while(|key| key.0.is_none()).chain(next.as_ref());
        let (mut found, mut short) = (None, None);
        for key in ready.filter(is_asked) {
            let Queued { task, exceeded, .. } = self.queue[key];
            let inputs = if bounded { self.input_bytes(task) } else { 0 };
            let memory = graph.memory(task, inputs, exceeded);
            if !bounded || self.fits(memory) {
                found = Some((*key, task, memory));
                break;
            }
            short.get_or_insert(task);
        }
        if let Some(task) = short {
            self.trace.short(task);
        }
        let Some((key, task, memory)) = found else { return Step::Nothing };
        self.ready.remove(&key);
        self.available.remove(&key);
        self.keys[task] = None;
        let Some(Queued { attempt, exceeded, is_suspect, .. }) = self.queue.remove(&key) else {
            return Step::Nothing;
        };
        if is_suspect {
            // The message is sent before the task begins, because the task may end the process.
            self.out.push((0, Content::Begun(task)));
        }
        let memory = if bounded { memory } else { 0 };
        self.working += memory;
        self.note_taken();
        self.running.insert(task, Running { attempt, memory });
        let name = |task| graph.dag.name(task).to_string();
        self.trace.handed_over(task, attempt, command, graph.parents(task), name);
        let inputs = graph.parents(task).filter_map(|parent| {
            self.values[parent].pins += 1;
            match &self.values[parent].place {
                Place::Memory(value) => Some(value.clone()),
                _ => None,
            }
        });
        Step::Run { task, attempt, exceeded, inputs: inputs.collect() }
    }

    /// Returns the next order in the sequence of the plan.
    fn next_by_plan(&self) -> Option<Key> {
        let first = (Some(0), Reverse(i64::MAX), 0);
        let mut planned = self.queue.range(first..);
        planned.find(|(_, order)| !order.is_announced).map(|(key, _)| *key)
    }

    fn input_bytes(&self, task: usize) -> u64 {
        self.graph.parents(task).map(|parent| self.values[parent].bytes).sum()
    }

    /// Sends values that are on disk to the ranks that have reserved memory for them, or returns the disk operation that is needed first.
    fn serve(&mut self) -> Option<Step> {
        while let Some(&(task, rank)) = self.serving.front() {
            match &self.values[task].place {
                Place::Memory(value) => {
                    let value = value.clone();
                    self.send(rank, task, value);
                }
                Place::Disk if self.fits(self.values[task].bytes) => return Some(self.load(task)),
                Place::Disk if self.will_fit(self.values[task].bytes) => return None,
                Place::Disk => return self.evict(None),
                Place::Spilling | Place::Loading => return None,
                _ => self.put_off(task, rank, u64::MAX),
            }
            self.serving.pop_front();
        }
        None
    }

    /// Brings the inputs of the first available order into memory. An order is available if all its inputs exist on some rank.
    fn gather(&mut self) -> Step {
        let key = self.available.first().copied().filter(|key| key.0.is_none());
        let key = key.or_else(|| self.next_by_plan().filter(|key| self.available.contains(key)));
        let Some(key) = key else { return Step::Nothing };
        let Queued { task, exceeded, .. } = self.queue[&key];
        let graph = self.graph.clone();
        let inputs = self.input_bytes(task);
        let memory = graph.memory(task, inputs, exceeded);
        if inputs.saturating_add(memory) > self.settings.budget {
            self.refuse(task, inputs, memory);
            return Step::Nothing;
        }
        let needed = self.absent_bytes(task).saturating_add(memory);
        if !self.fits(needed) {
            if self.will_fit(needed) {
                return Step::Nothing;
            }
            return self.evict(Some(task)).unwrap_or(Step::Nothing);
        }
        let on_disk = |parent: &usize| matches!(self.values[*parent].place, Place::Disk);
        if let Some(parent) = graph.parents(task).find(on_disk) {
            return self.load(parent);
        }
        self.fetch(task);
        Step::Nothing
    }

    /// Requests the offered inputs of a task, for which there is room.
    fn fetch(&mut self, task: usize) {
        let graph = self.graph.clone();
        for parent in graph.parents(task) {
            if let Place::Offered(source) = self.values[parent].place {
                self.fetch_one(parent, source);
            }
        }
    }

    fn fetch_one(&mut self, value: usize, source: usize) {
        let bytes = self.values[value].bytes;
        self.set(value, Place::Coming(source));
        self.ask(value, source, bytes);
    }

    /// Requests inputs of the first orders, announced ones included, while other tasks run and before all inputs of an order exist. The inputs must
    /// fit besides everything held and besides the largest memory that the order, or an order before it, needs to begin.
    pub(super) fn fetch_ahead(&mut self) {
        if self.settings.budget == u64::MAX {
            return;
        }
        let graph = self.graph.clone();
        let first: Vec<(usize, u32)> =
            self.queue.values().take(ANNOUNCED).map(|order| (order.task, order.exceeded)).collect();
        // Keeps room for a value that is on disk on this rank and requested by another rank. Otherwise two ranks could wait for each other.
        let mut working = self.largest;
        for (task, exceeded) in first {
            working = working.max(graph.memory(task, self.input_bytes(task), exceeded));
            for parent in graph.parents(task) {
                let Place::Offered(source) = self.values[parent].place else { continue };
                if !self.fits(self.values[parent].bytes.saturating_add(working)) {
                    return;
                }
                self.fetch_one(parent, source);
            }
        }
    }

    /// Returns the bytes of the inputs of a task that occupy no memory on this rank and have no memory reserved.
    fn absent_bytes(&self, task: usize) -> u64 {
        let absent = self.graph.parents(task).filter(|&parent| !self.values[parent].place.takes_room());
        absent.map(|parent| self.values[parent].bytes).sum()
    }

    /// Refuses a task that does not fit even if the rank holds nothing else.
    fn refuse(&mut self, task: usize, inputs: u64, memory: u64) {
        let message = format!(
            "needs {} bytes, {inputs} of them for its inputs, more than a rank's limit of {}",
            inputs.saturating_add(memory),
            self.settings.budget
        );
        let attempt = self.keys[task].and_then(|key| self.queue.get(&key)).map_or(0, |order| order.attempt);
        self.unqueue(task);
        self.report.failed.push(super::Failure { task, attempt, reason: Reason::Memory, message });
    }

    fn load(&mut self, task: usize) -> Step {
        self.set(task, Place::Loading);
        Step::Load(task)
    }

    /// Returns the spill of the value that is needed last and that the task `but` does not read; `None` if there is no such value. If the
    /// value has a copy on disk, it is dropped from memory, and the next step is returned.
    fn evict(&mut self, but: Option<usize>) -> Option<Step> {
        let task = self.victim(but)?;
        if self.values[task].is_on_disk {
            self.set(task, Place::Disk);
            return Some(self.next());
        }
        let Place::Memory(value) = &self.values[task].place else { return None };
        let value = value.clone();
        self.totals.spilled += value.bytes();
        self.set(task, Place::Spilling);
        Some(Step::Spill(task, value))
    }

    /// Handles the end of a spill.
    pub(in crate::workflow) fn on_spilled(&mut self, task: usize) {
        let bytes = self.values[task].bytes;
        self.trace
            .note(|| Event::ValueSpilled(ValueOnDisk { task: self.graph.dag.name(task).to_string(), bytes }));
        self.values[task].is_on_disk = true;
        self.set(task, Place::Disk);
        self.end_doom(task);
    }

    /// Handles a value that was read from disk.
    pub(in crate::workflow) fn on_loaded(&mut self, task: usize, value: Value) {
        let bytes = value.bytes();
        self.trace
            .note(|| Event::ValueLoaded(ValueOnDisk { task: self.graph.dag.name(task).to_string(), bytes }));
        self.set(task, Place::Memory(value));
        self.end_doom(task);
    }

    fn end_doom(&mut self, task: usize) {
        if std::mem::take(&mut self.values[task].is_doomed) {
            self.drop_if_unused(task);
        }
    }
}
