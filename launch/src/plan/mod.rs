//! `armature plan workflow`: assigns the tasks of a workflow to processors and times.

mod chart;
mod explain;
mod input;
mod json;
mod report;
mod units;

use std::path::{Path, PathBuf};

use armature_files::output;
use armature_papers::workflow::plan_with_blocks;
use armature_planner::workflow::{BestPlan, Cluster, PlanOptions, TaskMemory, Workflow};
use armature_workflow_files::Description;
use clap::Args;
pub(crate) use input::workflow as read_workflow;

use crate::error::LaunchError;

/// Plan a workflow: assign its tasks to processors and times so that all memory limits hold.
///
/// The workflow is a file in WfFormat (WfCommons), a .dag of pegasus-mpi-cluster, a dot file or TOML. The platform is a TOML file of processors, or a
/// hostfile with memory=, in which each slot is a processor.
///
/// All planners are tried, and the best plan is printed with the result of an independent verifier. Tasks that the file marks as done are included:
/// the plan covers a complete run.
///
/// Exit code: 0 with a plan; 2 if a file cannot be read or parsed, or the task does not exist; 3 if no plan fits the memory of the platform.
#[derive(Debug, Args)]
pub(crate) struct PlanWorkflow {
    /// File of the workflow
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// File of the processors: a platform in TOML, or a hostfile
    #[arg(long, value_name = "FILE")]
    platform: PathBuf,
    /// Show the result of each planner
    #[arg(long)]
    compare: bool,
    /// Print the plan as JSON
    #[arg(long)]
    json: bool,
    /// Draw the plan to this SVG file: a line for each processor, a box for each task
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print what this task waits for, instead of the plan
    #[arg(long, value_name = "TASK", conflicts_with = "json")]
    explain: Option<String>,
    /// Meaning of a task's memory: its own, with its files in addition, or all of it, files included [default: included in WfFormat, which has
    /// measured values; otherwise own]
    #[arg(long, value_name = "MEANING")]
    task_memory: Option<Meaning>,
    /// Maximum number of plans that the local search tries [default: a number that takes about a minute with 30,000 tasks]
    #[arg(long, value_name = "N")]
    evaluations: Option<usize>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Meaning {
    Own,
    Included,
}

struct Planned {
    workflow: Workflow,
    cluster: Cluster,
    best: BestPlan,
    name: String,
    platform: String,
}

pub(crate) fn run(args: &PlanWorkflow) -> Result<String, LaunchError> {
    let (description, format) = input::workflow(&args.file)?;
    let cluster = input::platform(&args.platform)?;
    let mut options = PlanOptions::default();
    options.memory.task_memory = match args.task_memory {
        Some(Meaning::Own) => TaskMemory::Additive,
        Some(Meaning::Included) => TaskMemory::IncludesIo,
        None => format.task_memory(),
    };
    options.evaluations = args.evaluations.unwrap_or(options.evaluations);
    // The name of the task is checked before planning, which may take long.
    let task = args.explain.as_deref().map(|name| task_of(&description, name, &args.file)).transpose()?;
    let planned = planned(&description, cluster, &options, &args.platform)?;
    if let Some(file) = &args.svg {
        let drawn = output::write(file, chart::svg(&planned).as_bytes());
        drawn.map_err(LaunchError::io(format!("write the chart to {}", file.display())))?;
    }
    Ok(match task {
        Some(task) => explain::explain(&planned, task),
        None if args.json => json::json(&planned),
        None => report::report(&planned, args.compare),
    })
}

fn planned(
    description: &Description,
    cluster: Cluster,
    options: &PlanOptions,
    platform: &Path,
) -> Result<Planned, LaunchError> {
    let workflow = description.to_workflow().map_err(LaunchError::Workflow)?;
    let best = plan_with_blocks(&workflow, &cluster, options).map_err(LaunchError::Plan)?;
    let platform = platform.display().to_string();
    Ok(Planned { workflow, cluster, best, name: description.name().to_string(), platform })
}

fn task_of(description: &Description, name: &str, file: &Path) -> Result<usize, LaunchError> {
    let found = description.tasks().iter().position(|task| task.name == name);
    found.ok_or_else(|| LaunchError::NoTask { name: name.into(), file: file.into() })
}
