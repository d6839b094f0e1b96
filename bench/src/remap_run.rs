//! Rank program of the experiments on balancing: a [`synthetic_work`] pipeline whose mapping (stages to ranks) the
//! framework or a schedule changes during the run.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use armature::pipeline::{MappingChoice, Summary};
use armature::{Balance, BatchMode, BoxError, Config, Progress, Session};
use armature_bench_simulated::settings;
use armature_planner::pipeline::Dispatch;

use crate::{
    RunResult,
    burner::pin_rank,
    ranks::{Launch, Values, finish, one},
    synthetic_work::{self, SyntheticStage},
};

/// Parameters of a run whose mapping (stages to ranks) may change.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name of the pipeline: `uneven` (stages of unequal work) or `moved` (stages of one to two milliseconds, for
    /// frequent changes of the mapping).
    pub pipeline: String,
    /// Number of items.
    pub items: u64,
    /// Mapping of stages to ranks as text, or `auto` if the framework plans the mapping.
    pub mapping: String,
    /// Rule by which items are sent to the replicas (parallel copies) of a stage.
    pub dispatch: Dispatch,
    /// Balancing mode of the framework, which changes the mapping only in the mode `live`.
    pub balance: Balance,
    /// Cores to which the ranks are pinned in equal groups, the first group to the first core. Empty if ranks are not
    /// pinned.
    pub cores: Vec<usize>,
    /// File that is written when a third of the items has reached the sink, so that the experiment
    /// can then start a competing load.
    pub third: Option<PathBuf>,
    /// Number of items between two changes of the mapping, and a second mapping. The first, third, … change leads to
    /// the second mapping, and the changes in between lead back to `mapping`.
    pub exchange: Option<(u64, String)>,
    /// Additional environment variables of ranks under mpirun.
    pub environment: Vec<(&'static str, &'static str)>,
}

/// Results of a run whose mapping may change.
#[derive(Clone, Debug)]
pub struct Run {
    /// Seconds from the start of the pipeline to its last result.
    pub total: f64,
    /// Seconds from the arrival of the first third of the items to the end.
    pub tail: f64,
    /// Number of changes of the mapping, not counting the initial mapping and the planned one.
    pub changes: f64,
    /// Mean number of items in flight when the mapping changes.
    pub in_flight: f64,
    /// Mean seconds that a change of the mapping cost, if the framework measured it.
    pub cost: Option<f64>,
    /// Mean cost of a change of the mapping, if the framework measured it, as a multiple of the time to process the
    /// items in flight at the change.
    pub cost_windows: Option<f64>,
    /// Lines of text that describe the mappings of the run, in their order.
    pub mapping_lines: Vec<String>,
}

impl Job {
    /// Creates a job with a fixed mapping and without the optional parameters.
    pub fn fixed(pipeline: &str, items: u64, mapping: &str) -> Self {
        Job {
            pipeline: pipeline.into(),
            items,
            mapping: mapping.into(),
            dispatch: Dispatch::OnDemand,
            balance: Balance::Off,
            cores: Vec::new(),
            third: None,
            exchange: None,
            environment: Vec::new(),
        }
    }

    /// Runs the job under mpirun.
    ///
    /// # Errors
    /// If the ranks cannot be started; also errors of [`main`].
    pub fn on_mpi(&self, ranks: usize) -> RunResult<Run> {
        let launch = Launch { limit: LIMIT, environment: self.environment.clone(), ..Launch::ranks(ranks) };
        let output = launch.output("remap-run", &self.arguments())?;
        Run::read(&output)
    }

    /// Runs the job on threads of one process.
    ///
    /// # Errors
    /// Errors of [`main`].
    pub fn on_threads(&self, ranks: usize) -> RunResult<Run> {
        let this = std::env::current_exe().map_err(|e| format!("cannot find this binary: {e}"))?;
        let mut command = Command::new(this);
        command.args(["rank", "remap-run"]).args(self.arguments());
        command.env("ARMATURE_TRANSPORT", "local").env("ARMATURE_RANKS", ranks.to_string());
        command.env("RUST_LOG", "warn");
        Run::read(&finish(command, LIMIT)?)
    }

