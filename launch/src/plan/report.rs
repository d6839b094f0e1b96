//! Prints the plan of a workflow as a table.

use std::fmt::Write;

use armature_planner::workflow::{Crossing, Execution, TaskMemory};
use armature_text::{line, shown};

use super::Planned;
use super::units::{bytes, percent, seconds};

/// Most processors without tasks that are listed by name; of more, only the number is printed.
const IDLE_LISTED: usize = 4;

pub(super) fn report(planned: &Planned, compare: bool) -> String {
    let Planned { workflow, cluster, best, name, platform } = planned;
    let plan = &best.plan;
    let mut text = String::new();
    let edges = workflow.edges().len();
    let _ = writeln!(
        text,
        "{}: {} tasks, {edges} edges, on {} of {} processors of {}",
        shown(name),
        workflow.len(),
        plan.used(),
        cluster.len(),
        line(platform)
    );
    let _ = writeln!(text, "makespan {} by {}", seconds(plan.makespan), best.planner);

    if plan.execution == Execution::Events {
        let _ = writeln!(
            text,
            "{} files sent ({}), {} evicted from memory ({})",
            plan.transfers.len(),
            bytes(plan.sent_bytes(workflow)),
            plan.evictions.len(),
            bytes(plan.evicted_bytes(workflow))
        );
    }
    text.push('\n');
    table(&mut text, planned);
    text.push('\n');
    certificate(&mut text, planned);
    if compare {
        text.push('\n');
        attempts(&mut text, planned);
    }
    text
}

fn table(text: &mut String, planned: &Planned) {
    let Planned { cluster, best, .. } = planned;
    let plan = &best.plan;
    let names = cluster.processors().iter().map(|processor| shown(&processor.name).chars().count());
    let width = names.max().unwrap_or(0).max("processor".len());
    let _ = writeln!(
        text,
        "{:<width$}  {:>8} {:>7} {:>6}  {:>10} {:>10} {:>6}",
        "processor", "speed", "tasks", "busy", "peak", "memory", "held"
    );
    let mut idle = plan.orders.iter().filter(|order| order.is_empty()).count();
    let listed = idle <= IDLE_LISTED;
    for (p, processor) in cluster.processors().iter().enumerate() {
        let order = &plan.orders[p];
        if order.is_empty() && !listed {
            continue;
        }
        let busy = order.iter().fold(0.0, |sum, &task| sum + plan.finish[task] - plan.start[task]);
        let peak = best.certificate.peak[p];
        let _ = writeln!(
            text,
            "{:<width$}  {:>8} {:>7} {:>6}  {:>10} {:>10} {:>6}",
            shown(&processor.name),
            processor.speed,
            order.len(),
            percent(busy, plan.makespan),
            bytes(peak),
            bytes(processor.memory),
            percent(peak as f64, processor.memory as f64),
        );
    }
    if listed {
        idle = 0;
    }
    if idle > 0 {
        let _ = writeln!(text, "{idle} more processors run no tasks");
    }
}

fn certificate(text: &mut String, planned: &Planned) {
    let certificate = &planned.best.certificate;
    let memory = match certificate.task_memory {
        TaskMemory::IncludesIo => "the memory of a task includes its files",
        _ => "the memory of a task is its own, with its files in addition",
    };
    let sending = match certificate.execution {
        Execution::Events => "files are sent when their producer ends",
        Execution::Blocks { crossing: Crossing::Transit } => {
            "blocks send when they are done; files between blocks count while they are read or written"
        }
        Execution::Blocks { crossing: Crossing::Resident } => {
            "blocks send when they are done; files between blocks count from the block's beginning to its end"
        }
    };
    let _ = writeln!(
        text,
        "verified: each task once and after its inputs; no processor exceeds its memory or its buffer.\n\
         This holds if {memory}, and {sending}."
    );
}

fn attempts(text: &mut String, planned: &Planned) {
    let best = &planned.best;
    let width =
        best.attempts.iter().map(|attempt| attempt.planner.to_string().chars().count()).max().unwrap_or(0);
    for attempt in &best.attempts {
        let makespan_text = match &attempt.makespan {
            Ok(makespan) => {
                format!("{:>14}  {:>6}", seconds(*makespan), percent(*makespan, best.plan.makespan))
            }
            Err(error) => format!("{:>14}  {}", "no plan", line(error.message())),
        };
        let planner = attempt.planner.to_string();
        let chosen = if attempt.planner == best.planner { "  chosen" } else { "" };
        let _ = writeln!(text, "{planner:<width$}  {makespan_text}{chosen}");
    }
}
