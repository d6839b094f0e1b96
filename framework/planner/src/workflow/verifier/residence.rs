//! Check that memories and buffers are large enough for all files over time, in a plan whose files are sent as soon as they are written.

use super::case::{Case, Origin};
use super::steps::{Stairs, add_step};
use super::times::file;
use super::verification::{Rule, Verification};
use crate::workflow::cluster::Cluster;
use crate::workflow::graph::{Edge, Workflow};
use crate::workflow::plan::{Eviction, Plan, Transfer};

/// Point in time of a plan: the seconds, and the position in the order of the processor's events at these seconds.
type When = (f64, usize);

struct Change {
    at: When,
    bytes: i128,
    /// Task that starts at this time and reserves the bytes; `None` for the other changes, which are due to a file or the end of a task.
    task: Option<usize>,
}

/// All changes of the bytes in the memories and buffers. Changes of buffers are ordered by time alone, because one file may replace another at the
/// same time.
struct Changes<'a> {
    plan: &'a Plan,
    /// For each task, its position among the tasks of its processor.
    place: Vec<usize>,
    memory: Vec<Vec<Change>>,
    buffer: Vec<Vec<(f64, i128)>>,
}

/// Kinds of events of one task at one time, in their order. The events of a task come after all events of the previous task on the processor.
#[derive(Clone, Copy)]
enum Phase {
    MakesRoom,
    Arrives,
    Starts,
    Ends,
}

/// Order number, among events at the same time, of the departure of a file to another processor: it comes before the events of all tasks.
const LEAVES: usize = 0;

pub(super) fn check(case: Case<'_>, verification: &mut Verification) {
    let Case { graph, cluster, .. } = case;
    let mut changes = changes(case, verification);
    for p in 0..cluster.len() {
        judge_memory(graph, cluster, p, &mut changes.memory[p], verification);
        check_buffer(cluster, p, &mut changes.buffer[p], verification);
    }
}

pub(super) fn staircase(case: Case<'_>, verification: &mut Verification) -> Vec<Stairs> {
    let of_one = |mut changes: Vec<Change>| {
        in_order(&mut changes);
        let (mut held, mut stairs) = (0_i128, Stairs::new());
        for change in changes {
            held += change.bytes;
            add_step(&mut stairs, change.at.0, u64::try_from(held).unwrap_or(0));
        }
        stairs
    };
    changes(case, verification).memory.into_iter().map(of_one).collect()
}

fn changes<'a>(case: Case<'a>, verification: &mut Verification) -> Changes<'a> {
    let Case { graph, plan, .. } = case;
    let mut changes = Changes::new(graph, plan);
    for task in (0..graph.len()).filter(|&task| !case.is_started(task)) {
        let needs = i128::from(graph.requirement(task, plan.task_memory));
        let starts = (plan.start[task], changes.rank(task, Phase::Starts));
        let ends = (plan.finish[task], changes.rank(task, Phase::Ends));
        let memory = &mut changes.memory[plan.processor_of[task]];
        memory.push(Change { at: starts, bytes: needs, task: Some(task) });
        memory.push(Change { at: ends, bytes: -needs, task: None });
    }
    let (sent, evicted) = movements(case, &changes, verification);
    for (number, edge) in graph.edges().iter().enumerate() {
        let Some(origin) = case.origin(number) else { continue };
        changes.lies_at_sender(edge, origin, sent[number], evicted[number]);
        if let Some(transfer) = sent[number] {
            changes.lies_at_receiver(edge.to, edge.size, transfer);
        }
    }
    changes
}

/// Returns the transfer and the eviction of each file in the plan, if it has one. Reports invalid evictions.
fn movements<'a>(
    case: Case<'a>,
    changes: &Changes<'_>,
    verification: &mut Verification,
) -> (Vec<Option<&'a Transfer>>, Vec<Option<&'a Eviction>>) {
    let Case { graph, plan, .. } = case;
    let mut sent = vec![None; graph.edges().len()];
    for transfer in &plan.transfers {
        sent[transfer.edge] = Some(transfer);
    }
    let mut evicted: Vec<Option<&Eviction>> = vec![None; graph.edges().len()];
    for eviction in &plan.evictions {
        let name = || file(graph, eviction.edge);
        let origin = case.origin(eviction.edge).filter(|origin| !origin.in_buffer);
        if origin.is_none_or(|origin| !changes.is_there(case, eviction, origin)) {
            let before = graph.name(eviction.before);
            let message =
                format!("{} is evicted at {} for {before:?}, but is not in memory then", name(), eviction.at);
            verification.add(Rule::Buffer, message);
        } else if evicted[eviction.edge].replace(eviction).is_some() {
            verification.add(Rule::Buffer, format!("{} is evicted more than once", name()));
        }
    }
    (sent, evicted)
}

impl<'a> Changes<'a> {
    fn new(graph: &Workflow, plan: &'a Plan) -> Self {
        let mut place = vec![0; graph.len()];
        for order in &plan.orders {
            for (number, &task) in order.iter().enumerate() {
                place[task] = number;
            }
        }
        let memory = plan.orders.iter().map(|_| Vec::new()).collect();
        Changes { plan, place, memory, buffer: vec![Vec::new(); plan.orders.len()] }
    }

