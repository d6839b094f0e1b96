//! Part of each rank in a workflow: its orders, the values that it holds, and its messages. It has no clock, no thread and no file.
//! `README.md` in the workflow's module describes the protocol.

mod leaving;
mod memory;
mod orders;
mod state;
mod steps;
mod trace;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::graph::Graph;
use super::messages::{Content, Done, Failure, Reason, Report};
use super::summary::RankReport;
use super::value::Value;
use crate::observe::{Event, TaskEnded};
pub(super) use steps::Step;
use trace::Trace;

/// Maximum size in bytes of a value that is sent without reserved memory if memory is limited. Such values may exceed the limit until
/// another value is spilled. With a smaller size, each small value would cost a round trip; a larger size would be noticeable with the
/// smallest sensible memory limit.
const SENT_UNASKED: u64 = 64 << 10;
/// Divisor of the memory limit: the resulting part is the maximum total size of the values that may arrive without reserved memory at a
/// time. It is smaller than the accuracy with which users choose a limit.
const UNASKED_PART: u64 = 16;

/// Settings of a run on one rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Maximum number of bytes that values and running tasks may occupy on the rank.
    pub(super) budget: u64,
    /// True if rank 0 gets the values of final tasks.
    pub(super) collects: bool,
    /// True if rank 0 gets the values of all tasks, for the journal.
    pub(super) journals: bool,
}

impl Settings {
    /// Returns true if rank 0 gets the value of the task for the caller or the journal.
    fn keeps(&self, graph: &Graph, task: usize) -> bool {
        self.journals || self.collects && graph.is_final(task)
    }
}

/// Position of an order in the queue. Orders without a place in a plan come first, by priority and then by arrival; all others follow by
/// place.
type Key = (Option<usize>, Reverse<i64>, u64);

/// Order that has not begun.
#[derive(Debug)]
struct Queued {
    task: usize,
    /// True for an announced task, which must not begin yet.
    is_announced: bool,
    is_suspect: bool,
    attempt: u32,
    exceeded: u32,
    /// Number of inputs that are not known to exist on any rank.
    missing: usize,
    /// Number of inputs that are not in memory on this rank, inputs that do not exist included.
    absent: usize,
}

/// Location of a value, as far as this rank knows.
#[derive(Debug, Default)]
enum Place {
    /// Not on this rank.
    #[default]
    Absent,
    /// Not on this rank; the given rank was asked to send the value when it is computed.
    Wanted(usize),
    /// On the given rank, which sends the value on a second request, once memory for the value is free on this rank.
    Offered(usize),
    /// In transit from the given rank; memory is reserved for the value.
    Coming(usize),
    Memory(Value),
    /// Being written to disk; still in memory.
    Spilling,
    Disk,
    /// Being read from disk; memory is reserved for it.
    Loading,
}

impl Place {
    /// Returns true if the value exists on some rank and can be fetched when memory is free.
    fn is_available(&self) -> bool {
        !matches!(self, Place::Absent | Place::Wanted(_))
    }

    fn is_in_memory(&self) -> bool {
        matches!(self, Place::Memory(_))
    }

    /// Returns true if the value is neither in memory nor on disk on this rank.
    fn is_elsewhere(&self) -> bool {
        matches!(self, Place::Absent | Place::Wanted(_) | Place::Offered(_) | Place::Coming(_))
    }

    /// Returns true if the value occupies memory on this rank, or memory is reserved for it.
    fn takes_room(&self) -> bool {
        matches!(self, Place::Memory(_) | Place::Spilling | Place::Loading | Place::Coming(_))
    }
}

/// State of a value.
#[derive(Debug, Default)]
struct Held {
    place: Place,
    bytes: u64,
    /// Bytes of the value that may arrive without reserved memory.
    granted: u64,
    /// Number of orders on this rank, queued or begun, that read the value.
    uses: u32,
    /// Number of tasks that have begun on this rank and read the value.
    pins: u32,
    /// Rank that sent the value; `None` if it was computed on this rank.
    from: Option<usize>,
    /// True if the value was computed on this rank. It is kept until the master reports that it is not needed any more.
    is_origin: bool,
    /// True if a copy is on disk.
    is_on_disk: bool,
    /// True if the value is dropped as soon as the disk operation on it ends.
    is_doomed: bool,
    /// True if the value was computed on this rank and the master has reported that it is not needed any more.
    is_gone: bool,
    /// Number of times that the value left memory while it was being sent.
    copies: u32,
}

/// Value that is being sent to a rank.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    task: usize,
    to: usize,
    /// Number of the copy that is being sent: the value of `Held::copies` when sending began.
    copy: u32,
    bytes: u64,
    /// Number of the message, once it has been passed to the transport.
    number: Option<u64>,
}

