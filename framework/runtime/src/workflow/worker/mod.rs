//! Part of a workflow's run on each rank: the tasks dispatched to it, the values that it holds, and its messages about values. It has no clock, no
//! thread and no file. `README.md` in the workflow's module describes the protocol.

mod exchange;
mod queue;
mod trace;
mod values;

use std::collections::BTreeMap;
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::time::Duration;

use super::graph::Graph;
use super::messages::{ANNOUNCED, Content, Failure, Order, Orders, Reason, Report, Sizes, TaskDone};
use super::summary::RankReport;
use super::user_code::Job;
use super::value::Value;
use crate::error::Result;
use crate::observe::{Event, TaskEnded, ValueCame, ValueOnDisk};
use crate::rank::protocol::Outgoing;
use exchange::Exchange;
use queue::{Queue, Queued};
use trace::Trace;
use values::{Location, Values};

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Maximum number of bytes that task values and running tasks may occupy on the rank.
    pub(super) budget: u64,
    /// True if rank 0 gets the values of final tasks, which no other task reads.
    pub(super) collects: bool,
    /// True if rank 0 gets the values of all tasks, for the journal.
    pub(super) journals: bool,
}

/// Number of earlier failed tries, and memory, of a task that has begun and not ended.
#[derive(Clone, Copy, Debug)]
struct Started {
    attempt: u32,
    /// Bytes that the running task may occupy in addition to its inputs.
    memory: u64,
}

/// State of one rank in a workflow: the tasks dispatched to it, the task values (results) that it holds, and its exchange of values with
/// other ranks.
pub(super) struct WorkflowWorker {
    rank: usize,
    graph: Arc<Graph>,
    settings: Settings,
    queue: Queue,
    values: Values,
    exchange: Exchange,
    running: BTreeMap<usize, Started>,
    report: Report,
    totals: RankReport,
    pub(super) trace: Trace,
}

impl WorkflowWorker {
    pub(super) fn new(rank: usize, graph: Arc<Graph>, settings: Settings) -> Self {
        WorkflowWorker {
            rank,
            settings,
            queue: Queue::default(),
            values: Values::new(graph.len(), settings.budget),
            exchange: Exchange::default(),
            running: BTreeMap::new(),
            report: Report::default(),
            totals: RankReport::default(),
            trace: Trace::default(),
            graph,
        }
    }

    pub(super) fn on_orders(&mut self, orders: Orders, out: &mut Outgoing<'_>) -> Result<()> {
        for task in orders.cancelled {
            self.unqueue(task);
        }
        for task in orders.recalled {
            if self.unqueue(task).is_some() {
                self.report.returned.push(task);
            }
        }
        orders.dropped.into_iter().for_each(|task| self.values.disown(task));
        for order in orders.orders {
            self.enqueue(&order, out)?;
        }
        // Changed sources (ranks from which inputs are read) are handled after the new orders, because they may be those of the new tasks' inputs.
        for (task, rank) in orders.changed_sources {
            self.on_source_changed(task, rank, out)?;
        }
        self.fetch_ahead(out)
    }

    fn enqueue(&mut self, order: &Order, out: &mut Outgoing<'_>) -> Result<()> {
        let task = order.task;
        let queued = self.queue.get(task);
        if queued.is_some_and(|queued| !queued.is_announced) || self.running.contains_key(&task) {
            return Ok(());
        }
        let was_announced = self.queue.remove(task).is_some();
        let graph = self.graph.clone();
        for (input, &source) in graph.parents(task).zip(&order.sources) {
            // If the input was requested from another rank before, for an order that the master has withdrawn, the earlier request is given up: its
            // reserved memory is released, and the input is requested from `source`.
            self.values.expect_no_more(input, |from| from != source);
            self.values[input].uses += u32::from(!was_announced);
            match self.values[input].location {
                Location::Absent if source != self.rank => self.want(input, source, out)?,
                Location::Wanted(from) if from != source => self.on_source_changed(input, source, out)?,
                _ => {}
            }
        }
        if !order.is_announced {
            self.trace.ordered(task);
        }
        let inputs = graph.parents(task).map(|input| self.values[input].location.availability());
        self.queue.insert(order, graph.needs(task).priority, inputs);
        Ok(())
    }