    fn arguments(&self) -> Vec<String> {
        let Job { pipeline, items, mapping, .. } = self;
        let mut arguments = vec![format!("pipeline={pipeline}"), format!("items={items}")];
        arguments.push(format!("mapping={mapping}"));
        if self.dispatch == Dispatch::RoundRobin {
            arguments.push("dispatch=round-robin".into());
        }
        if self.balance == Balance::Live {
            arguments.push("balance=live".into());
        }
        arguments.extend(self.cores.iter().map(|core| format!("core={core}")));
        arguments.extend(self.third.iter().map(|path| format!("third={}", path.display())));
        arguments.extend(self.exchange.iter().map(|(every, other)| format!("every-{every}={other}")));
        arguments
    }

    fn parse(arguments: &[String]) -> RunResult<Self> {
        let mut job = Job::fixed("", 0, "auto");
        settings(arguments, |name, value| {
            match (name, value) {
                ("pipeline", _) => job.pipeline = value.into(),
                ("items", _) => job.items = value.parse()?,
                ("mapping", _) => job.mapping = value.into(),
                ("dispatch", "round-robin") => job.dispatch = Dispatch::RoundRobin,
                ("balance", "live") => job.balance = Balance::Live,
                ("core", _) => job.cores.push(value.parse()?),
                ("third", _) => job.third = Some(value.into()),
                (name, _) => match name.strip_prefix("every-") {
                    Some(every) => job.exchange = Some((every.parse::<u64>()?.max(1), value.into())),
                    None => return Ok(false),
                },
            }
            Ok(true)
        })?;
        Ok(job)
    }

    fn stages(&self) -> Result<&'static [SyntheticStage], String> {
        match self.pipeline.as_str() {
            "uneven" => Ok(synthetic_work::UNEVEN),
            "moved" => Ok(synthetic_work::REMAPPED),
            other => Err(format!("there is no pipeline {other}")),
        }
    }
}

const LIMIT: Duration = Duration::from_secs(600);

impl Run {
    fn read(output: &str) -> RunResult<Self> {
        let values: Values = one(output)?;
        let mapping_lines =
            output.lines().filter_map(|line| line.strip_prefix("mapping ")).map(String::from).collect();
        let value = |name: &str| {
            values.get(name).copied().ok_or_else(|| format!("expected {name} in the result:\n{output}"))
        };
        Ok(Run {
            total: value("total")?,
            tail: value("tail")?,
            changes: value("changes")?,
            in_flight: value("in_flight")?,
            cost: value("cost").ok(),
            cost_windows: value("cost_windows").ok(),
            mapping_lines,
        })
    }
}

/// Runs the rank program; prints lines `mapping …` and one line `result total S tail S changes N in_flight N [cost S]
/// [cost_windows N]` on rank 0.
///
/// # Errors
/// If the arguments are wrong, the ranks cannot be pinned, or the checksum is wrong.
pub fn main(arguments: &[String]) -> RunResult {
    let job = Job::parse(arguments)?;
    pin_rank(&job.cores)?;
    // An item takes so long that each batch has a single item, and the number of batches in flight
    // is the number of items in flight.
    let config = Config::from_env()?.progress(Progress::Off);
    Ok(armature::run(&config, |session| job.rank(session))?)
}

