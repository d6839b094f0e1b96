//! The planners on larger platforms: 30 stages on 10 to 100 processors (Sect. 5.2 of the HeDPM paper, Figs. 2–4).

use armature_planner::pipeline::{Algorithm, PlanOptions};

use super::planner_instances::{Instances, Links, planned};
use crate::plot::Series;
use crate::table::digits;
use crate::verdict::Interval;
use crate::{Experiment, Lines, Mark, Outcome, Report, Table, Target, stats};

/// Experiment: HeDPM, BSC, DPM and the refined planner by the number of processors.
pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "planner-30",
    about: "production time of HeDPM, BSC, DPM and the refined planner, 30 stages on 10 to 100 processors",
    needs: "nothing",
    run,
};

const STAGES: usize = 30;
const SAMPLES: usize = 100;
const SEED: u64 = 1;

/// Production times for one number of processors, one entry per sample.
#[derive(Debug, Default)]
struct Times {
    hedpm: Vec<f64>,
    bsc: Vec<f64>,
    dpm: Vec<f64>,
    refined: Vec<f64>,
    /// Production times of the refined planner without the paper's restrictions.
    free: Vec<f64>,
}

fn run(report: &mut Report, smoke: bool) -> Outcome {
    let (samples, counts): (usize, Vec<usize>) =
        if smoke { (2, vec![10, 40]) } else { (SAMPLES, (10..=100).step_by(10).collect()) };
    report.note(format!(
        "mean production time of {samples} samples (seed {SEED}) under the paper's rules; `free`: replicas of \
         groups, shared processors, dispatch on demand. A few very slow processors dominate the means of HeDPM and \
         DPM, so the plots show medians"
    ));
    for (links, figure) in [(Links::Homogeneous, "fig2"), (Links::Heterogeneous, "fig3")] {
        let mut table = Table::new(&[
            "links",
            "P",
            "HeDPM [s]",
            "BSC [s]",
            "DPM [s]",
            "refined [s]",
            "free [s]",
            "HeDPM/BSC, median",
            "HeDPM beats BSC [%]",
            "refined worse than a parent",
        ]);
        let mut worse = 0;
        let mut medians: [Vec<(f64, f64)>; 5] = Default::default();
        for &processors in &counts {
            let times = measure(processors, links, samples)?;
            let parents = times.hedpm.iter().zip(&times.bsc).map(|(a, b)| a.min(*b));
            let worse_here =
                times.refined.iter().zip(parents).filter(|(refined, parent)| *refined > parent).count();
            worse += worse_here;
            let wins = times.hedpm.iter().zip(&times.bsc).filter(|(hedpm, bsc)| hedpm < bsc).count();
            let all = [&times.hedpm, &times.bsc, &times.dpm, &times.refined, &times.free];
            for (line, times) in medians.iter_mut().zip(all) {
                line.push((processors as f64, stats::median(times)));
            }
            let mean = |times: &[f64]| digits(stats::mean(times), 3);
            table.row([
                links.name().into(),
                processors.into(),
                mean(&times.hedpm),
                mean(&times.bsc),
                mean(&times.dpm),
                mean(&times.refined),
                mean(&times.free),
                digits(stats::median(&stats::paired_ratios(&times.hedpm, &times.bsc)), 2),
                digits(100.0 * wins as f64 / samples as f64, 0),
                worse_here.into(),
            ]);
        }
        report.table(links.name(), &table)?;
        let [hedpm, bsc, dpm, refined, free] = medians;
        let plot = |title: &str, lines: Vec<(&str, Vec<(f64, f64)>)>| {
            let mut plot = Lines::new(title, "processors", "median production time [s]").log_y();
            lines.into_iter().for_each(|(name, points)| plot.add(Series::new(name, points)));
            plot
        };
        let title = format!("30 stages, {} links", links.name());
        let lines =
            vec![("BSC", bsc), ("HeDPM", hedpm.clone()), ("refined", refined), ("refined, free", free)];
        report.lines(figure, &plot(&title, lines))?;
        if links == Links::Heterogeneous {
            report.lines("fig4", &plot(&title, vec![("DPM", dpm), ("HeDPM", hedpm)]))?;
        }
        let what = format!("{} links, refined worse than the better of HeDPM and BSC", links.name());
        let unit = format!("of {} samples", samples * counts.len());
        report.mark(Mark::new(&what, Interval::exact(worse as f64), &unit, Target::AtMost(0.0)));
    }
    Ok(())
}

fn measure(processors: usize, links: Links, samples: usize) -> Outcome<Times> {
    let mut times = Times::default();
    let mut instances = Instances::new(SEED)?;
    let paper = PlanOptions::paper(Algorithm::Refined);
    for _ in 0..samples {
        let instance = instances.next(STAGES, processors, links)?;
        for (times, options, algorithm) in [
            (&mut times.hedpm, &paper, Algorithm::Hedpm),
            (&mut times.bsc, &paper, Algorithm::Bsc),
            (&mut times.dpm, &paper, Algorithm::Dpm),
            (&mut times.refined, &paper, Algorithm::Refined),
            (&mut times.free, &PlanOptions::default(), Algorithm::Refined),
        ] {
            times.push(planned(&instance, options, algorithm)?.prediction.production_time);
        }
    }
    Ok(times)
}
