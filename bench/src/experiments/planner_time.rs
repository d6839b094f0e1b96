//! Experiment on the time that the pipeline planners take.

use std::time::Instant;

use armature_planner::Platform;
use armature_planner::pipeline::{Algorithm, PipelineSpec, PlanOptions, plan};

use super::planner_instances::Instances;
use crate::plot::Series;
use crate::verdict::Interval;
use crate::{Experiment, Lines, Report, RunResult, Table, Target, TargetedValue, stats};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "planner-time",
    about: "time to plan, from 10 stages on 30 processors to 300 stages on 1000",
    needs: "nothing",
    run,
};

/// Numbers of stages and processors. Targets apply only to 30 stages on 100 processors.
const SIZES: [(usize, usize); 6] = [(10, 30), (30, 100), (60, 200), (100, 300), (200, 600), (300, 1000)];
const MARKED: (usize, usize) = (30, 100);
const SEED: u64 = 1;

fn run(report: &mut Report, smoke: bool) -> RunResult {
    if cfg!(debug_assertions) {
        report.note("built without optimisation: times say nothing");
    }
    let sizes = if smoke { &SIZES[..2] } else { &SIZES[..] };
    let planners = [
        ("HeDPM, paper's rules", PlanOptions::paper(Algorithm::Hedpm), 2.0),
        ("HeDPM, on demand", PlanOptions { algorithm: Algorithm::Hedpm, ..PlanOptions::default() }, 2.0),
        ("refined, paper's rules", PlanOptions::paper(Algorithm::Refined), 50.0),
        ("refined, default", PlanOptions::default(), 50.0),
        ("refined, default, serial stages", PlanOptions::default(), 50.0),
    ];
    report
        .note("heterogeneous links; `serial stages`: the first, the last and every seventh stage are serial");
    let mut table = Table::new(&["planner", "N", "P", "median [ms]", "95 % from", "to", "longest [ms]"]);
    let mut plot = Lines::new("Time to plan", "stages × processors", "median [ms]").log_x().log_y();
    for (name, options, most) in planners {
        let mut points = Vec::new();
        for &(stages, processors) in sizes {
            let rounds = match (smoke, stages > MARKED.0) {
                (true, _) => 3,
                (false, true) => 7,
                (false, false) => 41,
            };
            let instances = instances(stages, processors, rounds, name.ends_with("serial stages"))?;
            let times = measure(&instances, &options)?;
            let Interval { value, low, high } = stats::median_interval(&times);
            let longest = times.iter().copied().fold(0.0, f64::max);
            table.row([
                name.into(),
                stages.into(),
                processors.into(),
                value.into(),
                low.into(),
                high.into(),
                longest.into(),
            ]);
            points.push(((stages * processors) as f64, value));
            if (stages, processors) == MARKED {
                let interval = Interval { value, low, high };
                report.mark(TargetedValue::new(
                    &format!("{name}, N = 30, P = 100"),
                    interval,
                    "ms",
                    Target::AtMost(most),
                ));
            }
        }
        plot.add(Series::new(name, points));
    }
    report.table("", &table)?;
    report.lines("", &plot)
}

fn instances(
    stages: usize,
    processors: usize,
    count: usize,
    serial: bool,
) -> RunResult<Vec<(Platform, PipelineSpec)>> {
    let mut instances = Instances::new(SEED)?;
    // Drawing a platform of a thousand processors takes longer than planning on it, so all pipelines share one large platform.
    let different = if processors > 300 { 1 } else { count };
    let mut drawn = Vec::with_capacity(count);
    for _ in 0..different {
        let (platform, mut spec) = instances.next(stages, processors)?;
        for n in (0..stages).filter(|n| serial && (n % 7 == 0 || n + 1 == stages)) {
            spec.stages[n].serial = true;
        }
        drawn.push((platform, spec));
    }
    Ok((0..count).map(|i| drawn[i % different].clone()).collect())
}

/// Returns the planning time in milliseconds for each instance.
fn measure(instances: &[(Platform, PipelineSpec)], options: &PlanOptions) -> RunResult<Vec<f64>> {
    let mut times = Vec::with_capacity(instances.len());
    for (platform, spec) in instances {
        let start = Instant::now();
        plan(platform, spec, options)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}
