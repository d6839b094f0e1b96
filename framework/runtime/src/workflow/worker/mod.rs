//! What every rank does in a workflow: its orders, the values that it holds, and what it tells whom. Pure: no clock, no thread, no
//! file. `README.md` beside the workflow's module has the protocol.

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

/// Values up to this size, in bytes, come unasked where memory is bounded, and may be too much until something else is written to
/// disk: less than that would cost a way there and back for each small value, more would be felt beside the smallest sensible limit.
const SENT_UNASKED: u64 = 64 << 10;
/// The limit divided by this is all that may come unasked at any moment: what a limit is chosen by is less exact than that.
const UNASKED_PART: u64 = 16;

/// How a rank runs a workflow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Bytes that values and running tasks may take on a rank.
    pub(super) budget: u64,
    /// Whether rank 0 gets what final tasks give …
    pub(super) collects: bool,
    /// … or what all do.
    pub(super) journals: bool,
}

impl Settings {
    /// Whether rank 0 gets what this task gives, whoever else does.
    fn keeps(&self, graph: &Graph, task: usize) -> bool {
        self.journals || self.collects && graph.is_final(task)
    }
}

/// Where in the queue an order is: those that no plan gives a place first, by priority, then as they came; then by place.
type Key = (Option<usize>, Reverse<i64>, u64);

/// An order that has not been begun.
#[derive(Debug)]
struct Queued {
    task: usize,
    /// It is not to be begun yet.
    is_announced: bool,
    is_suspect: bool,
    attempt: u32,
    exceeded: u32,
    /// Inputs of which nobody has said that they are there, anywhere.
    missing: usize,
    /// Inputs that are not in memory here, those included.
    absent: usize,
}

/// Where a value is, as this rank knows it.
#[derive(Debug, Default)]
enum Place {
    /// Not here.
    #[default]
    Absent,
    /// Not here, and another rank was asked to send it when it is made.
    Wanted(usize),
    /// On that rank, which waits to be asked once more: there is room to be made.
    Offered(usize),
    /// On its way from that rank; its room is kept.
    Coming(usize),
    Memory(Value),
    /// Being written to disk; still in memory.
    Spilling,
    Disk,
    /// Being read from disk; its room is kept.
    Loading,
}

impl Place {
    /// Whether it exists somewhere and can be had when there is room.
    fn is_available(&self) -> bool {
        !matches!(self, Place::Absent | Place::Wanted(_))
    }

    fn is_in_memory(&self) -> bool {
        matches!(self, Place::Memory(_))
    }

    /// Whether it is not here, in memory or on disk.
    fn is_elsewhere(&self) -> bool {
        matches!(self, Place::Absent | Place::Wanted(_) | Place::Offered(_) | Place::Coming(_))
    }

    /// Whether it takes memory here, or has room kept.
    fn takes_room(&self) -> bool {
        matches!(self, Place::Memory(_) | Place::Spilling | Place::Loading | Place::Coming(_))
    }
}

/// What is known of a value.
#[derive(Debug, Default)]
struct Held {
    place: Place,
    bytes: u64,
    /// Bytes of it that may come unasked.
    granted: u64,
    /// Orders here, queued or begun, that read it.
    uses: u32,
    /// Those of them that have been begun.
    pins: u32,
    /// The rank that it came from, unless it was made here.
    from: Option<usize>,
    /// Whether it was made here, so that it stays until the master says that nobody needs it.
    is_origin: bool,
    /// Whether there is a copy on disk.
    is_on_disk: bool,
    /// Whether it is to go as soon as the disk is done with it.
    is_doomed: bool,
    /// Whether it was made here, and the master has said that nobody needs it.
    is_gone: bool,
    /// How often it was let go while it was being sent.
    copies: u32,
}

/// A value that is being sent to a rank.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    task: usize,
    to: usize,
    /// Which copy of the value is read from: how many had been let go before.
    copy: u32,
    bytes: u64,
    /// The number of the message, when there is one.
    number: Option<u64>,
}