    /// Removes and returns the order for a task that has not begun. Its inputs then have one reader less.
    fn unqueue(&mut self, task: usize) -> Option<Queued> {
        let queued = self.queue.remove(task)?;
        self.graph.parents(task).for_each(|input| self.values.unuse(input));
        Some(queued)
    }

    fn set(&mut self, task: usize, location: Location) {
        if let Some(change) = self.values.set(task, location) {
            self.queue.input_changed(task, self.graph.children(task), change, &mut self.trace);
        }
    }

    fn want(&mut self, task: usize, source: usize, out: &mut Outgoing<'_>) -> Result<()> {
        self.set(task, Location::Wanted(source));
        let room = self.values.grant(task);
        self.exchange.request(task, source, room, out)
    }

    /// Handles the master's message that the value of `task` must be requested from rank `rank` instead of the rank stated before.
    fn on_source_changed(&mut self, task: usize, rank: usize, out: &mut Outgoing<'_>) -> Result<()> {
        use Location::{Arriving, Offered, Wanted};
        let held = &self.values[task];
        let is_known = matches!(held.location, Wanted(from) | Offered(from) | Arriving(from) if from == rank);
        if is_known || !held.location.is_elsewhere() || held.uses == 0 {
            return Ok(());
        }
        self.set(task, Location::Absent);
        if rank == self.rank { Ok(()) } else { self.want(task, rank, out) }
    }

    pub(super) fn on_want(&mut self, from: usize, wanted: Sizes, out: &mut Outgoing<'_>) -> Result<()> {
        let mut requests = wanted.into_iter().map(|(task, room)| (from, task, room));
        requests.try_for_each(|request| self.exchange.answer(request, &mut self.values, out))
    }

    /// Handles the reply of rank `from`, which sends only the sizes of the requested values, because they are large: this rank must first reserve
    /// memory for them.
    pub(super) fn on_offer(&mut self, from: usize, offered: Sizes, out: &mut Outgoing<'_>) -> Result<()> {
        for (task, bytes) in offered {
            if matches!(self.values[task].location, Location::Wanted(source) if source == from) {
                self.values[task].bytes = bytes;
                self.set(task, Location::Offered(from));
            }
        }
        self.fetch_ahead(out)
    }

    pub(super) fn on_value(&mut self, from: usize, task: usize, value: Value) {
        self.on_dropped(from, task);
        let held = &self.values[task];
        if held.uses == 0 || !held.location.is_elsewhere() {
            return;
        }
        let bytes = value.bytes();
        self.trace.record(|| {
            Event::ValueCame(ValueCame { task: self.graph.dag.name(task).to_string(), from, bytes })
        });
        let has_room = matches!(held.location, Location::Arriving(_))
            || bytes <= held.granted
            || self.values.fits(bytes);
        // The memory reserved for the value is released before its size is set to the real one, because the reservation was made with the old size.
        self.set(task, Location::Absent);
        (self.values[task].bytes, self.values[task].from) = (bytes, Some(from));
        // A task value that does not fit into memory is dropped; this rank can request it again. Such a value may arrive without a request,
        // if rank 0 gets it for the program or the journal.
        self.set(task, if has_room { Location::Memory(value) } else { Location::Offered(from) });
    }

    /// Handles the reply that the requested value was dropped by the rank that had it. A task that still needs the value waits until it is computed
    /// again.
    pub(super) fn on_dropped(&mut self, from: usize, task: usize) {
        self.values.expect_no_more(task, |source| source == from);
    }

