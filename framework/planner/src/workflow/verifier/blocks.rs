//! Check of a workflow plan in which each processor runs one block of tasks, with its makespan and peak memory.

use super::steps::{Stairs, add_step};
use super::verification::{Rule, Verification, near};
use crate::workflow::cluster::Cluster;
use crate::workflow::graph::Workflow;
use crate::workflow::memory::Crossing;
use crate::workflow::plan::Plan;

pub(super) fn check(
    graph: &Workflow,
    cluster: &Cluster,
    plan: &Plan,
    crossing: Crossing,
    verification: &mut Verification,
) {
    if !plan.transfers.is_empty() || !plan.evictions.is_empty() {
        verification
            .add(Rule::Shape, "a plan of blocks has no times of single files, but this plan has".into());
    }
    let place = places(graph, plan);
    for edge in graph.edges() {
        let same = plan.processor_of[edge.from] == plan.processor_of[edge.to];
        if same && place[edge.from] > place[edge.to] {
            let (from, to) = (graph.name(edge.from), graph.name(edge.to));
            verification
                .add(Rule::Order, format!("task {to:?} reads from {from:?}, but is to run before it"));
        }
    }
    check_times(graph, cluster, plan, verification);
    for (p, order) in plan.orders.iter().enumerate() {
        check_memory(graph, cluster, plan, crossing, (p, order, &place), verification);
    }
}

fn places(graph: &Workflow, plan: &Plan) -> Vec<usize> {
    let mut place = vec![0; graph.len()];
    for order in &plan.orders {
        for (number, &task) in order.iter().enumerate() {
            place[task] = number;
        }
    }
    place
}

pub(super) fn staircase(graph: &Workflow, plan: &Plan, crossing: Crossing) -> Vec<Stairs> {
    let place = places(graph, plan);
    let of_one = |(p, order): (usize, &Vec<usize>)| {
        let mut stairs = Stairs::new();
        walk(graph, plan, crossing, (p, order, &place), |task, held, resident_inputs| {
            add_step(&mut stairs, plan.start[task], u64::try_from(held).unwrap_or(u64::MAX));
            add_step(&mut stairs, plan.finish[task], u64::try_from(resident_inputs).unwrap_or(u64::MAX));
        });
        stairs
    };
    plan.orders.iter().enumerate().map(of_one).collect()
}

/// Returns the messages that one block sends to others: receiving processors with the total size of the files.
fn messages(graph: &Workflow, plan: &Plan, order: &[usize]) -> Vec<(usize, u64)> {
    let mut files: Vec<(usize, u64)> = order
        .iter()
        .flat_map(|&task| graph.outputs(task))
        .map(|edge| (plan.processor_of[edge.to], edge.size))
        .filter(|&(receiver, _)| plan.processor_of[order[0]] != receiver)
        .collect();
    files.sort_unstable();
    files.dedup_by(|next, sum| {
        let same = next.0 == sum.0;
        if same {
            sum.1 += next.1;
        }
        same
    });
    files
}

fn check_times(graph: &Workflow, cluster: &Cluster, plan: &Plan, verification: &mut Verification) {
    let messages: Vec<_> = plan.orders.iter().map(|order| messages(graph, plan, order)).collect();
    let mut missing = vec![0; cluster.len()];
    for &(receiver, _) in messages.iter().flatten() {
        missing[receiver] += 1;
    }
    let mut ready: Vec<usize> = (0..cluster.len()).filter(|&p| missing[p] == 0).collect();
    let mut begins = vec![0.0_f64; cluster.len()];
    let mut start = vec![0.0; graph.len()];
    let mut done = 0;
    while let Some(p) = ready.pop() {
        done += 1;
        let mut now = begins[p];
        for &task in &plan.orders[p] {
            start[task] = now;
            now += graph.work(task) / cluster.processors()[p].speed;
        }
        verification.makespan = verification.makespan.max(now);
        for &(receiver, size) in &messages[p] {
            begins[receiver] = begins[receiver].max(now + cluster.transfer_time(p, receiver, size));
            missing[receiver] -= 1;
            if missing[receiver] == 0 {
                ready.push(receiver);
            }
        }
    }
    if done < cluster.len() {
        let circle: Vec<String> =
            (0..cluster.len()).filter(|&p| missing[p] > 0).map(|p| p.to_string()).collect();
        let message = format!("the blocks of processors {} wait for one another", circle.join(", "));
        verification.add(Rule::Order, message);
        return;
    }
    for (task, &start) in start.iter().enumerate() {
        let finish = start + graph.work(task) / cluster.processors()[plan.processor_of[task]].speed;
        let recorded = (plan.start[task], plan.finish[task]);
        if !near(recorded.0, start, verification.makespan) || !near(recorded.1, finish, verification.makespan)
        {
            let name = graph.name(task);
            let message =
                format!("task {name:?} runs from {start} to {finish}, but the plan says {recorded:?}");
            verification.add(Rule::Time, message);
        }
    }
}

fn check_memory(
    graph: &Workflow,
    cluster: &Cluster,
    plan: &Plan,
    crossing: Crossing,
    block: (usize, &[usize], &[usize]),
    verification: &mut Verification,
) {
    let p = block.0;
    let capacity = u128::from(cluster.processors()[p].memory);
    let mut peak = 0;
    walk(graph, plan, crossing, block, |task, held, _| {
        peak = peak.max(held);
        if held > capacity {
            let name = graph.name(task);
            let message = format!("processor {p} holds {held} with task {name:?}, but has {capacity}");
            verification.add(Rule::Memory, message);
        }
    });
    verification.peak[p] = u64::try_from(peak).unwrap_or(u64::MAX);
}

/// Passes over the tasks of a block in order. Calls `record` for each, with the bytes in memory while the task runs, and the bytes after its end.
fn walk(
    graph: &Workflow,
    plan: &Plan,
    crossing: Crossing,
    (p, order, place): (usize, &[usize], &[usize]),
    mut record: impl FnMut(usize, u128, u128),
) {
    let inside = |task: usize| plan.processor_of[task] == p;
    let resident = crossing == Crossing::Resident;
    let outside_inputs = order.iter().flat_map(|&task| graph.inputs(task)).filter(|edge| !inside(edge.from));
    let mut resident_inputs: u128 =
        if resident { outside_inputs.map(|edge| u128::from(edge.size)).sum() } else { 0 };
    for &task in order {
        for edge in graph.inputs(task) {
            let counted = if inside(edge.from) { place[edge.from] < place[task] } else { resident };
            resident_inputs -= if counted { u128::from(edge.size) } else { 0 };
        }
        let held = resident_inputs + u128::from(graph.requirement(task, plan.task_memory));
        for edge in graph.outputs(task) {
            let counted = if inside(edge.to) { place[edge.to] > place[task] } else { resident };
            resident_inputs += if counted { u128::from(edge.size) } else { 0 };
        }
        record(task, held, resident_inputs);
    }
}