    fn rank(&self, task: usize, phase: Phase) -> usize {
        let phases = Phase::Ends as usize + 1;
        LEAVES + 1 + self.place[task] * phases + phase as usize
    }

    fn appears(&self, edge: &Edge, origin: Origin) -> When {
        // On the processor of its writer the file appears after the writer has ended. A file of a task that ran before replanning may be on another
        // processor; there it appears before the events of all tasks.
        let is_writer = !origin.in_buffer && self.plan.processor_of[edge.from] == origin.processor;
        (origin.from, if is_writer { self.rank(edge.from, Phase::Ends) } else { LEAVES })
    }

    /// Returns true if a file is in memory at the time of its eviction, and the eviction is before the start of the task for which it frees memory.
    fn is_there(&self, case: Case<'_>, eviction: &Eviction, origin: Origin) -> bool {
        let Eviction { edge, at, before } = *eviction;
        self.appears(&case.graph.edges()[edge], origin) < (at, self.rank(before, Phase::MakesRoom))
            && self.plan.processor_of[before] == origin.processor
            && !case.is_started(before)
            && at <= self.plan.start[before]
    }

    /// Adds the memory and buffer use of a file on the processor where it was written: the file is in memory until its reader starts or its transfer
    /// has ended. If it is evicted, it is in the buffer from then on.
    fn lies_at_sender(
        &mut self,
        edge: &Edge,
        origin: Origin,
        sent: Option<&Transfer>,
        evicted: Option<&Eviction>,
    ) {
        let (p, bytes) = (origin.processor, i128::from(edge.size));
        let appears = self.appears(edge, origin);
        let end = match sent {
            Some(transfer) => (transfer.finish, LEAVES),
            None => (self.plan.start[edge.to], self.rank(edge.to, Phase::Starts)),
        };
        if origin.in_buffer {
            self.buffer(p, appears, end, bytes);
            return;
        }
        let moves = evicted.map(|eviction| (eviction.at, self.rank(eviction.before, Phase::MakesRoom)));
        let leaves = moves.filter(|&moves| moves < end).unwrap_or(end);
        self.memory(p, appears, leaves, bytes);
        self.buffer(p, leaves, end, bytes);
    }

    /// Adds the memory or buffer use of a file on the processor of its reader: the file is there from the beginning of the transfer until the reader
    /// starts.
    fn lies_at_receiver(&mut self, to: usize, size: u64, transfer: &Transfer) {
        let p = self.plan.processor_of[to];
        let arrives = (transfer.start, self.rank(to, Phase::Arrives));
        let starts = (self.plan.start[to], self.rank(to, Phase::Starts));
        match transfer.to_buffer {
            true => self.buffer(p, arrives, starts, i128::from(size)),
            false => self.memory(p, arrives, starts, i128::from(size)),
        }
    }

    fn memory(&mut self, p: usize, from: When, to: When, bytes: i128) {
        if from < to {
            let change = |at, bytes| Change { at, bytes, task: None };
            self.memory[p].extend([change(from, bytes), change(to, -bytes)]);
        }
    }

    fn buffer(&mut self, p: usize, from: When, to: When, bytes: i128) {
        if from.0 < to.0 {
            self.buffer[p].extend([(from.0, bytes), (to.0, -bytes)]);
        }
    }
}

fn in_order(changes: &mut [Change]) {
    // At the same point in time decreases of memory come before increases, because the memory of a task includes the files that it reads.
    changes.sort_by(|a, b| a.at.0.total_cmp(&b.at.0).then((a.at.1, a.bytes).cmp(&(b.at.1, b.bytes))));
}

fn judge_memory(
    graph: &Workflow,
    cluster: &Cluster,
    p: usize,
    changes: &mut [Change],
    verification: &mut Verification,
) {
    in_order(changes);
    let capacity = i128::from(cluster.processors()[p].memory);
    let (mut held, mut peak) = (0_i128, 0);
    // Name of the task that is running or ran last, for a message; `None` once a message has named this task, because a task is named only once.
    let mut last = Some("no task so far".into());
    for change in changes {
        held += change.bytes;
        peak = peak.max(held);
        if let Some(task) = change.task {
            last = Some(format!("task {:?}", graph.name(task)));
        }
        if change.bytes > 0
            && held > capacity
            && let Some(with) = last.take()
        {
            let message =
                format!("processor {p} holds {held} at {} with {with}, but has {capacity}", change.at.0);
            verification.add(Rule::Memory, message);
        }
    }
    verification.peak[p] = u64::try_from(peak).unwrap_or(u64::MAX);
}

fn check_buffer(cluster: &Cluster, p: usize, changes: &mut [(f64, i128)], verification: &mut Verification) {
    changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let capacity = i128::from(cluster.processors()[p].buffer);
    let (mut held, mut peak, mut peak_at) = (0, 0, 0.0);
    for &mut (at, bytes) in changes {
        held += bytes;
        if held > peak {
            (peak, peak_at) = (held, at);
        }
    }
    if peak > capacity {
        let message = format!("the buffer of processor {p} holds {peak} at {peak_at}, but has {capacity}");
        verification.add(Rule::Buffer, message);
    }
    verification.buffer_peak[p] = u64::try_from(peak).unwrap_or(u64::MAX);
}