/// One rank's state.
pub(super) struct Worker {
    rank: usize,
    graph: Arc<Graph>,
    settings: Settings,
    queue: BTreeMap<Key, Queued>,
    /// By task: its place in the queue.
    keys: Vec<Option<Key>>,
    /// Orders whose inputs are all in memory.
    ready: BTreeSet<Key>,
    /// Orders whose inputs are all there, somewhere.
    available: BTreeSet<Key>,
    /// By task: what it gives.
    values: Vec<Held>,
    /// Values in memory, when there is a limit.
    in_memory: BTreeSet<usize>,
    /// Ranks that wait for values which are to be made here, and how large these may be to be sent at once.
    wanted_by: HashMap<usize, Vec<(usize, u64)>>,
    /// Values that are on disk and are to be sent: task, rank.
    serving: VecDeque<(usize, usize)>,
    /// Bytes of values in memory, and of room kept for some.
    held: u64,
    /// Bytes that running tasks may take beside their inputs.
    working: u64,
    /// Bytes that may come unasked.
    granted: u64,
    /// Bytes of the largest value that was made here.
    largest: u64,
    /// What is being sent, where there is a limit.
    leaving: Vec<Leaving>,
    /// Bytes that are in memory only because they are being sent.
    leaving_bytes: u64,
    /// Ranks that have died: what is being sent to them never leaves.
    lost: BTreeSet<usize>,
    running: BTreeMap<usize, Running>,
    next_number: u64,
    report: Report,
    out: Vec<(usize, Content)>,
    /// On rank 0: what has come for the caller or the journal.
    kept: Vec<(usize, Value)>,
    /// Values whose copies on disk can go.
    forgotten: Vec<usize>,
    pub(super) totals: RankReport,
    trace: Trace,
}

/// A task that has been begun.
#[derive(Clone, Copy, Debug)]
struct Running {
    attempt: u32,
    /// Bytes beside its inputs.
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

    /// There is a log of events, and it is `now`.
    pub(super) fn set_time(&mut self, now: Duration) {
        self.trace.set_time(now);
    }

    /// What has happened, for the log of events.
    pub(super) fn take_events(&mut self) -> Vec<(Duration, Event)> {
        self.trace.holds(self.taken(), self.settings.budget);
        self.trace.take()
    }

    /// A try of a task has ended, for the log.
    fn note_ended(&mut self, ended: impl FnOnce(String) -> TaskEnded, task: usize) {
        self.trace.ended(task, || Event::TaskEnded(ended(self.graph.dag.name(task).to_string())));
    }

    /// The process of a command has started.
    pub(super) fn begins(&mut self, task: usize) {
        self.trace.begins(task);
    }

    /// The process of a command has ended; what it has written may still be on its way.
    pub(super) fn stops(&mut self, task: usize) {
        self.trace.stops(task);
    }

    /// User code has done a task.
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
            // Rank 0 gets it once.
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

    /// A value is here from now on, for all that read it.
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

    /// A task was done before this run, or by a rank that has died; what it gives is here for whoever needs it, also for those who have asked
    /// already.
    pub(super) fn on_given(&mut self, task: usize, value: Value) {
        let waiting = self.wanted_by.remove(&task).unwrap_or_default();
        self.own(task, value, waiting);
    }

    /// A value of `bytes` bytes that was in the journal is on disk now, for whoever needs it, as if it had been made here.
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

    /// User code has failed.
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

    /// A task runs no more.
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

    /// What is to be sent, and to whom.
    pub(super) fn take_messages(&mut self) -> Vec<(usize, Content)> {
        std::mem::take(&mut self.out)
    }

    /// On rank 0: what has come for the caller or the journal.
    pub(super) fn take_kept(&mut self) -> Vec<(usize, Value)> {
        std::mem::take(&mut self.kept)
    }

    /// Values whose copies on disk can go.
    pub(super) fn take_forgotten(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.forgotten)
    }

    /// What has been done since the last report.
    pub(super) fn take_report(&mut self) -> Report {
        std::mem::take(&mut self.report)
    }

    /// Tasks in the report that is due.
    pub(super) fn unreported(&self) -> usize {
        self.report.done.len() + self.report.failed.len() + self.report.returned.len()
    }

    /// What a task's processes may hold.
    pub(super) fn memory_limit(&self, task: usize, exceeded: u32) -> Option<u64> {
        self.graph.memory_limit(task, exceeded)
    }

    /// How long a try of a task may take.
    pub(super) fn time_limit(&self, task: usize) -> Option<Duration> {
        self.graph.needs(task).time_limit
    }

    /// The rank that has what a task has written, as far as is known here: the one from which its value came.
    pub(super) fn maker(&self, task: usize) -> usize {
        self.values[task].from.unwrap_or(self.rank)
    }

    /// A task's name.
    pub(super) fn name(&self, task: usize) -> &str {
        self.graph.dag.name(task)
    }

    /// Tasks that run.
    pub(super) fn running(&self) -> impl Iterator<Item = usize> + '_ {
        self.running.keys().copied()
    }
}
