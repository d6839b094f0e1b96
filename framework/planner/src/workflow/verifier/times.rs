//! Check of the times of tasks and transfers in a workflow plan whose files are sent as soon as they are written.

use std::collections::HashMap;

use super::case::Case;
use super::verification::{Rule, Verification, near};
use crate::workflow::graph::Workflow;
use crate::workflow::plan::Transfer;

pub(super) fn check(case: Case<'_>, verification: &mut Verification) {
    verification.makespan = case.plan.finish.iter().copied().fold(0.0, f64::max);
    check_tasks(case, verification);
    check_disks(case, verification);
    let is_copy = copies(case);
    check_transfers(case, &is_copy, verification);
    check_channels(case, &is_copy, verification);
}

/// Returns true for each edge whose transfer needs no time, because its task writes one value for all readers, and the value was sent to the same
/// processor before.
fn copies(case: Case<'_>) -> Vec<bool> {
    let Case { graph, plan, .. } = case;
    let mut is_copy = vec![false; graph.edges().len()];
    if !graph.has_one_value_a_task() {
        return is_copy;
    }
    let key = |transfer: &Transfer| {
        let edge = &graph.edges()[transfer.edge];
        (edge.from, plan.processor_of[edge.to])
    };
    let mut first: HashMap<(usize, usize), &Transfer> = HashMap::new();
    for transfer in &plan.transfers {
        let first = first.entry(key(transfer)).or_insert(transfer);
        if (transfer.start, transfer.edge) < (first.start, first.edge) {
            *first = transfer;
        }
    }
    for transfer in &plan.transfers {
        let first = first[&key(transfer)];
        is_copy[transfer.edge] = first.edge != transfer.edge && first.finish <= transfer.start;
    }
    is_copy
}

/// Checks that each task runs for the time that its work takes, after the previous task on its processor.
fn check_tasks(case: Case<'_>, verification: &mut Verification) {
    let Case { graph, cluster, plan, .. } = case;
    for (p, order) in plan.orders.iter().enumerate() {
        let mut free = 0.0;
        for &task in order {
            let (start, finish) = (plan.start[task], plan.finish[task]);
            let name = graph.name(task);
            let takes = graph.work(task) / cluster.processors()[p].speed;
            if !case.is_started(task) && !near(finish - start, takes, verification.makespan) {
                let message =
                    format!("task {name:?} takes {takes} s, but is to run from {start} to {finish}");
                verification.add(Rule::Time, message);
            }
            if !case.is_started(task) && start < free {
                let message =
                    format!("task {name:?} starts at {start}, but processor {p} is busy until {free}");
                verification.add(Rule::Time, message);
            }
            free = finish.max(free);
        }
    }
}

/// Checks that a processor has the time to write evicted files to its buffer after the previous task, and to read them back before a task starts.
fn check_disks(case: Case<'_>, verification: &mut Verification) {
    let Case { graph, cluster, plan, situation } = case;
    let (mut written, mut is_evicted) = (vec![0; graph.len()], vec![false; graph.edges().len()]);
    for eviction in &plan.evictions {
        written[eviction.before] += graph.edges()[eviction.edge].size;
        is_evicted[eviction.edge] = true;
    }
    // For each file, the time from which the task that reads it can read it.
    let mut there = vec![0.0; graph.edges().len()];
    for (number, there) in there.iter_mut().enumerate() {
        let Some(origin) = case.origin(number) else { continue };
        *there = origin.from;
        is_evicted[number] |= origin.in_buffer;
    }
    for transfer in &plan.transfers {
        there[transfer.edge] = transfer.finish;
        is_evicted[transfer.edge] = false;
    }
    let mut room = vec![situation.now; graph.len()];
    for order in &plan.orders {
        let mut free = situation.now;
        for &task in order {
            room[task] = free + cluster.disk_time(written[task]);
            free = free.max(plan.finish[task]);
        }
    }
    for eviction in &plan.evictions {
        let (at, from) = (eviction.at, room[eviction.before]);
        if at < from && !near(at, from, verification.makespan) {
            let (file, before) = (file(graph, eviction.edge), graph.name(eviction.before));
            let message = format!("{file} is evicted at {at}, but {before:?} evicts files until {from}");
            verification.add(Rule::Time, message);
        }
    }
    for task in (0..graph.len()).filter(|&task| !case.is_started(task)) {
        let inputs = graph.input_numbers(task);
        let ready = inputs.iter().map(|&file| there[file]).fold(room[task], f64::max);
        let back =
            inputs.iter().filter(|&&file| is_evicted[file]).map(|&file| graph.edges()[file].size).sum();
        let (start, from) = (plan.start[task], ready + cluster.disk_time(back));
        if back > 0 && start < from && !near(start, from, verification.makespan) {
            let name = graph.name(task);
            let message =
                format!("task {name:?} starts at {start}, but its files in the buffer are read until {from}");
            verification.add(Rule::Time, message);
        }
    }
}