    /// Handles the death of a rank: task values in transit from or to it are given up.
    pub(super) fn on_lost(&mut self, rank: usize, out: &mut Outgoing<'_>) -> Result<()> {
        if self.values.on_lost(rank) { self.fetch_ahead(out) } else { Ok(()) }
    }

    pub(super) fn release_sent(&mut self, out: &mut Outgoing<'_>) -> Result<()> {
        if self.values.have_left(|number| out.has_left(number)) { self.fetch_ahead(out) } else { Ok(()) }
    }

    pub(super) fn send_request(&mut self, out: &mut Outgoing<'_>) -> Result<()> {
        self.exchange.send_request(out)
    }

    pub(super) fn next(&mut self, out: &mut Outgoing<'_>) -> Result<Option<Job>> {
        if !self.values.fits(0)
            && let Break(job) = self.evict(None, out)?
        {
            return Ok(job);
        }
        if let Break(job) = self.serve(out)? {
            return Ok(job);
        }
        match self.begin(false, out)? {
            None => self.gather(out),
            job => Ok(job),
        }
    }

    /// Returns the next command to start. Commands run at the same time as closures.
    pub(super) fn next_command(&mut self, out: &mut Outgoing<'_>) -> Result<Option<Job>> {
        self.begin(true, out)
    }

    /// Begins the first queued task whose inputs are in memory and for which enough memory is free: a command if `command` is true, and otherwise a
    /// closure.
    fn begin(&mut self, command: bool, out: &mut Outgoing<'_>) -> Result<Option<Job>> {
        let graph = self.graph.clone();
        let is_bounded = self.settings.budget < u64::MAX;
        let (mut found, mut short) = (None, None);
        for &order in self.queue.ready().filter(|order| graph.needs(order.task).is_command == command) {
            let memory = if is_bounded { self.needs(&order).1 } else { 0 };
            if self.values.fits(memory) {
                found = Some((order, memory));
                break;
            }
            short.get_or_insert(order.task);
        }
        if let Some(task) = short {
            self.trace.short(task);
        }
        let Some((Queued { task, attempt, exceeded, is_suspect, .. }, memory)) = found else {
            return Ok(None);
        };
        self.queue.remove(task);
        if is_suspect {
            // Before a task runs that is suspected of having killed an earlier rank, the master is informed, because the task may kill this process
            // too.
            self.exchange.send(0, Content::Started(task), out)?;
        }
        self.values.occupy(memory);
        self.running.insert(task, Started { attempt, memory });
        let name = |task| graph.dag.name(task).to_string();
        self.trace.dispatched(task, attempt, command, graph.parents(task), name);
        let inputs = graph.parents(task).filter_map(|input| self.values.pin(input)).collect();
        Ok(Some(Job::Run { task, attempt, exceeded, inputs }))
    }

    /// Returns the total size in bytes of the inputs of a queued task, and the memory in bytes that the task needs besides them.
    fn needs(&self, order: &Queued) -> (u64, u64) {
        let inputs = self.graph.parents(order.task).map(|input| self.values[input].bytes).sum();
        (inputs, self.graph.memory(order.task, inputs, order.exceeded))
    }

    /// Sends task values that are on disk to ranks that have reserved memory for them. Returns a disk operation if one is needed first.
    fn serve(&mut self, out: &mut Outgoing<'_>) -> Result<ControlFlow<Option<Job>>> {
        while let Some(&(task, rank)) = self.exchange.serving.front() {
            let bytes = self.values[task].bytes;
            match self.values[task].location {
                Location::Disk if self.values.fits(bytes) => return Ok(Break(Some(self.load(task)))),
                Location::Disk if !self.values.will_fit(bytes) => return self.evict(None, out),
                Location::Disk | Location::Spilling | Location::Loading => break,
                _ => {}
            }
            self.exchange.serving.pop_front();
            self.exchange.answer((rank, task, u64::MAX), &mut self.values, out)?;
        }
        Ok(Continue(()))
    }

