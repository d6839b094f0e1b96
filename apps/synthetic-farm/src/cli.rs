//! Command line of the `synthetic-farm` program.

use crate::farm::run_farm;
use crate::plan::Plan;
use crate::work_method::WorkMethod;
use armature_apps::farm::FarmArgs;
use armature_apps::terminal::{eprint_line, print};
use clap::Parser;
use std::process::ExitCode;

/// Run synthetic tasks with given times and sizes, and print the efficiency of the ranks.
///
///   synthetic-farm --tasks 1000 --mean 1 --deviation 50
///   mpirun -n 3 synthetic-farm --tasks 10000 --mean 0.5 --deviation 80 --block 20 --iterations 15 --chunking daf
///
/// Efficiency is the sum of the given task times, divided by workers times makespan. The amount of work
/// of a task is what rank 0 computes in the given time without other load. Efficiency is lower if
/// workers are slower or share their cores. The column `busy` has the efficiency with the measured task
/// times.
///
/// The output is a table of the iterations, followed by a line of JSON with the totals. Every result is
/// checked.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
struct Cli {
    /// Number of tasks of an iteration
    #[arg(long, default_value_t = 1000, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    tasks: u64,
    /// Number of iterations; the bytes of an iteration's tasks depend on the results of the previous iteration
    #[arg(long, default_value_t = 1, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    iterations: u32,
    /// Mean time of a task in milliseconds
    #[arg(long, default_value_t = 1.0, value_name = "MILLISECONDS", value_parser = parse_mean, allow_negative_numbers = true)]
    mean: f64,
    /// Standard deviation of the time of a task in percent of the mean; times have a gamma distribution
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT", value_parser = parse_deviation, allow_negative_numbers = true)]
    deviation: f64,
    /// Number of adjacent tasks with the same time; with 1, all times are independent
    #[arg(long, default_value_t = 1, value_name = "TASKS", value_parser = clap::value_parser!(u64).range(1..))]
    block: u64,
    /// Number of bytes sent to the worker with each task
    #[arg(long, default_value_t = 8, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(..=1 << 30))]
    task_bytes: u32,
    /// Number of bytes returned with each result
    #[arg(long, default_value_t = 8, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(..=1 << 30))]
    result_bytes: u32,
    /// Seed of the task times; equal seeds give equal tasks
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    seed: u64,
    /// Sleep instead of computing, for more ranks than cores
    #[arg(long)]
    sleep: bool,
    #[command(flatten)]
    farm: FarmArgs,
}

fn parse_mean(text: &str) -> Result<f64, String> {
    parse_up_to(text, 3_600_000.0)
}

fn parse_deviation(text: &str) -> Result<f64, String> {
    parse_up_to(text, 1000.0)
}

fn parse_up_to(text: &str, most: f64) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=most).contains(number));
    number.ok_or_else(|| format!("expected a number from 0 to {most}"))
}

impl Cli {
    fn plan(&self) -> Result<Plan, String> {
        let plan = Plan {
            tasks: self.tasks,
            iterations: self.iterations as usize,
            mean: self.mean / 1e3,
            deviation: self.deviation / 100.0,
            block: self.block,
            task_bytes: self.task_bytes as usize,
            result_bytes: self.result_bytes as usize,
            seed: self.seed,
        };
        plan.check().map(|()| plan)
    }
}

/// Runs the `synthetic-farm` program with the arguments of the process.
pub fn main() -> ExitCode {
    armature::exit_code(run(&armature_apps::version::parse()))
}

fn run(args: &Cli) -> Result<(), armature::BoxError> {
    let plan = args.plan()?;
    let found = armature::run(&args.farm.config()?, |session| {
        let work_method = match (session.is_simulated(), args.sleep) {
            (true, _) => WorkMethod::Declare,
            (false, true) => WorkMethod::Sleep,
            (false, false) => WorkMethod::Spin,
        };
        run_farm(session, &plan, work_method, &args.farm)
    })?;
    if let Some((report, summary)) = found {
        if args.farm.summary() {
            eprint_line(summary);
        }
        print(format_args!("{report}{}\n", report.line()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(arguments: &str) -> Result<Cli, String> {
        Cli::try_parse_from(["synthetic-farm"].into_iter().chain(arguments.split_whitespace()))
            .map_err(|e| e.to_string())
    }

    #[test]
    fn command_is_well_formed() {
        Cli::command().debug_assert();
        let plan =
            parse("--tasks 10 --mean 0.5 --deviation 80 --block 20 --task-bytes 24").unwrap().plan().unwrap();
        assert_eq!((plan.tasks, plan.block, plan.task_bytes), (10, 20, 24));
        assert!((plan.mean - 0.0005).abs() < 1e-15 && (plan.deviation - 0.8).abs() < 1e-15);
    }

    #[test]
    fn unusable_options_are_refused() {
        for (arguments, expected) in
            [("--tasks 0", "1..=100000000"), ("--block 0", "1.."), ("--iterations 0", "1..=1000000")]
        {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(expected), "{arguments}: {error}");
        }
        for (arguments, expected) in [
            ("--mean -1", "'--mean <MILLISECONDS>': expected a number from 0 to 3600000"),
            ("--mean nan", "expected a number from 0 to 3600000"),
            ("--mean 3600001", "expected a number from 0 to 3600000"),
            ("--deviation -1", "'--deviation <PERCENT>': expected a number from 0 to 1000"),
            ("--deviation 2000", "expected a number from 0 to 1000"),
        ] {
            let error = parse(arguments).unwrap_err();
            assert!(error.contains(expected), "{arguments}: {error}");
        }
        assert!(parse("--task-bytes 10000000").unwrap().plan().unwrap_err().contains("bytes an iteration"));
    }
}