/// Checks that each file for another processor is sent once, after it was written and before its reader starts.
fn check_transfers(case: Case<'_>, is_copy: &[bool], verification: &mut Verification) {
    let Case { graph, cluster, plan, .. } = case;
    let mut sent = vec![None; graph.edges().len()];
    for transfer in &plan.transfers {
        if sent[transfer.edge].replace(transfer).is_some() {
            verification
                .add(Rule::Transfer, format!("{} is sent more than once", file(graph, transfer.edge)));
        }
    }
    for (number, edge) in graph.edges().iter().enumerate() {
        let name = || file(graph, number);
        let Some(origin) = case.origin(number) else {
            if sent[number].is_some() || !case.is_started(edge.to) {
                verification.add(
                    Rule::Transfer,
                    format!("{} has no location, or is on its reader's processor already", name()),
                );
            }
            continue;
        };
        let (from, to) = (origin.processor, plan.processor_of[edge.to]);
        let (written, read) = (origin.from, plan.start[edge.to]);
        let fault = match sent[number] {
            None if from != to => format!("{} is not sent from processor {from} to {to}", name()),
            Some(_) if from == to => format!("{} is sent, but stays on processor {from}", name()),
            None if read < written => {
                verification
                    .add(Rule::Order, format!("{} is read at {read}, but written at {written}", name()));
                continue;
            }
            None => continue,
            Some(transfer) => {
                let takes = if is_copy[number] { 0.0 } else { cluster.transfer_time(from, to, edge.size) };
                let (start, finish) = (transfer.start, transfer.finish);
                if start < written {
                    format!("{} is sent at {start}, but written at {written}", name())
                } else if read < finish {
                    format!("{} is read at {read}, but arrives at {finish}", name())
                } else if !near(finish - start, takes, verification.makespan) {
                    format!(
                        "the transfer of {} takes {takes} s, but is planned from {start} to {finish}",
                        name()
                    )
                } else {
                    continue;
                }
            }
        };
        verification.add(Rule::Transfer, fault);
    }
}

/// Checks that the channel between each pair of processors carries one file at a time.
fn check_channels(case: Case<'_>, is_copy: &[bool], verification: &mut Verification) {
    let Case { graph, plan, .. } = case;
    let channel = |edge: usize| {
        case.origin(edge).map(|origin| (origin.processor, plan.processor_of[graph.edges()[edge].to]))
    };
    let sent = plan.transfers.iter().filter(|transfer| !is_copy[transfer.edge]);
    let mut transfers: Vec<_> = sent.map(|transfer| (channel(transfer.edge), transfer)).collect();
    transfers.sort_by(|(a, first), (b, second)| {
        let times = first.start.total_cmp(&second.start).then(first.finish.total_cmp(&second.finish));
        a.cmp(b).then(times)
    });
    for pair in transfers.windows(2) {
        let [(channel, first), (other, second)] = [pair[0], pair[1]];
        if channel == other && second.start < first.finish {
            let message = format!(
                "{} is sent at {}, but the channel is busy until {} with {}",
                file(graph, second.edge),
                second.start,
                first.finish,
                file(graph, first.edge)
            );
            verification.add(Rule::Transfer, message);
        }
    }
}

pub(super) fn file(graph: &Workflow, edge: usize) -> String {
    let edge = &graph.edges()[edge];
    format!("the file from {:?} to {:?}", graph.name(edge.from), graph.name(edge.to))
}
