//! Experiment on the makespan of the best plan of all workflow planners, relative to the better plan of two published planners, DagHetPart and HEFTM.

use std::collections::BTreeMap;

use armature_papers::workflow::generate::Family;
use armature_papers::workflow::plan_with_blocks;
use armature_planner::workflow::{BestPlan, MemoryModel, PlanOptions, Planner, TaskMemory};

use super::super::instances::{generated, traced};
use super::geometric;
use crate::table::digits;
use crate::verdict::Interval;
use crate::{Report, RunResult, Table, Target, TargetedValue};

const SIZES: [usize; 3] = [200, 1000, 4000];
/// Number of processors of each of the six kinds in the cluster of the paper of Kulagina et al. (2024).
const PROCESSORS_PER_KIND: usize = 6;
/// Fraction of the largest processor's memory that the largest task needs, in the cluster of the paper of Kulagina et
/// al. (2025).
const FILLED: f64 = 0.9;
/// Relative difference of makespans below which the planner treats plans as equally long and chooses the plan with fewer transferred bytes.
const EQUALLY_LONG: f64 = 0.01;

pub(super) fn run(report: &mut Report, smoke: bool) -> RunResult {
    let mut instances = traced(1)?;
    let sizes = if smoke { &SIZES[..1] } else { &SIZES[..] };
    for &tasks in sizes {
        for family in Family::ALL {
            instances.push(generated(family, tasks, 1, TaskMemory::Additive)?);
        }
    }
    let mut table = Table::new(&[
        "cluster",
        "workflow",
        "DagHetPart [s]",
        "HEFTM [s]",
        "best before local search [s]",
        "by",
        "with it [s]",
    ]);
    let mut wins = BTreeMap::<String, usize>::new();
    let (mut worse, mut count, mut ratios, mut gains) = (0, 0, Vec::new(), Vec::new());
    for instance in &instances {
        for year in [2024, 2025] {
            eprintln!("{}, cluster of {year}", instance.name);
            let cluster = match year {
                2024 => instance.fitting_cluster(PROCESSORS_PER_KIND)?,
                _ => instance.cluster_filled_to(FILLED)?,
            };
            let memory = MemoryModel::new(instance.task_memory);
            let mut options = PlanOptions::default();
            options.memory = memory;
            let best = plan_with_blocks(&instance.workflow, &cluster, &options)?;
            let blocks = earliest(&best, |planner| planner == Planner::DagHetPart).map(|found| found.0);
            let lists = earliest(&best, is_list).map(|found| found.0);
            let before = earliest(&best, |planner| planner != Planner::LocalSearch);
            let makespan = best.plan.makespan;
            count += 1;
            if let Some(alone) = blocks.into_iter().chain(lists).reduce(f64::min) {
                worse += usize::from(makespan > alone * (1.0 + EQUALLY_LONG));
                ratios.push(makespan / alone);
            }
            if let Some((before, planner)) = before {
                gains.push(makespan / before);
                *wins.entry(planner.to_string()).or_default() += 1;
            }
            table.row([
                year.to_string().into(),
                instance.name.as_str().into(),
                blocks.into(),
                lists.into(),
                before.map(|found| found.0).into(),
                before.map_or_else(String::new, |found| found.1.to_string()).into(),
                makespan.into(),
            ]);
        }
    }
    report.table("best", &table)?;
    let mut by = Table::new(&["best before local search", "workflows", "[%]"]);
    for (planner, wins) in wins {
        by.row([planner.into(), wins.into(), digits(100.0 * wins as f64 / count as f64, 0)]);
    }
    report.table("best-wins", &by)?;
    let note = |what: &str, Interval { value, low, high }: Interval| {
        format!("{what}: {value:.1} % ({low:.1} to {high:.1})")
    };
    report.note(note("best of all, of the better of DagHetPart and HEFTM", geometric(&ratios)));
    report.note(note("with local search, of the best before", geometric(&gains)));
    let unit = format!("of {count} workflows");
    let what = "best of all, later than DagHetPart or HEFTM alone by more than 1 %";
    report.mark(TargetedValue::new(what, Interval::exact(worse as f64), &unit, Target::AtMost(0.0)));
    Ok(())
}

fn is_list(planner: Planner) -> bool {
    matches!(planner, Planner::HeftmBl | Planner::HeftmBlc | Planner::HeftmMm)
}

fn earliest(best: &BestPlan, of: impl Fn(Planner) -> bool) -> Option<(f64, Planner)> {
    let attempts = best.attempts.iter().filter(|attempt| of(attempt.planner));
    attempts
        .filter_map(|attempt| Some((*attempt.makespan.as_ref().ok()?, attempt.planner)))
        .min_by(|a, b| a.0.total_cmp(&b.0))
}
