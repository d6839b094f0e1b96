//! Distance of the planners from the optimum: four stages on four processors (Sect. 5.1 of the HeDPM paper).

use armature_planner::pipeline::{Algorithm, Dispatch, PlanOptions};

use super::planner_instances::{Instances, Links, planned};
use crate::table::digits;
use crate::verdict::Interval;
use crate::{Experiment, Histogram, Mark, Outcome, Report, Table, Target, stats};

/// Experiment: HeDPM and the refined planner against the exhaustive optimum.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "planner-4x4",
    about: "distance of HeDPM, DPM, BSC and the refined planner from the optimum, 4 stages on 4 processors",
    needs: "nothing",
    run,
};

/// Number of samples for each figure, as in the paper; the next constant lists the seeds of the samples.
const SAMPLES: usize = 100;
const SEEDS: [u64; 3] = [1, 2, 3];
/// Budget of mappings that is too small for the refined planner to enumerate all mappings.
const FEW: usize = 300;

/// Distances from the optimum in percent, one entry per sample.
#[derive(Debug, Default)]
struct Distances {
    hedpm: Vec<f64>,
    dpm: Vec<f64>,
    bsc: Vec<f64>,
    refined: Vec<f64>,
    refined_quickly: Vec<f64>,
}

fn run(report: &mut Report, smoke: bool) -> Outcome {
    let (samples, seeds) = if smoke { (5, &SEEDS[..1]) } else { (SAMPLES, &SEEDS[..]) };
    report.note(format!(
        "above the optimum under the same rules, mean of {samples} samples for each of seeds {seeds:?} (worst \
         sample); `{FEW} mappings`: the refined planner with a budget of no more"
    ));
    let paper = |dispatch| PlanOptions { dispatch, ..PlanOptions::paper(Algorithm::Optimal) };
    let rules = [
        ("paper", paper(Dispatch::RoundRobin)),
        ("paper, on demand", paper(Dispatch::OnDemand)),
        ("groups, sharing, on demand", PlanOptions::default()),
    ];
    let fewer = format!("refined, {FEW} mappings [%]");
    let mut table = Table::new(&[
        "rules",
        "links",
        "HeDPM [%]",
        "(worst)",
        "DPM [%]",
        "BSC [%]",
        "refined [%]",
        "(worst)",
        &fewer,
    ]);
    let mut marks = Vec::new();
    let mut histogram =
        Histogram::new("HeDPM and the optimum, 4 stages on 4 processors", "above the optimum [%]", 20);
    for links in [Links::Homogeneous, Links::Heterogeneous] {
        for (name, options) in &rules {
            let mut found = Distances::default();
            for &seed in seeds {
                found.measure(seed, samples, links, options)?;
            }
            let worst = |of: &[f64]| digits(of.iter().copied().fold(0.0, f64::max), 2);
            table.row([
                (*name).into(),
                links.name().into(),
                digits(stats::mean(&found.hedpm), 1),
                worst(&found.hedpm),
                digits(stats::mean(&found.dpm), 1),
                digits(stats::mean(&found.bsc), 1),
                digits(stats::mean(&found.refined), 3),
                worst(&found.refined),
                digits(stats::mean(&found.refined_quickly), 3),
            ]);
            if *name == "paper" {
                let mean = stats::mean_interval(&found.hedpm);
                marks.push((format!("HeDPM, {} links", links.name()), mean, 40.8));
                histogram.add(format!("{} links", links.name()), found.hedpm);
            }
            if name.starts_with("paper") {
                let dispatch = if *name == "paper" { "round robin" } else { "on demand" };
                // The mark uses the worst of all samples, because an average could hide a bad sample.
                let worst = found.refined.iter().copied().fold(0.0, f64::max);
                let what = format!("refined, worst sample, {} links, {dispatch}", links.name());
                marks.push((what, Interval::exact(worst), 2.0));
            }
        }
    }
    report.table("", &table)?;
    report.histogram("", &histogram)?;
    for (what, value, most) in marks {
        report.mark(Mark::new(&what, value, "% above the optimum", Target::AtMost(most)));
    }
    Ok(())
}

impl Distances {
    fn measure(&mut self, seed: u64, samples: usize, links: Links, options: &PlanOptions) -> Outcome {
        let mut instances = Instances::new(seed)?;
        for sample in 0..samples {
            let instance = instances.next(4, 4, links)?;
            let exhaustive = PlanOptions { budget: 2_000_000, ..options.clone() };
            let optimum = planned(&instance, &exhaustive, Algorithm::Optimal)?;
            if !optimum.complete {
                return Err(format!("seed {seed}, sample {sample}: the optimum was not proved").into());
            }
            let quick = PlanOptions { budget: FEW, ..options.clone() };
            for (distances, options, algorithm) in [
                (&mut self.hedpm, options, Algorithm::Hedpm),
                (&mut self.dpm, options, Algorithm::Dpm),
                (&mut self.bsc, options, Algorithm::Bsc),
                (&mut self.refined, options, Algorithm::Refined),
                (&mut self.refined_quickly, &quick, Algorithm::Refined),
            ] {
                let time = planned(&instance, options, algorithm)?.prediction.production_time;
                distances.push(100.0 * (time / optimum.prediction.production_time - 1.0));
            }
        }
        Ok(())
    }
}
