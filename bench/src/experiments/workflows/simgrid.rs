//! Predicted makespans of workflow plans against simulated runs that follow the plans.
//!
//! The hosts are the processors of the clusters of Kulagina et al. (2024 and 2025); each pair of hosts has its own
//! channel in each direction. Tasks declare their work and transfer their real bytes. Ranks have the memory of their
//! processor; data that does not fit is spilled to disk, which takes no simulated time.
//!
//! HEFTM assumes that a file is sent when its writer ends, as ranks do. DagHetPart assigns a block of tasks to each
//! processor and assumes that files are sent when the whole block is done, so its runs may end earlier than planned,
//! but not later.

use std::path::Path;

use armature_papers::workflow::generate::Family;
use armature_papers::workflow::{DagHetPart, dag_het_part};
use armature_planner::workflow::{Cluster, Level, MemoryModel, Plan, heftm};

use super::instances::{Instance, generated, traced};
use crate::table::digits;
use crate::verdict::Interval;
use crate::workflows::simulated::{Scale, Simulated};
use crate::{Experiment, Report, RunResult, Table, Target, TargetedValue, stats};

pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "workflow-simgrid",
    about: "makespans of plans on the papers' default clusters against simulated runs that follow them",
    needs: "SimGrid, armature-bench-simulated-workflow built for it (ci/bench.sh builds it)",
    run,
};

const FOLDER: &str = "target/bench/workflow-simgrid";
const SIZES: [usize; 2] = [200, 1000];
/// Processors of each kind in the default clusters of two papers of Kulagina et al.: that of 2025 and that of 2024.
const PROCESSORS_PER_KIND: [usize; 2] = [12, 6];
/// Scale of drawn weights: a task takes a third of a second on average and a file at most a tenth of a second, which
/// is long compared with the messages of the runtime. Values of at most 160 KB allow a thousand tasks in one process.
const DRAWN: Scale = Scale { seconds: 0.01, bytes: 16384.0 };
/// Scale of the weights of real runs: gigabytes, counted in KiB, become megabytes, and minutes become seconds.
const REAL: Scale = Scale { seconds: 0.01, bytes: 1.0 };

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let sizes = if smoke { &[60][..] } else { &SIZES[..] };
    let of_each = if smoke { [2, 2] } else { PROCESSORS_PER_KIND };
    let mut instances = Vec::new();
    for &tasks in sizes {
        for family in Family::ALL {
            let instance = generated(family, tasks, 1, Default::default())?;
            instances.push((instance.with_one_value_a_task()?, DRAWN));
        }
    }
    for instance in traced(1)? {
        instances.push((instance.with_one_value_a_task()?, REAL));
    }
    if smoke {
        // The shortest form of the experiment uses three workflows: one that begins with a single
        // task, one that ends with a single task, and one with weights that were measured in a real
        // run.
        instances = instances.into_iter().step_by(5).collect();
    }
    let mut table = Table::new(&[
        "workflow",
        "tasks",
        "processors",
        "planner",
        "planned [s]",
        "run [s]",
        "run by plan [%]",
        "sent by plan [%]",
        "spilled",
    ]);
    let mut ratios: [Vec<f64>; 2] = Default::default();
    let mut without = Vec::new();
    for (instance, scale) in &instances {
        for (kind, ratios) in ratios.iter_mut().enumerate() {
            let cluster = instance.fitting_cluster(of_each[kind])?;
            let plans = plans(instance, &cluster, kind)?;
            if plans.is_empty() {
                without.push(instance.name.as_str());
            }
            for (planner, plan) in plans {
                eprintln!("{planner}: {}", instance.name);
                let simulated =
                    Simulated { workflow: &instance.workflow, cluster: &cluster, plan: &plan, scale: *scale };
                let run = simulated.run(Path::new(FOLDER))?;
                let ratio = 100.0 * run.seconds / plan.makespan;
                ratios.push(ratio);
                table.row([
                    instance.name.clone().into(),
                    instance.workflow.len().into(),
                    cluster.len().into(),
                    planner.into(),
                    plan.makespan.into(),
                    run.seconds.into(),
                    digits(ratio, 1),
                    digits(100.0 * run.sent / crossing(instance, &plan), 0),
                    run.spilled.into(),
                ]);
            }
        }
    }
    report.table("", &table)?;
    if !without.is_empty() {
        report.note(format!("DagHetPart has no plan for {}", without.join(", ")));
    }
    let [events, blocks] = ratios;
    let off = events.iter().map(|ratio| (ratio - 100.0).abs()).fold(0.0, f64::max);
    report.mark(TargetedValue::new("HEFTM, farthest off", Interval::exact(off), "%", Target::AtMost(10.0)));
    let latest = blocks.iter().copied().fold(0.0, f64::max);
    report.mark(TargetedValue::new(
        "DagHetPart, latest run",
        Interval::exact(latest),
        "% of the plan",
        Target::AtMost(105.0),
    ));
    let earliest = blocks.iter().copied().fold(f64::INFINITY, f64::min);
    report.note(format!(
        "runs of DagHetPart's plans take {:.1} % of what is planned on average, {earliest:.1} % at least",
        stats::mean(&blocks)
    ));
    Ok(())
}

fn plans(instance: &Instance, cluster: &Cluster, kind: usize) -> RunResult<Vec<(&'static str, Plan)>> {
    let Instance { workflow, task_memory, .. } = instance;
    if kind == 1 {
        let model = MemoryModel::new(*task_memory);
        // DagHetPart finds no plan for workflows whose blocks of tasks do not fit on any processor.
        let plan = dag_het_part(workflow, cluster, model, &DagHetPart::default()).ok();
        return Ok(plan.map(|plan| ("DagHetPart", plan)).into_iter().collect());
    }
    let by = |level| heftm(workflow, cluster, level, *task_memory);
    Ok(vec![("HEFTM-BL", by(Level::Bottom)?), ("HEFTM-BLC", by(Level::BottomWithInputs)?)])
}

fn crossing(instance: &Instance, plan: &Plan) -> f64 {
    let edges = instance.workflow.edges().iter();
    let crossing = edges.filter(|edge| plan.processor_of[edge.from] != plan.processor_of[edge.to]);
    crossing.map(|edge| edge.size as f64).sum()
}