    /// Selects the first queued task whose inputs all exist on some rank, and takes the next step to bring the inputs into memory: requests them, or
    /// returns a read or write of the disk.
    fn gather(&mut self, out: &mut Outgoing<'_>) -> Result<Option<Job>> {
        let Some(&order) = self.queue.first_available() else { return Ok(None) };
        let (inputs, memory) = self.needs(&order);
        if inputs.saturating_add(memory) > self.settings.budget {
            self.refuse(order, inputs.saturating_add(memory), inputs);
            return Ok(None);
        }
        let graph = self.graph.clone();
        let absent = graph.parents(order.task).filter(|&input| !self.values[input].location.takes_room());
        let needed = absent.map(|input| self.values[input].bytes).sum::<u64>().saturating_add(memory);
        if !self.values.fits(needed) {
            if self.values.will_fit(needed) {
                return Ok(None);
            }
            return Ok(self.evict(Some(order.task), out)?.break_value().flatten());
        }
        let on_disk = |input: &usize| matches!(self.values[*input].location, Location::Disk);
        if let Some(input) = graph.parents(order.task).find(on_disk) {
            return Ok(Some(self.load(input)));
        }
        for input in graph.parents(order.task) {
            if let Location::Offered(source) = self.values[input].location {
                self.fetch(input, source, out)?;
            }
        }
        Ok(None)
    }

    /// Reserves memory for a task value whose size another rank has sent, and requests the value from that rank.
    fn fetch(&mut self, task: usize, source: usize, out: &mut Outgoing<'_>) -> Result<()> {
        self.set(task, Location::Arriving(source));
        self.exchange.request(task, source, self.values[task].bytes, out)
    }

    /// Requests inputs of the first queued and announced tasks while other tasks run, even if not all inputs of a task exist. An input is requested
    /// only if it fits into memory together with everything held and with the largest memory that its task, or a task before it in the queue, needs.
    fn fetch_ahead(&mut self, out: &mut Outgoing<'_>) -> Result<()> {
        if self.settings.budget == u64::MAX {
            return Ok(());
        }
        let graph = self.graph.clone();
        let first: Vec<Queued> = self.queue.iter().take(ANNOUNCED).copied().collect();
        // Memory for the largest value computed on this rank stays free, so that a value on disk can be read for another rank that has requested it.
        // Otherwise two ranks could wait for each other.
        let mut working = self.values.largest;
        for order in first {
            working = working.max(self.needs(&order).1);
            for input in graph.parents(order.task) {
                let Location::Offered(source) = self.values[input].location else { continue };
                if !self.values.fits(self.values[input].bytes.saturating_add(working)) {
                    return Ok(());
                }
                self.fetch(input, source, out)?;
            }
        }
        Ok(())
    }

    /// Refuses a task that does not fit into the rank's memory even if the rank holds nothing else.
    fn refuse(&mut self, order: Queued, needed: u64, inputs: u64) {
        let Queued { task, attempt, .. } = order;
        let budget = self.settings.budget;
        let message = format!(
            "needs {needed} bytes, {inputs} of them for its inputs, more than a rank's limit of {budget}"
        );
        self.unqueue(task);
        self.report.failed.push(Failure { task, attempt, reason: Reason::Memory, message });
    }

    fn load(&mut self, task: usize) -> Job {
        self.set(task, Location::Loading);
        Job::Load(task)
    }

    /// Evicts the value that is needed last, among those that the task `reader` does not read. Returns a write of the value to disk or, if the disk
    /// already has a copy, drops the value from memory and returns what the executor is to do next.
    fn evict(&mut self, reader: Option<usize>, out: &mut Outgoing<'_>) -> Result<ControlFlow<Option<Job>>> {
        let spared =
            |task: usize| reader.is_some_and(|reader| self.graph.parents(reader).any(|input| input == task));
        let next_use = |task: usize| self.queue.first_of(self.graph.children(task));
        let Some(task) = self.values.victim(spared, next_use) else { return Ok(Continue(())) };
        if self.values[task].is_on_disk {
            self.set(task, Location::Disk);
            return self.next(out).map(Break);
        }
        let Location::Memory(value) = &self.values[task].location else { return Ok(Continue(())) };
        let value = value.clone();
        self.totals.spilled += value.bytes();
        self.set(task, Location::Spilling);
        Ok(Break(Some(Job::Spill(task, value))))
    }

