//! Experiment on the makespans of the workflow planner HEFTM relative to those of HEFT, as in the paper of Kulagina et al. (2025), with all memory of
//! its default cluster and with a tenth of the memory.

use armature_papers::workflow::generate::Family;
use armature_papers::workflow::least_memory;
use armature_planner::workflow::{
    Cluster, Level, MemoryModel, Plan, TaskMemory, heft, heftm, heftm_in_order, heftm_relaxed, verify,
};

use super::super::instances::{Instance, generated, traced};
use super::geometric;
use crate::table::{Cell, digits};
use crate::verdict::Interval;
use crate::{Report, RunResult, Table, Target, TargetedValue};

const SIZES: [usize; 8] = [200, 1000, 2000, 4000, 8000, 10_000, 20_000, 30_000];
/// Numbers of independent copies of the workflow of a real run that are combined into one workflow. The smallest real
/// run has eleven tasks.
const COPIES: [usize; 4] = [1, 10, 100, 500];
/// Fraction of the largest processor's memory that the largest task needs in the runs with a tenth of the cluster's memory. With less memory, there
/// would be no plan.
const FILLED: f64 = 0.9;
const TENTH: f64 = 10.0;
/// Number of tasks from which the paper of Kulagina et al. (2025) counts a workflow as large.
const LARGE_WORKFLOW: usize = 2000;
/// Makespan of the better plan of HEFTM in the paper of Kulagina et al. (2025), in percent of HEFT's, for small and
/// for large workflows.
const PAPER: [f64; 2] = [113.0, 127.0];

const PLANNERS: [&str; 6] = ["HEFT", "BL", "BLC", "MM", "BL relaxed", "MM relaxed"];

pub(super) fn run(report: &mut Report, smoke: bool) -> RunResult {
    let mut instances = Vec::new();
    let (sizes, copies) = if smoke { (&SIZES[..1], &COPIES[..1]) } else { (&SIZES[..], &COPIES[..]) };
    for &tasks in sizes {
        for family in Family::ALL {
            instances.push(generated(family, tasks, 1, TaskMemory::IncludesIo)?);
        }
    }
    for &copies in copies {
        instances.extend(traced(copies)?);
    }
    let mut columns = vec!["memory", "workflow", "tasks"];
    columns.extend(PLANNERS);
    let mut table = Table::new(&columns);
    let mut valid = [[0_usize; PLANNERS.len()]; 2];
    let mut later: [Vec<f64>; 2] = Default::default();
    for instance in &instances {
        eprintln!("{}", instance.name);
        let tenth = instance.cluster_filled_to(FILLED)?;
        let whole = instance.scaled(&tenth, TENTH)?;
        for (number, (memory, cluster)) in [("all", &whole), ("a tenth", &tenth)].into_iter().enumerate() {
            let found = plans(instance, cluster);
            for (count, &(_, is_valid)) in valid[number].iter_mut().zip(&found) {
                *count += usize::from(is_valid);
            }
            let makespan = |at: usize| found[at].0;
            if memory == "all" && found[1].1 && found[2].1 {
                let ratio = makespan(1).min(makespan(2)) / makespan(0);
                later[usize::from(instance.workflow.len() >= LARGE_WORKFLOW)].push(ratio);
            }
            let shown = |&(makespan, is_valid): &(f64, bool)| -> Cell {
                if is_valid { format!("{makespan:.1}").into() } else { "-".into() }
            };
            let mut row: Vec<Cell> =
                vec![memory.into(), instance.name.as_str().into(), instance.workflow.len().into()];
            row.extend(found.iter().map(shown));
            table.row(row);
        }
    }
    report.table("lists", &table)?;
    let share = |count: usize| 100.0 * count as f64 / instances.len() as f64;
    let mut shares = Table::new(&["valid plans [%]", "all memory", "a tenth"]);
    for (number, name) in PLANNERS.into_iter().enumerate() {
        let [all, tenth] = valid.map(|counts| digits(share(counts[number]), 1));
        shares.row([name.into(), all, tenth]);
    }
    report.table("lists-valid", &shares)?;
    for number in 1..=3 {
        let what = format!("HEFTM-{}, valid", PLANNERS[number]);
        let interval = Interval::exact(share(valid[0][number]));
        report.mark(TargetedValue::new(&what, interval, "% of plans", Target::AtLeast(100.0)));
    }
    let interval = Interval::exact(share(valid[1][3]));
    report.mark(TargetedValue::new(
        "HEFTM-MM, a tenth, valid",
        interval,
        "% of plans",
        Target::AtLeast(100.0),
    ));
    for (ratios, (which, paper)) in later.iter().zip(["below", "from"].into_iter().zip(PAPER)) {
        let what = format!("best of BL and BLC, {which} {LARGE_WORKFLOW} tasks");
        report.mark(TargetedValue::new(&what, geometric(ratios), "% of HEFT", Target::AtMost(paper)));
    }
    Ok(())
}

/// Returns the makespan of each planner's plan, and true if the plan is valid (the memory of every processor suffices).
fn plans(instance: &Instance, cluster: &Cluster) -> Vec<(f64, bool)> {
    let Instance { workflow, task_memory, .. } = instance;
    let model = MemoryModel::new(*task_memory);
    let little = least_memory(workflow, workflow.topological_order(), model).order;
    let by_level = |level| heftm(workflow, cluster, level, *task_memory);
    let [bl, blc] = [Level::Bottom, Level::BottomWithInputs].map(by_level);
    let blind = heft(workflow, cluster, *task_memory);
    let plans = [
        bl,
        blc,
        heftm_in_order(workflow, cluster, &little, *task_memory),
        heftm_relaxed(workflow, cluster, &blind.sequence, *task_memory),
        heftm_relaxed(workflow, cluster, &little, *task_memory),
    ];
    let judged = |plan: &Plan| (plan.makespan, verify(workflow, cluster, plan).is_valid());
    let none = (f64::INFINITY, false);
    let found = plans.iter().map(|plan| plan.as_ref().map_or(none, judged));
    [judged(&blind)].into_iter().chain(found).collect()
}
