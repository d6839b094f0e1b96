//! Experiment on replanning: runs of workflow plans whose tasks need other amounts of work and memory than estimated,
//! with and without new plans during the run.

mod run;

use armature_papers::workflow::generate::Family;
use armature_planner::random::Random;
use armature_planner::workflow::{Situation, TaskMemory, Workflow, plan_rest, retrace};

use self::run::adapted;
use super::instances::{Instance, generated, traced};
use crate::table::digits;
use crate::verdict::Interval;
use crate::{Experiment, Report, RunResult, Table, Target, TargetedValue, stats};

pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "workflow-replan",
    about: "simulated runs whose tasks' work and memory are 10, 30 and 50 % off: replanning against keeping the plan",
    needs: "nothing",
    run,
};

/// Standard deviations of the tasks' work and memory, relative to the estimates.
const DEVIATIONS: [f64; 3] = [0.1, 0.3, 0.5];
/// Lower bound of the factor by which the work or memory of a task differs from the estimate.
const MIN_FACTOR: f64 = 0.05;
const SIZES: [usize; 2] = [200, 1000];
const SEEDS: u64 = 3;
/// Fraction of a processor's memory that the task with the largest estimate fills. With 0.5 memory is left for larger tasks, with 0.9 almost none.
const FILLED: [f64; 2] = [0.5, 0.9];

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let (sizes, seeds) = if smoke { (&SIZES[..1], 1) } else { (&SIZES[..], SEEDS) };
    let mut instances: Vec<(Instance, u64)> = Vec::new();
    for seed in 1..=seeds {
        for family in Family::ALL {
            for &tasks in sizes {
                instances.push((generated(family, tasks, seed, TaskMemory::IncludesIo)?, seed));
            }
        }
        instances.extend(traced(1)?.into_iter().map(|instance| (instance, seed)));
    }
    let mut table = Table::new(&[
        "deviation [%]",
        "filled to",
        "runs",
        "possible",
        "kept, within memory",
        "anew, within memory",
        "plans made anew, mean",
        "makespan anew by kept, mean [%]",
    ]);
    for deviation in DEVIATIONS {
        let (mut possible, mut reached) = (0, 0);
        for filled in FILLED {
            let mut counts = Counts::default();
            for (instance, seed) in &instances {
                eprintln!("{:.0} %, filled to {filled}: {}", 100.0 * deviation, instance.name);
                counts.add(instance, deviation, filled, *seed)?;
            }
            possible += counts.possible;
            reached += counts.reached;
            table.row([
                digits(100.0 * deviation, 0),
                digits(filled, 1),
                instances.len().into(),
                counts.possible.into(),
                counts.kept.into(),
                counts.replanned.into(),
                digits(stats::mean(&counts.fresh), 1),
                digits(100.0 * stats::mean(&counts.ratios), 1),
            ]);
        }
        let what = format!("{:.0} % off, within memory", 100.0 * deviation);
        let share = Interval::exact(100.0 * reached as f64 / possible as f64);
        let unit = format!("% of {possible} that a planner can do that knows all");
        report.mark(TargetedValue::new(&what, share, &unit, Target::AtLeast(100.0)));
    }
    report.note(
        "possible: relaxed HEFTM finds a plan with the real weights. Kept: tasks stay where they were planned and in that order; files \
         are evicted as it turns out. Weights are known when a task starts",
    );
    report.table("", &table)
}

#[derive(Default)]
struct Counts {
    /// Number of possible runs: those that finish with the fixed plan, or for which a plan by the real weights exists.
    possible: usize,
    /// Number of the runs counted in `possible` that finish with replanning, within the memory of the processors.
    reached: usize,
    /// Number of runs that finish with the fixed plan, within the memory of the processors.
    kept: usize,
    /// Number of all runs that finish with replanning, within the memory of the processors, including runs not counted in `possible`.
    replanned: usize,
    /// Makespan with replanning relative to the makespan without, for runs that finish in both cases.
    ratios: Vec<f64>,
    /// Number of new plans adopted, per run with replanning.
    fresh: Vec<f64>,
}

impl Counts {
    fn add(&mut self, instance: &Instance, deviation: f64, filled: f64, seed: u64) -> RunResult {
        let cluster = instance.cluster_filled_to(filled)?;
        let Instance { workflow: known, task_memory, .. } = instance;
        let start = Situation::new(known, &cluster);
        let Ok(plan) = plan_rest(known, &cluster, &start, *task_memory) else { return Ok(()) };
        let real = deviating(known, deviation, seed)?;
        let possible = plan_rest(&real, &cluster, &start, *task_memory).is_ok();
        let unchanged_makespan = retrace(&real, &cluster, &plan, &start).map(|plan| plan.makespan);
        let adapted_run = adapted(known, &real, &cluster, plan)?;
        self.possible += usize::from(possible || unchanged_makespan.is_some());
        self.reached +=
            usize::from((possible || unchanged_makespan.is_some()) && adapted_run.makespan.is_some());
        self.kept += usize::from(unchanged_makespan.is_some());
        self.replanned += usize::from(adapted_run.makespan.is_some());
        self.fresh.push(adapted_run.fresh as f64);
        self.ratios.extend(
            adapted_run
                .makespan
                .zip(unchanged_makespan)
                .map(|(adapted_run, unchanged_makespan)| adapted_run / unchanged_makespan),
        );
        Ok(())
    }
}

fn deviating(known: &Workflow, deviation: f64, seed: u64) -> RunResult<Workflow> {
    let mut random = Random::new(seed);
    let mut factor = || {
        // Box-Muller transform (1958) for normally distributed numbers.
        let (radius, angle) =
            ((-2.0 * random.uniform().ln()).sqrt(), std::f64::consts::TAU * random.uniform());
        (1.0 + deviation * radius * angle.cos()).max(MIN_FACTOR)
    };
    let real: Vec<(usize, f64, u64)> = (0..known.len())
        .map(|task| {
            let work = known.work(task) * factor();
            (task, work, (known.memory(task) as f64 * factor()).round() as u64)
        })
        .collect();
    Ok(known.clone().with_measured(real)?)
}
