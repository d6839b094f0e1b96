//! Experiment on the quality of workflow plans: block planners and list planners in the models of their papers, all
//! planners together, and the graph partitioner.

mod best;
mod blocks;
mod cut;
mod lists;

use crate::verdict::Interval;
use crate::{Experiment, Report, RunResult, stats};

pub(in crate::experiments) const EXPERIMENT: Experiment = Experiment {
    name: "workflow-quality",
    about: "plans of workflows: DagHetPart against DagHetMem, HEFTM against HEFT, the best of all, cuts of partitions",
    needs: "nothing",
    run,
};

fn run(report: &mut Report, smoke: bool) -> RunResult {
    blocks::run(report, smoke)?;
    if report.selects("lists") {
        lists::run(report, smoke)?;
    }
    if report.selects("best") {
        best::run(report, smoke)?;
    }
    if report.selects("cut") {
        cut::run(report, smoke)?;
    }
    Ok(())
}

fn geometric(ratios: &[f64]) -> Interval {
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let Interval { value, low, high } = stats::mean_interval(&logs);
    let per_cent = |log: f64| 100.0 * log.exp();
    Interval { value: per_cent(value), low: per_cent(low), high: per_cent(high) }
}
