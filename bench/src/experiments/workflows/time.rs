//! Experiment: time that each planner alone, and all planners together with local search, take to plan a workflow.

use std::time::Instant;

use armature_papers::workflow::generate::Family;
use armature_papers::workflow::{DagHetPart, dag_het_mem, dag_het_part, least_memory, plan_with_blocks};
use armature_planner::workflow::{
    Cluster, Level, MemoryModel, PlanOptions, TaskMemory, heftm, heftm_in_order,
};

use super::instances::{Instance, generated};
use crate::plot::Series;
use crate::table::Cell;
use crate::verdict::Interval;
use crate::{Experiment, Lines, Report, RunResult, Table, Target, TargetedValue};

pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "workflow-time",
    about: "time to plan workflows of 1000 to 30,000 tasks, with each planner and with all",
    needs: "nothing",
    run,
};

/// Numbers of tasks, each with the time limit in seconds for every planner.
const SIZES: [(usize, f64); 3] = [(1000, 1.0), (10_000, 10.0), (30_000, 60.0)];
/// Number of processors of each kind in the cluster of Kulagina et al. (2024).
const PROCESSORS_PER_KIND: usize = 6;

/// Function that runs a planner and ignores whether the planner found a plan.
type Run = fn(&Instance, &Cluster);

const PLANNERS: [(&str, Run); 6] = [
    ("DagHetMem", |instance, cluster| {
        let _ = dag_het_mem(&instance.workflow, cluster, MODEL);
    }),
    ("DagHetPart, all partitions", |instance, cluster| {
        let _ = dag_het_part(&instance.workflow, cluster, MODEL, &DagHetPart::default());
    }),
    ("HEFTM-BL", |instance, cluster| {
        let _ = heftm(&instance.workflow, cluster, Level::Bottom, MODEL.task_memory);
    }),
    ("HEFTM-BLC", |instance, cluster| {
        let _ = heftm(&instance.workflow, cluster, Level::BottomWithInputs, MODEL.task_memory);
    }),
    ("HEFTM-MM", |instance, cluster| {
        let workflow = &instance.workflow;
        let order = least_memory(workflow, workflow.topological_order(), MODEL).order;
        let _ = heftm_in_order(workflow, cluster, &order, MODEL.task_memory);
    }),
    ("all, with local search", |instance, cluster| {
        let _ = plan_with_blocks(&instance.workflow, cluster, &PlanOptions::default());
    }),
];

const MODEL: MemoryModel = MemoryModel::new(TaskMemory::Additive);

fn run(report: &mut Report, smoke: bool) -> RunResult {
    if cfg!(debug_assertions) {
        report.note("built without optimisation: times say nothing");
    }
    let sizes = if smoke { &SIZES[..1] } else { &SIZES[..] };
    let mut columns = vec!["planner", "tasks"];
    let names = Family::ALL.map(|family| format!("{family:?} [s]"));
    columns.extend(names.iter().map(String::as_str));
    let mut table = Table::new(&columns);
    let mut plot = Lines::new("Time to plan, longest of seven families", "tasks", "[s]").log_x().log_y();
    for (planner, run) in PLANNERS {
        let mut points = Vec::new();
        for &(tasks, most) in sizes {
            let mut seconds = Vec::new();
            for family in Family::ALL {
                let instance = generated(family, tasks, 1, TaskMemory::Additive)?;
                let cluster = instance.fitting_cluster(PROCESSORS_PER_KIND)?;
                eprintln!("{planner}: {}", instance.name);
                let start = Instant::now();
                run(&instance, &cluster);
                seconds.push(start.elapsed().as_secs_f64());
            }
            let mut row: Vec<Cell> = vec![planner.into(), tasks.into()];
            row.extend(seconds.iter().map(|&seconds| Cell::from(seconds)));
            table.row(row);
            let longest = seconds.iter().copied().fold(0.0, f64::max);
            points.push((tasks as f64, longest));
            let what = format!("{planner}, {tasks} tasks, longest");
            report.mark(TargetedValue::new(&what, Interval::exact(longest), "s", Target::AtMost(most)));
        }
        plot.add(Series::new(planner, points));
    }
    report.table("", &table)?;
    report.lines("", &plot)
}
