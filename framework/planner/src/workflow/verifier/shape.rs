//! Check that a workflow plan is complete, and that its tasks, files and processors exist.

use super::case::Case;
use super::verification::{Rule, Verification};

pub(super) fn check(case: Case<'_>, verification: &mut Verification) {
    let Case { graph, cluster, plan, .. } = case;
    let (tasks, count) = (graph.len(), cluster.len());
    for (what, length, expected) in [
        ("processors of tasks", plan.processor_of.len(), tasks),
        ("starts", plan.start.len(), tasks),
        ("ends", plan.finish.len(), tasks),
        ("orders", plan.orders.len(), count),
        ("tasks in its sequence", plan.sequence.len(), tasks),
        ("peaks", plan.peak.len(), count),
    ] {
        if length != expected {
            verification.add(Rule::Shape, format!("the plan has {length} {what}, but must have {expected}"));
        }
    }
    if !verification.is_valid() {
        return;
    }
    let mut seen = vec![false; tasks];
    for (p, order) in plan.orders.iter().enumerate() {
        for &task in order {
            if task >= tasks {
                verification
                    .add(Rule::Shape, format!("processor {p} runs task {task}, but there are {tasks}"));
            } else if std::mem::replace(&mut seen[task], true) {
                verification.add(Rule::Shape, format!("task {:?} runs more than once", graph.name(task)));
            } else if plan.processor_of[task] != p {
                let recorded = plan.processor_of[task];
                let name = graph.name(task);
                verification.add(
                    Rule::Shape,
                    format!("task {name:?} is on processor {recorded}, but {p} is to run it"),
                );
            }
        }
    }
    for task in (0..tasks).filter(|&task| !seen[task]) {
        verification.add(Rule::Shape, format!("task {:?} is never run", graph.name(task)));
    }
    check_sequence(case, verification);
    for (task, (&start, &finish)) in plan.start.iter().zip(&plan.finish).enumerate() {
        if !(start >= 0.0 && start <= finish && finish.is_finite()) {
            verification.add(
                Rule::Shape,
                format!("task {:?} is to run from {start} to {finish}, which are no times", graph.name(task)),
            );
        }
    }
    let files = graph.edges().len();
    let named = plan.transfers.iter().map(|transfer| transfer.edge);
    for edge in named.chain(plan.evictions.iter().map(|eviction| eviction.edge)) {
        if edge >= files {
            verification.add(Rule::Shape, format!("the plan names edge {edge}, but there are {files}"));
        }
    }
    for before in plan.evictions.iter().map(|eviction| eviction.before).filter(|&before| before >= tasks) {
        let message = format!("the plan evicts a file before task {before}, but there are {tasks}");
        verification.add(Rule::Shape, message);
    }
    let moments = plan.transfers.iter().flat_map(|transfer| [transfer.start, transfer.finish]);
    for at in moments.chain(plan.evictions.iter().map(|eviction| eviction.at)) {
        if !(at >= 0.0 && at.is_finite()) {
            verification.add(Rule::Shape, format!("a file is to move at {at}, which is no time"));
        }
    }
}

/// Checks that the sequence of all tasks agrees with the orders of the processors, and that each task comes after those from which it reads.
fn check_sequence(case: Case<'_>, verification: &mut Verification) {
    let Case { graph, plan, .. } = case;
    let mut next = vec![0; plan.orders.len()];
    let mut placed = vec![false; graph.len()];
    for &task in &plan.sequence {
        let expected = plan.processor_of.get(task).and_then(|&p| {
            let place = next.get_mut(p)?;
            *place += 1;
            plan.orders[p].get(*place - 1)
        });
        if expected != Some(&task) {
            let message = format!("the sequence has task {task} where its processor has another, or none");
            verification.add(Rule::Order, message);
            return;
        }
        placed[task] = true;
        // Started tasks are not checked, because a started task may have read from a task that must run again for other readers.
        if !case.is_started(task)
            && let Some(edge) = graph.inputs(task).find(|edge| !placed[edge.from])
        {
            let (early, parent) = (graph.name(task), graph.name(edge.from));
            verification.add(
                Rule::Order,
                format!("the sequence has {early:?} before {parent:?}, from which it reads"),
            );
        }
    }
}
