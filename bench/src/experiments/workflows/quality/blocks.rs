//! Experiment on the makespans of the workflow planner DagHetPart relative to those of the planner DagHetMem, with the default cluster and the
//! workflow families and sizes of the paper of Kulagina et al. (2024).

use armature_papers::workflow::generate::Family;
use armature_papers::workflow::{DagHetPart, dag_het_mem, dag_het_part};
use armature_planner::workflow::{MemoryModel, Plan, TaskMemory, verify};

use super::super::instances::{Instance, generated, traced};
use super::geometric;
use crate::table::digits;
use crate::verdict::Interval;
use crate::{Report, RunResult, Table, Target, TargetedValue};

/// Type of workflows: name, numbers of tasks (none for real workflows), number of random draws per size, and the makespan of DagHetPart in percent of
/// DagHetMem's in the paper of Kulagina et al. (2024).
struct Group {
    name: &'static str,
    sizes: &'static [usize],
    seeds: u64,
    paper: f64,
}

const GROUPS: [Group; 4] = [
    Group { name: "real", sizes: &[], seeds: 0, paper: 62.9 },
    Group { name: "small", sizes: &[200, 1000, 2000, 4000, 8000], seeds: 1, paper: 38.6 },
    Group { name: "middle", sizes: &[10_000, 15_000, 18_000], seeds: 1, paper: 30.6 },
    Group { name: "big", sizes: &[20_000, 25_000, 30_000], seeds: 1, paper: 28.4 },
];
/// Makespan of DagHetPart in the paper of Kulagina et al. (2024), in percent of DagHetMem's, over all types including
/// real workflows.
const PAPER: f64 = 41.0;
/// Number of processors of each of the six kinds in the cluster of the paper of Kulagina et al. (2024).
const PROCESSORS_PER_KIND: usize = 6;

pub(super) fn run(report: &mut Report, smoke: bool) -> RunResult {
    let mut table = Table::new(&["type", "workflow", "DagHetMem [s]", "DagHetPart [s]", "ratio [%]"]);
    let (mut all, mut lost, mut left_out) = (Vec::new(), 0, false);
    // A smoke run (short test of the experiment) takes only the real and the small workflows, because planning even one size of the larger types
    // would take too long.
    let groups = if smoke { &GROUPS[..2] } else { &GROUPS[..] };
    for &Group { name, sizes, seeds, paper } in groups {
        if !report.selects(name) {
            left_out = true;
            continue;
        }
        let (sizes, seeds) = if smoke { (&sizes[..sizes.len().min(1)], 1) } else { (sizes, seeds) };
        let mut instances = if sizes.is_empty() { traced(1)? } else { Vec::new() };
        for &tasks in sizes {
            for family in Family::ALL {
                for seed in 1..=seeds {
                    instances.push(generated(family, tasks, seed, TaskMemory::Additive)?);
                }
            }
        }
        let mut ratios = Vec::new();
        for instance in &instances {
            eprintln!("{name}: {}", instance.name);
            let [baseline, ours] = makespans(instance)?;
            lost += usize::from(baseline.is_some() && ours.is_none());
            let ratio = ours.zip(baseline).map(|(ours, baseline)| ours / baseline);
            ratios.extend(ratio);
            table.row([
                name.into(),
                instance.name.as_str().into(),
                baseline.into(),
                ours.into(),
                ratio.map(|ratio| digits(100.0 * ratio, 1)).into(),
            ]);
        }
        let mean = geometric(&ratios);
        report.note(format!(
            "{name}: {:.1} % ({:.1} to {:.1}), {} of {} planned by both",
            mean.value,
            mean.low,
            mean.high,
            ratios.len(),
            instances.len()
        ));
        let what = format!("DagHetPart, {name}");
        report.mark(TargetedValue::new(&what, mean, "% of DagHetMem", Target::AtMost(paper)));
        all.extend(ratios);
    }
    if all.is_empty() {
        return Ok(());
    }
    report.table("blocks", &table)?;
    if !left_out {
        let mean = geometric(&all);
        report.mark(TargetedValue::new(
            "DagHetPart, all types",
            mean,
            "% of DagHetMem",
            Target::AtMost(PAPER),
        ));
    }
    let what = "DagHetPart, no plan where DagHetMem has one";
    report.mark(TargetedValue::new(what, Interval::exact(lost as f64), "workflows", Target::AtMost(0.0)));
    Ok(())
}

/// Returns the makespans of DagHetMem and DagHetPart, as computed by the independent verifier of plans, or `None` where a planner finds no plan.
fn makespans(instance: &Instance) -> RunResult<[Option<f64>; 2]> {
    let cluster = instance.fitting_cluster(PROCESSORS_PER_KIND)?;
    let model = MemoryModel::new(instance.task_memory);
    let workflow = &instance.workflow;
    let makespan = |plan: armature_planner::Result<Plan>| -> RunResult<Option<f64>> {
        let Ok(plan) = plan else { return Ok(None) };
        Ok(Some(verify(workflow, &cluster, &plan).certificate()?.makespan))
    };
    Ok([
        makespan(dag_het_mem(workflow, &cluster, model))?,
        makespan(dag_het_part(workflow, &cluster, model, &DagHetPart::default()))?,
    ])
}