/// State of one rank.
pub(super) struct Worker {
    rank: usize,
    graph: Arc<Graph>,
    settings: Settings,
    queue: BTreeMap<Key, Queued>,
    /// By task: position of its order in the queue.
    keys: Vec<Option<Key>>,
    /// Orders whose inputs are all in memory.
    ready: BTreeSet<Key>,
    /// Orders whose inputs all exist on some rank.
    available: BTreeSet<Key>,
    /// State of the value of each task.
    values: Vec<Held>,
    /// Values in memory, if memory is limited.
    in_memory: BTreeSet<usize>,
    /// By task: ranks that wait for a value that this rank does not have yet, and the maximum size for which each needs no second request.
    wanted_by: HashMap<usize, Vec<(usize, u64)>>,
    /// Values on disk that have to be sent: task, receiving rank.
    serving: VecDeque<(usize, usize)>,
    /// Bytes of values in memory, and of reserved memory.
    held: u64,
    /// Bytes that running tasks may occupy besides their inputs.
    working: u64,
    /// Bytes of values that may arrive without reserved memory.
    granted: u64,
    /// Size in bytes of the largest value that was computed on this rank.
    largest: u64,
    /// Values that are being sent, if memory is limited.
    leaving: Vec<Leaving>,
    /// Bytes that are in memory only because they are being sent.
    leaving_bytes: u64,
    /// Ranks that have died. Messages to them may stay in memory forever.
    lost: BTreeSet<usize>,
    running: BTreeMap<usize, Running>,
    next_number: u64,
    report: Report,
    out: Vec<(usize, Content)>,
    /// On rank 0: values that have arrived for the caller or the journal.
    kept: Vec<(usize, Value)>,
    /// Values whose copies on disk can be removed.
    forgotten: Vec<usize>,
    pub(super) totals: RankReport,
    trace: Trace,
}

/// Running task.
#[derive(Clone, Copy, Debug)]
struct Running {
    attempt: u32,
    /// Bytes that the task may occupy besides its inputs.
    memory: u64,
}

impl Worker {
    pub(super) fn new(rank: usize, graph: Arc<Graph>, settings: Settings) -> Self {
        let count = graph.len();
        Worker {
            rank,
            graph,
            settings,
            queue: BTreeMap::new(),
            keys: vec![None; count],
            ready: BTreeSet::new(),
            available: BTreeSet::new(),
            values: std::iter::repeat_with(Held::default).take(count).collect(),
            in_memory: BTreeSet::new(),
            wanted_by: HashMap::new(),
            serving: VecDeque::new(),
            held: 0,
            working: 0,
            granted: 0,
            largest: 0,
            leaving: Vec::new(),
            leaving_bytes: 0,
            lost: BTreeSet::new(),
            running: BTreeMap::new(),
            next_number: 0,
            report: Report::default(),
            out: Vec::new(),
            kept: Vec::new(),
            forgotten: Vec::new(),
            totals: RankReport::default(),
            trace: Trace::default(),
        }
    }

    /// Enables the event log, and sets its time to `now`.
    pub(super) fn set_time(&mut self, now: Duration) {
        self.trace.set_time(now);
    }

    /// Returns the events since the last call, for the event log.
    pub(super) fn take_events(&mut self) -> Vec<(Duration, Event)> {
        self.trace.holds(self.taken(), self.settings.budget);
        self.trace.take()
    }

    /// Records the end of a try in the event log.
    fn note_ended(&mut self, ended: impl FnOnce(String) -> TaskEnded, task: usize) {
        self.trace.ended(task, || Event::TaskEnded(ended(self.graph.dag.name(task).to_string())));
    }

    /// Records that the process of a command has started.
    pub(super) fn begins(&mut self, task: usize) {
        self.trace.begins(task);
    }

    /// Records that the process of a command has ended. Its files may still be in transit.
    pub(super) fn stops(&mut self, task: usize) {
        self.trace.stops(task);
    }

    /// Handles the value of a completed task.
    pub(super) fn on_done(&mut self, task: usize, value: Value, took: u64, peak_memory: Option<u64>) {
        let Some(Running { attempt, .. }) = self.end(task) else { return };
        let bytes = value.bytes();
        self.totals.tasks += 1;
        let seconds = Duration::from_nanos(took).as_secs_f64();
        self.note_ended(|task| TaskEnded { task, seconds, bytes, peak_memory, failure: None }, task);
        self.report.done.push(Done { task, attempt, bytes, took, peak_memory });
        let mut waiting = self.wanted_by.remove(&task).unwrap_or_default();
        let kept = self.settings.keeps(&self.graph, task).then(|| value.clone());
        if kept.is_some() {
            // Rank 0 gets the value only once.
            waiting.retain(|&(rank, _)| rank != 0);
        }
        if !self.graph.is_final(task) {
            self.own(task, value, waiting);
        }
        match kept {
            Some(value) if self.rank == 0 => self.kept.push((task, value)),
            Some(value) => self.send(0, task, value),
            None => {}
        }
        self.fetch_ahead();
    }