    pub(super) fn on_spilled(&mut self, task: usize) {
        self.values[task].is_on_disk = true;
        self.disk_operation_ended(task, Location::Disk, Event::ValueSpilled);
    }

    pub(super) fn on_loaded(&mut self, task: usize, value: Value) {
        self.disk_operation_ended(task, Location::Memory(value), Event::ValueLoaded);
    }

    fn disk_operation_ended(&mut self, task: usize, location: Location, event: fn(ValueOnDisk) -> Event) {
        let (name, bytes) = (|| self.graph.dag.name(task).to_string(), self.values[task].bytes);
        self.trace.record(|| event(ValueOnDisk { task: name(), bytes }));
        self.set(task, location);
        self.values.disk_operation_ended(task);
    }

    pub(super) fn on_done(
        &mut self,
        (task, value): (usize, Value),
        took: Duration,
        peak_memory: Option<u64>,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let bytes = value.bytes();
        let Some(attempt) = self.end(task, TaskEnded { bytes, peak_memory, ..ended(took) }) else {
            return Ok(());
        };
        let took = took.as_nanos() as u64;
        self.report.done.push(TaskDone { task, attempt, bytes, took, peak_memory });
        let is_kept = self.settings.journals || self.settings.collects && self.graph.is_final(task);
        if is_kept {
            // Rank 0 gets the value of the task without a request, for the program or the journal, so an earlier request of rank 0 is
            // discarded.
            self.exchange.stop_waiting(task, 0);
        }
        if !self.graph.is_final(task) {
            self.on_owned(task, value.clone(), out)?;
        }
        if is_kept && self.rank != 0 {
            self.exchange.send_value(0, task, value, &mut self.values, out)?;
        }
        self.fetch_ahead(out)
    }

    pub(super) fn on_failed(
        &mut self,
        task: usize,
        (reason, message): (Reason, String),
        took: Duration,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let failure = Some(message.clone());
        if let Some(attempt) = self.end(task, TaskEnded { failure, ..ended(took) }) {
            self.report.failed.push(Failure { task, attempt, reason, message });
        }
        self.fetch_ahead(out)
    }

    /// Ends a running task: releases its memory, and its inputs have one reader less. Returns the number of earlier failed tries of the task.
    fn end(&mut self, task: usize, ended: TaskEnded) -> Option<u32> {
        let Started { attempt, memory } = self.running.remove(&task)?;
        self.values.release(memory);
        for input in self.graph.parents(task) {
            self.values[input].pins -= 1;
            self.values.unuse(input);
        }
        self.totals.tasks += 1;
        let name = || self.graph.dag.name(task).to_string();
        self.trace.ended(task, || Event::TaskEnded(TaskEnded { task: name(), ..ended }));
        Some(attempt)
    }

    /// Stores a value for the ranks that need it, also those that have already requested it. This rank must keep the value until the master reports
    /// that it is not needed. The value is from a task that was done on this rank, by an earlier run, or by a rank that has died.
    pub(super) fn on_owned(&mut self, task: usize, value: Value, out: &mut Outgoing<'_>) -> Result<()> {
        self.own(task, value.bytes(), Location::Memory(value), out)
    }

    /// Records that a value of `bytes` bytes was read from the journal and is on disk. This rank must keep it as if it had computed the value.
    pub(super) fn on_restored(&mut self, task: usize, bytes: u64, out: &mut Outgoing<'_>) -> Result<()> {
        self.own(task, bytes, Location::Disk, out)
    }

