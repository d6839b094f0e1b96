//! Experiment on the cost of measuring pipeline stages and of logging events, relative to the time of the image search Ferret.
//!
//! The cost is far too small to be visible in the time of Ferret, so it is measured separately: a pipeline of stages without useful work, with as
//! many stages as Ferret and one item per batch, runs with and without the measurement, and with an event log. The difference per item is compared
//! with the time of Ferret per item.

use std::path::Path;
use std::time::{Duration, Instant};

use armature::pipeline::{Context, MappingChoice, Pipeline, Stage, StageResult};
use armature::{BatchMode, Config, Driver, Progress};

use super::ferret_runs::{Files, SERIAL};
use super::stream_runs::folder;
use crate::{
    Experiment, Report, RunResult, Table, Target, TargetedValue,
    pairs::{Contestant, round_robin},
    stats::median_interval,
    verdict::Interval,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "monitor-cost",
    about: "cost of measuring the stages and of the event log, relative to Ferret's time",
    needs: "mpirun of Open MPI, ferret beside this binary (ci/bench.sh builds it)",
    run,
};

/// Number of stages of the pipeline, as in Ferret.
const STAGES: u32 = 6;
/// Time of a stage. It is long enough that the framework times every batch of items individually, as in runs of Ferret.
const STAGE_TIME: Duration = Duration::from_micros(310);
const ON: &str = "measured";
const OFF: &str = "not measured";
const LOGGED: &str = "measured and logged";
const FERRET: &str = "Ferret";

fn run(report: &mut Report, smoke: bool) -> RunResult {
    let items = if smoke { 50 } else { 500 };
    let files = Files::make("monitor-cost", if smoke { 20 } else { 200 })?;
    let folder = folder("monitor-cost")?;
    let log = folder.as_path();
    let contestants = vec![
        Contestant::new(ON, move || seconds_per_item(items, true, None)),
        Contestant::new(OFF, move || seconds_per_item(items, false, None)),
        Contestant::new(LOGGED, move || seconds_per_item(items, true, Some(log))),
        Contestant::new(FERRET, || files.query(SERIAL, 1, "serial")),
    ];
    let rounds = round_robin(if smoke { 2 } else { 40 }, contestants)?;
    let [on, off, logged] = [ON, OFF, LOGGED].map(|name| rounds.of(name).unwrap_or_default());
    let difference = |more: &[f64], less: &[f64]| {
        median_interval(&more.iter().zip(less).map(|(more, less)| more - less).collect::<Vec<_>>())
    };
    let (cost, log_cost) = (difference(on, off), difference(logged, on));
    let ns = |seconds: f64| seconds * 1e9;

    let runs = rounds.of(FERRET).unwrap_or_default();
    let ferret = median_interval(&runs.iter().map(|run| run / files.queries as f64).collect::<Vec<_>>());

    let mut table = Table::new(&["what", "median [ns]", "low", "high"]);
    let mut row = |what: &str, Interval { value, low, high }| {
        table.row([what.into(), ns(value).into(), ns(low).into(), ns(high).into()]);
    };
    row("an item through six stages, measured", median_interval(on));
    row("an item through six stages, not measured", median_interval(off));
    row("measuring an item's stages", cost);
    row("logging them", log_cost);
    row("an image through Ferret", ferret);
    report.table("", &table)?;
    let share = |seconds: f64| 100.0 * seconds / ferret.value;
    for (name, cost) in [("", cost), ("log", log_cost)] {
        let share = Interval { value: share(cost.value), low: share(cost.low), high: share(cost.high) };
        report.mark(TargetedValue::new(name, share, "% of Ferret's time", Target::AtMost(1.0)));
    }
    Ok(())
}

struct Busy;

impl Stage for Busy {
    type In = u64;
    type Out = u64;

    fn process(&mut self, item: u64, _: &mut Context) -> StageResult<u64> {
        let start = Instant::now();
        while start.elapsed() < STAGE_TIME {
            std::hint::spin_loop();
        }
        Ok(Some(item))
    }
}

fn seconds_per_item(items: u64, monitor: bool, log: Option<&Path>) -> RunResult<f64> {
    let config = Config::new().driver(Driver::Inline).progress(Progress::Off);
    let config = config.events(log.map(Path::to_path_buf));
    let start = Instant::now();
    armature::run(&config, |session| {
        let pipeline = Pipeline::source("numbers", || 0..items);
        let pipeline = (0..STAGES).fold(pipeline, |p, n| p.stage(&format!("stage {n}"), || Ok(Busy)));
        let pipeline = pipeline.mapping(MappingChoice::Serial).monitor(monitor).batch(BatchMode::Fixed(1));
        pipeline.for_each(session, "sink", drop)?;
        Ok(())
    })?;
    Ok(start.elapsed().as_secs_f64() / items as f64)
}