impl Job {
    fn rank(&self, session: &mut Session) -> Result<(), BoxError> {
        let stages = self.stages()?;
        let start = Instant::now();
        let (mut sum, mut arrived) = (0, 0);
        let (mut third, mut end) = (start, start);
        let sink = |result| {
            sum = synthetic_work::fold(sum, result);
            arrived += 1;
            if arrived == self.items / 3 {
                third = Instant::now();
                // If the file cannot be written, the experiment that waits for it reports the failure.
                let _ = self.third.as_ref().map(|path| fs::write(path, "a third is through"));
            }
            if arrived == self.items {
                end = Instant::now();
            }
        };
        let mut pipeline = synthetic_work::pipeline(stages, self.items)
            .mapping(choice(&self.mapping))
            .dispatch(self.dispatch);
        pipeline = pipeline.batch(BatchMode::Fixed(1)).balance(self.balance);
        for (number, after) in self.schedule() {
            let other = self.exchange.as_ref().map_or("", |(_, other)| other);
            pipeline =
                pipeline.remap_after(after, choice(if number % 2 == 0 { other } else { &self.mapping }));
        }
        let run = pipeline.for_each(session, "fold", sink)?;
        let Some(summary) = run.into_summary() else { return Ok(()) };
        if arrived != self.items || sum != synthetic_work::expected(stages, self.items) {
            return Err(format!("the results are wrong: {arrived} items, checksum {sum:#x}").into());
        }
        print_result(&summary, end - start, end - third);
        Ok(())
    }

    fn schedule(&self) -> impl Iterator<Item = (usize, u64)> {
        let every = self.exchange.as_ref().map_or(self.items.max(1), |(every, _)| *every);
        (1..).map(move |n| n * every).take_while(|&after| after < self.items).enumerate()
    }
}

fn choice(text: &str) -> MappingChoice {
    match text {
        "auto" => MappingChoice::Auto,
        _ => MappingChoice::Text(text.into()),
    }
}

fn print_result(summary: &Summary, total: Duration, tail: Duration) {
    for remap in &summary.remaps {
        let times = match (remap.before, remap.after) {
            (Some(before), Some(after)) => {
                format!("; {:.3} ms an item before, {:.3} after", 1e3 * before, 1e3 * after)
            }
            _ => String::new(),
        };
        println!("mapping {:.2} s: {} because {}{times}", remap.at.as_secs_f64(), remap.to, remap.reason);
    }
    // The initial mapping and the planned one are not counted, because runs without changes have them, too.
    let initial_mappings = if summary.predicted.is_some() { 2 } else { 1 };
    let changes = summary.remaps.get(initial_mappings..).unwrap_or_default();
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let in_flight = mean(changes.iter().map(|remap| remap.in_flight as f64).collect());
    let account = |name: &str, values: Vec<f64>| match values.is_empty() {
        true => String::new(),
        false => format!(" {name} {}", mean(values)),
    };
    let cost = account("cost", changes.iter().filter_map(|remap| remap.cost).collect())
        + &account("cost_windows", changes.iter().filter_map(|remap| remap.cost_windows).collect());
    println!(
        "result total {} tail {} changes {} in_flight {in_flight}{cost}",
        total.as_secs_f64(),
        tail.as_secs_f64(),
        changes.len()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_arguments_round_trip() {
        let plain = Job::fixed("uneven", 12, "auto");
        let full = Job {
            dispatch: Dispatch::RoundRobin,
            balance: Balance::Live,
            cores: vec![0, 3],
            third: Some("a file".into()),
            exchange: Some((7, "a@0 | b@1".into())),
            ..Job::fixed("moved", 50, "a@1 | b@0,1")
        };
        for job in [plain, full] {
            assert_eq!(Job::parse(&job.arguments()).unwrap(), job);
        }
        assert!(Job::parse(&["items".into()]).is_err() && Job::parse(&["speed=3".into()]).is_err());
    }

    #[test]
    fn results_are_correct_while_the_mapping_changes() {
        let mapping = "read@0 | first@0 | middle@1 | last@0,1 | write@0";
        let other = "read@0 | first@0,1 | middle@0 | last@1 | write@0";
        let job = Job { exchange: Some((5, other.into())), ..Job::fixed("moved", 40, mapping) };
        let config = Config::new().ranks(2).progress(Progress::Off);
        armature::run(&config, |session| job.rank(session)).unwrap();
        assert_eq!(job.schedule().count(), 7);
    }
}