    /// Stores a value of which this rank is the owner, and sends it to the ranks that wait for it.
    fn own(&mut self, task: usize, value: Value, waiting: Vec<(usize, u64)>) {
        self.largest = self.largest.max(value.bytes());
        (self.values[task].is_origin, self.values[task].is_gone) = (true, false);
        if self.values[task].place.is_elsewhere() {
            self.set(task, Place::Absent);
            (self.values[task].bytes, self.values[task].from) = (value.bytes(), None);
            self.set(task, Place::Memory(value));
        }
        for (rank, room) in waiting {
            self.give(task, rank, room);
        }
    }

    /// Stores the value of a task that was done before this run or by a rank that has died, for all ranks that need it, also those that
    /// have requested it already.
    pub(super) fn on_given(&mut self, task: usize, value: Value) {
        let waiting = self.wanted_by.remove(&task).unwrap_or_default();
        self.own(task, value, waiting);
    }

    /// Records that a value of `bytes` bytes from the journal is on disk. It counts as if it had been computed on this rank.
    pub(super) fn on_restored(&mut self, task: usize, bytes: u64) {
        self.largest = self.largest.max(bytes);
        (self.values[task].is_origin, self.values[task].is_gone) = (true, false);
        if self.values[task].place.is_elsewhere() {
            self.set(task, Place::Absent);
            (self.values[task].bytes, self.values[task].is_on_disk) = (bytes, true);
            self.set(task, Place::Disk);
        }
        for (rank, room) in self.wanted_by.remove(&task).unwrap_or_default() {
            self.give(task, rank, room);
        }
    }

    /// Handles a failed try.
    pub(super) fn on_failed(&mut self, task: usize, reason: Reason, message: String, took: Duration) {
        if let Some(Running { attempt, .. }) = self.end(task) {
            self.totals.tasks += 1;
            let (seconds, bytes, peak_memory) = (took.as_secs_f64(), 0, None);
            let failure = || Some(message.clone());
            self.note_ended(|task| TaskEnded { task, seconds, bytes, peak_memory, failure: failure() }, task);
            self.report.failed.push(Failure { task, attempt, reason, message });
        }
        self.fetch_ahead();
    }

    /// Ends a running task: releases its memory and its inputs.
    fn end(&mut self, task: usize) -> Option<Running> {
        let running = self.running.remove(&task)?;
        self.working -= running.memory;
        let graph = self.graph.clone();
        for parent in graph.parents(task) {
            self.values[parent].pins -= 1;
            self.unuse(parent);
        }
        Some(running)
    }

    /// Returns the messages to send, each with its receiver.
    pub(super) fn take_messages(&mut self) -> Vec<(usize, Content)> {
        std::mem::take(&mut self.out)
    }

    /// On rank 0: returns the values that have arrived for the caller or the journal.
    pub(super) fn take_kept(&mut self) -> Vec<(usize, Value)> {
        std::mem::take(&mut self.kept)
    }

    /// Returns the values whose copies on disk can be removed.
    pub(super) fn take_forgotten(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.forgotten)
    }

    /// Returns the results since the last report.
    pub(super) fn take_report(&mut self) -> Report {
        std::mem::take(&mut self.report)
    }

    /// Returns the number of tasks in the next report.
    pub(super) fn unreported(&self) -> usize {
        self.report.done.len() + self.report.failed.len() + self.report.returned.len()
    }

    /// Returns the memory limit of the processes of a task in bytes, if it has one.
    pub(super) fn memory_limit(&self, task: usize, exceeded: u32) -> Option<u64> {
        self.graph.memory_limit(task, exceeded)
    }

    /// Returns the time limit of a try.
    pub(super) fn time_limit(&self, task: usize) -> Option<Duration> {
        self.graph.needs(task).time_limit
    }

    /// Returns the rank that has the files of a task, as far as this rank knows: the rank that sent its value.
    pub(super) fn maker(&self, task: usize) -> usize {
        self.values[task].from.unwrap_or(self.rank)
    }

    /// Returns the name of a task.
    pub(super) fn name(&self, task: usize) -> &str {
        self.graph.dag.name(task)
    }

    /// Returns the running tasks.
    pub(super) fn running(&self) -> impl Iterator<Item = usize> + '_ {
        self.running.keys().copied()
    }
}
