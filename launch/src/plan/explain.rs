//! Explains why a task of a workflow starts at its time in a plan.

use std::fmt::Write;

use armature_planner::workflow::{Edge, Execution};
use armature_text::{quoted, shown};

use super::Planned;
use super::units::{bytes, seconds};

/// Tolerance for comparisons of times, as a fraction of the makespan: the planner adds the times in another order, so that its sums are rounded
/// differently.
const ROUNDING: f64 = 1e-9;

pub(super) fn explain(planned: &Planned, task: usize) -> String {
    let Planned { workflow, cluster, best, .. } = planned;
    let plan = &best.plan;
    let p = plan.processor_of[task];
    let processor = &cluster.processors()[p];
    let (start, finish) = (plan.start[task], plan.finish[task]);
    let mut text = String::new();
    let name = |task: usize| quoted(workflow.name(task));
    let _ = writeln!(
        text,
        "{} runs on {} from {} to {}.",
        name(task),
        shown(&processor.name),
        seconds(start),
        seconds(finish)
    );
    let same = |a: f64, b: f64| (a - b).abs() <= ROUNDING * plan.makespan;

    let arrivals: Vec<(f64, &Edge)> = workflow
        .input_numbers(task)
        .iter()
        .map(|&number| (arrival(planned, number), &workflow.edges()[number]))
        .collect();
    let ready = arrivals.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    match ready {
        None => text.push_str("It has no inputs from other tasks.\n"),
        Some((at, edge)) => {
            let from = plan.processor_of[edge.from];
            let way = match from == p {
                true => format!("which ends there at {}", seconds(plan.finish[edge.from])),
                false => format!(
                    "which ends on {} at {}, and whose {} are here at {}",
                    shown(&cluster.processors()[from].name),
                    seconds(plan.finish[edge.from]),
                    bytes(edge.size),
                    seconds(*at)
                ),
            };
            let _ = writeln!(
                text,
                "The last of its {} inputs comes from {}, {way}.",
                arrivals.len(),
                name(edge.from)
            );
        }
    }
    let order = &plan.orders[p];
    let before =
        order.iter().position(|&other| other == task).and_then(|at| at.checked_sub(1)).map(|at| order[at]);
    if let Some(before) = before {
        let _ = writeln!(
            text,
            "The previous task of {} is {}, until {}.",
            shown(&processor.name),
            name(before),
            seconds(plan.finish[before])
        );
    }
    let ready = ready.map_or(0.0, |(at, _)| *at);
    let free = before.map_or(0.0, |before| plan.finish[before]);
    let reason = match plan.execution {
        _ if same(start, 0.0) => "It waits for nothing.".to_string(),
        _ if same(start, ready) && ready >= free => "It waits for that input.".to_string(),
        _ if same(start, free) => format!("It waits for {}.", shown(&processor.name)),
        Execution::Blocks { .. } => {
            format!("It waits until all inputs of the block of {} have arrived.", shown(&processor.name))
        }
        Execution::Events => "It waits for memory.".to_string(),
    };
    let _ = writeln!(text, "{reason}");
    let needs = workflow.requirement(task, plan.task_memory);
    let _ = writeln!(
        text,
        "Memory: it needs {} of {}; it has {}, reads {} and writes {}.",
        bytes(needs),
        bytes(processor.memory),
        bytes(workflow.memory(task)),
        bytes(workflow.input_size(task)),
        bytes(workflow.output_size(task)),
    );
    let evicted: Vec<&Edge> = plan
        .evictions
        .iter()
        .filter(|eviction| eviction.before == task)
        .map(|eviction| &workflow.edges()[eviction.edge])
        .collect();
    for edge in evicted {
        let _ = writeln!(
            text,
            "Before that, the {} from {} to {} are evicted from memory.",
            bytes(edge.size),
            name(edge.from),
            name(edge.to)
        );
    }
    text
}

fn arrival(planned: &Planned, edge: usize) -> f64 {
    let (plan, edges) = (&planned.best.plan, planned.workflow.edges());
    let sent = plan.transfers.iter().find(|transfer| transfer.edge == edge);
    sent.map_or(plan.finish[edges[edge].from], |transfer| transfer.finish)
}
