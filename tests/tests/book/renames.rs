//! Places of the glossary that code which is still being renamed has under its former name.

/// The glossary's place, and the file that has it until it is renamed. A line whose second file is gone can go, too.
pub(crate) const UNTIL_RENAMED: &[(&str, &str)] = &[
    ("rank/heartbeat", "comm/liveness.rs"),
    ("pipeline/coordinator", "pipeline/conductor.rs"),
    ("balance/controller", "pipeline/tuning.rs"),
    ("pipeline/performance_model", "pipeline/balancer.rs"),
    ("pipeline/remap_cost", "pipeline/cost.rs"),
    ("pipeline/steal_time", "pipeline/core_time.rs"),
    ("pipeline/core_sharing", "pipeline/cores.rs"),
    ("pipeline/stage_host", "pipeline/workshop.rs"),
    ("farm/task_runner", "farm/workbench.rs"),
    ("pipeline/dispatcher", "pipeline/machine/broker.rs"),
    ("farm/resequencer", "farm/order.rs"),
    ("pipeline/migration", "pipeline/machine/handover.rs"),
    ("farm/worker_table", "farm/machine/crew.rs"),
    ("farm/task_source", "farm/supply.rs"),
    ("farm/dispatch", "farm/giving.rs"),
    ("farm/replay", "farm/history.rs"),
];