    fn own(&mut self, task: usize, bytes: u64, location: Location, out: &mut Outgoing<'_>) -> Result<()> {
        self.values.own(task, bytes);
        if self.values[task].location.is_elsewhere() {
            self.set(task, Location::Absent);
            let held = &mut self.values[task];
            (held.bytes, held.from) = (bytes, None);
            held.is_on_disk = matches!(location, Location::Disk);
            self.set(task, location);
        }
        self.exchange.answer_all(task, &mut self.values, out)
    }

    pub(super) fn take_forgotten(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.values.forgotten)
    }

    pub(super) fn take_report(&mut self) -> Option<Report> {
        let report = std::mem::take(&mut self.report);
        (report != Report::default()).then_some(report)
    }

    pub(super) fn add_busy(&mut self, took: Duration) {
        self.totals.busy += took;
    }

    pub(super) fn totals(&self) -> RankReport {
        RankReport { sent: self.exchange.sent, most_held: self.values.most_held, ..self.totals }
    }

    /// Returns the rank that has the output files of a task, as far as this rank knows: the rank from which the task's (empty) value was received.
    pub(super) fn maker(&self, task: usize) -> usize {
        self.values[task].from.unwrap_or(self.rank)
    }

    pub(super) fn is_running(&self) -> bool {
        !self.running.is_empty()
    }

    pub(super) fn take_events(&mut self) -> Vec<(Duration, Event)> {
        self.trace.holds(self.values.taken(), self.settings.budget);
        self.trace.take()
    }

    #[cfg(test)]
    pub(super) fn values_in_memory(&self) -> impl Iterator<Item = &Value> {
        self.values.in_memory()
    }

    /// Describes for messages the running tasks and, if no task can begin, the inputs for which the first queued task waits.
    pub(super) fn state(&self) -> String {
        let name = |task: usize| self.graph.dag.name(task).to_string();
        let running: Vec<String> = self.running.keys().copied().map(name).collect();
        let mut state = match running.is_empty() {
            true => "runs nothing".to_string(),
            false => format!("runs {}", running.join(", ")),
        };
        let mut queued = self.queue.iter().filter(|order| !order.is_announced);
        let (count, ready) = (queued.clone().count(), self.queue.count_ready());
        state += &format!("; {count} queued, {ready} ready");
        if let Some(order) = queued.next().filter(|_| ready == 0) {
            let missing = self.graph.parents(order.task).filter_map(|input| self.whereabouts(input));
            let missing: Vec<String> = missing.collect();
            state += &format!("; {} waits for {}", name(order.task), missing.join(", "));
        }
        if self.settings.budget < u64::MAX {
            state += &format!("; {} of {} bytes held", self.values.taken(), self.settings.budget);
        }
        state
    }

    /// Describes for messages where the value of `task` is; `None` if it is in memory on this rank.
    fn whereabouts(&self, task: usize) -> Option<String> {
        let name = self.graph.dag.name(task);
        Some(match self.values[task].location {
            Location::Memory(_) => return None,
            Location::Absent => format!("{name} (to be computed on this rank)"),
            Location::Wanted(rank) => format!("{name} (to be computed on rank {rank})"),
            Location::Offered(rank) => format!("{name} (on rank {rank}, waiting for memory on this rank)"),
            Location::Arriving(rank) => format!("{name} (on its way from rank {rank})"),
            _ => format!("{name} (on disk)"),
        })
    }
}

/// Returns the log event for a task that has ended after the time `took`. The caller sets the size of the value or the failure.
fn ended(took: Duration) -> TaskEnded {
    let (task, seconds) = (String::new(), took.as_secs_f64());
    TaskEnded { task, seconds, bytes: 0, peak_memory: None, failure: None }
}

impl std::fmt::Debug for WorkflowWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkflowWorker")
            .field("rank", &self.rank)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
