//! Writes the plan of a workflow as JSON, for scripts.

use serde_json::{Value, json};

use super::Planned;

/// Times in the plan are in seconds, memory in bytes; processors are numbers.
pub(super) fn json(planned: &Planned) -> String {
    let Planned { workflow, cluster, best, name, platform } = planned;
    let plan = &best.plan;
    let processors = cluster.processors().iter().enumerate().map(|(p, processor)| {
        json!({
            "name": processor.name, "speed": processor.speed, "memory": processor.memory, "buffer": processor.buffer,
            "tasks": plan.orders[p].iter().map(|&task| workflow.name(task)).collect::<Vec<_>>(),
            "peak": best.certificate.peak[p], "buffer_peak": best.certificate.buffer_peak[p],
        })
    });
    let tasks = (0..workflow.len()).map(|task| {
        json!({
            "name": workflow.name(task), "processor": plan.processor_of[task],
            "start": plan.start[task], "finish": plan.finish[task],
        })
    });
    let attempts = best.attempts.iter().map(|attempt| match &attempt.makespan {
        Ok(makespan) => json!({ "planner": attempt.planner.to_string(), "makespan": makespan }),
        Err(error) => json!({ "planner": attempt.planner.to_string(), "infeasible": error.message() }),
    });
    let edge = |number: usize| {
        let edge = workflow.edges()[number];
        json!({ "from": workflow.name(edge.from), "to": workflow.name(edge.to), "size": edge.size })
    };
    let transfers = plan.transfers.iter().map(|transfer| {
        json!({
            "file": edge(transfer.edge), "start": transfer.start, "finish": transfer.finish, "to_buffer": transfer.to_buffer,
        })
    });
    let evictions = plan.evictions.iter().map(|eviction| {
        json!({
            "file": edge(eviction.edge), "at": eviction.at, "before": workflow.name(eviction.before),
        })
    });
    let value = json!({
        "workflow": name, "platform": platform, "planner": best.planner.to_string(), "makespan": plan.makespan,
        "execution": plan.execution, "task_memory": plan.task_memory, "verified": best.certificate.is_valid(),
        "processors": processors.collect::<Value>(), "tasks": tasks.collect::<Value>(),
        "transfers": transfers.collect::<Value>(), "evictions": evictions.collect::<Value>(),
        "attempts": attempts.collect::<Value>(),
    });
    format!("{value:#}\n")
}
