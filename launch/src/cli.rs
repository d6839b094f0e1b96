//! The command line of `armature`.
//!
//! Exit codes of `armature run`: the program's own as reported by the launcher or, with `--recover`, `--restarts` or `--job-status`, by its
//! job status; 124 after the time limit; 2 for an invalid option or hostfile; 127 if the program or the launcher is missing; 1 if another
//! error occurs before the start. `armature explain`, `report` and `events` exit with 2 if they cannot read the log. `armature plan` exits
//! with 2 if it cannot read a file, and with 3 if no plan fits.

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueHint};

use crate::doctor::{self, Doctor};
use crate::error::LaunchError;
use crate::help_files::{self, Completions, Manual};
use crate::logs::{self, Logs};
use crate::message::print_message;
use crate::plan::{self, PlanWorkflow};
use crate::report::{self, Events, Report, Trace};
use crate::run_directory::reference::events;
use crate::simulate::{self, Simulate};
use crate::start::{LaunchArgs, start};
use crate::status::{self, Status};
use crate::stop::{self, Cancel, Stop};
use crate::submit::{self, Submit};
use crate::top::{self, Top};
use crate::{detect, explain, intermediate, version, workflow};

/// Start MPI programs with Open MPI, MPICH or srun, and show what they did.
#[derive(Debug, Parser)]
#[command(name = "armature", version)]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Run(Run),
    Simulate(Simulate),
    Submit(Box<Submit>),
    Status(Status),
    Logs(Logs),
    Stop(Stop),
    Cancel(Cancel),
    Explain(Explain),
    Report(Report),
    Events(Events),
    Trace(Trace),
    Top(Top),
    Doctor(Doctor),
    Probe(Probe),
    #[command(subcommand)]
    Plan(Plan),
    #[command(subcommand)]
    Workflow(WorkflowAction),
    Completions(Completions),
    #[command(name = "man")]
    Manual(Manual),
}

/// Plan work for a platform, which need not be available.
#[derive(Debug, Subcommand)]
enum Plan {
    Workflow(PlanWorkflow),
}

/// Start a program on the ranks of this machine, of a hostfile or of the current batch job.
///
/// The MPI that the program is linked to determines the launcher: mpirun of Open MPI or MPICH, or srun inside a Slurm allocation. In a PBS job, the
/// node file is used as the hostfile.
///
/// All ranks run the same program. An argument `:` is refused, because launchers take it for the beginning of another program.
///
/// With --recover, --restarts, --job-status or --start-limit, the exit code comes from the job status that the program writes to a file, and not from
/// the launcher: it is 0 only if the job status says that the job has finished. If the launcher does not end after the job, it is ended together with
/// all processes that it has started. These options need a program that uses armature.
///
/// With --run, the run has a record in armature-runs/NAME-N: the events and the output of each attempt, and the reason for its end. `armature status`,
/// `logs`, `stop` and `cancel` read the record.
///
/// Exit code: that of the program as reported by the launcher or by the job status, 85 if it has stopped at a checkpoint; 124 after the time limit; 2 for an invalid option or hostfile;
/// 127 if the program or the launcher is missing; 1 if another error occurs before the start.
#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    launch: LaunchArgs,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "APP", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// Measure the speeds, memory and connections of the hosts of a job, and write them to a platform file for the planners.
///
/// Ranks of the program armature-probe are started as with `armature run`. Start as many on each host as the job will have, because all ranks of a host
/// are measured at the same time. Connections are measured between one rank of each host.
///
/// Exit code: 0 if the file is written; otherwise as with `armature run`.
#[derive(Debug, Args)]
struct Probe {
    #[command(flatten)]
    launch: LaunchArgs,
    /// File to write, which rank 0 must be able to write
    #[arg(short, long, value_name = "FILE", default_value = "platform.toml")]
    output: PathBuf,
}

/// Run workflows, and show the output of their tasks.
#[derive(Debug, Subcommand)]
enum WorkflowAction {
    Run(RunWorkflow),
    Output(workflow::Output),
}

/// Run the commands of a workflow, or replay their measurements, on the ranks of this machine, of a hostfile or of the current batch job.
///
/// The workflow is read first, so that errors in it are reported before anything starts. Then the program armature-workflow is started as with
/// `armature run`. Its options follow FILE; `armature-workflow --help` lists them. If hosts share no directory, --send-files sends files to the tasks
/// that read them.
///
/// Exit code: 0 if all tasks are done; 1 if a task or the job has failed; otherwise as with `armature run`.
#[derive(Debug, Args)]
struct RunWorkflow {
    #[command(flatten)]
    launch: LaunchArgs,
    /// Program that runs the tasks [default: armature-workflow in the directory of this program, or in the PATH]
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// File of the workflow, and options of armature-workflow, such as --array 1-8 -- COMMAND
    #[arg(required = true, trailing_var_arg = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    arguments: Vec<OsString>,
}

/// Explain the decisions of a run from its event log.
///
/// A program that uses armature logs its events, one file per rank, if it is started with ARMATURE_EVENTS=DIR or has a run directory. The output has the initial
/// mapping, number of workers, distribution of units or plan, and each change with its reason, its predicted gain and its result; at the end, what
/// the ranks waited for, and the critical path of a workflow.
#[derive(Debug, Args)]
struct Explain {
    /// Directory of the event log or of the run, `last`, name of a run, or number of a batch job; RUN@K is attempt K
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Show every event, including decisions against a change and the measurements behind decisions
    #[arg(long)]
    all: bool,
    /// Show the history of this task of a workflow, and what it waited for: inputs, memory, a limit, other tasks
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    task: Option<String>,
    /// Show the state at this time, in seconds since the beginning of the run: mapping or plan, running and waiting tasks, activities of the ranks,
    /// and the decisions before and after
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["all", "task"])]
    at: Option<f64>,
}

/// Parses the arguments of this process and runs the requested command.
pub fn main() -> ExitCode {
    if let Some(code) = intermediate::enter(std::env::args_os()) {
        return code;
    }
    let result = match Cli::try_parse() {
        Ok(cli) => run(cli.command),
        Err(error) if error.kind() == clap::error::ErrorKind::DisplayVersion => print(&version::text()),
        Err(error) => error.exit(),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            print_message(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(action: Action) -> Result<u8, LaunchError> {
    match action {
        Action::Run(run) => start(run.launch, run.command),
        Action::Simulate(args) => simulate::simulate(&args),
        Action::Submit(args) => submit::submit(&args),
        Action::Status(args) => status::status(&args),
        Action::Logs(args) => logs::logs(&args),
        Action::Stop(args) => stop::stop(&args),
        Action::Cancel(args) => stop::cancel(&args),
        Action::Explain(args) => run_explain(&args),
        Action::Report(args) => report::report(&args).and_then(|text| print(&text)),
        Action::Trace(args) => report::trace(&args).and_then(|text| print(&text)),
        Action::Events(args) => report::events(&args).and_then(|text| print(&text)),
        Action::Top(args) => top::top(&args),
        Action::Doctor(args) => doctor::doctor(&args).and_then(|(text, code)| print(&text).map(|_| code)),
        Action::Workflow(WorkflowAction::Run(run)) => {
            workflow::command(run.program, run.arguments).and_then(|command| start(run.launch, command))
        }
        Action::Workflow(WorkflowAction::Output(args)) => workflow::output(&args),
        Action::Probe(args) => detect::companion(doctor::PROBE).and_then(|program| {
            let command = [program.into(), "--platform".into(), "--output".into(), args.output.into()];
            start(args.launch, command.into())
        }),
        Action::Completions(args) => print(&help_files::completions(&args, Cli::command())),
        Action::Manual(args) => help_files::manual(&args, Cli::command()).and_then(|text| print(&text)),
        Action::Plan(Plan::Workflow(args)) => plan::run(&args).and_then(|text| print(&text)),
    }
}

fn run_explain(args: &Explain) -> Result<u8, LaunchError> {
    let directory = events(&args.run)?;
    let log = armature::observe::read(&directory).map_err(LaunchError::Events)?;
    if let Some(at) = args.at {
        let no_run = || LaunchError::NoMoment { at, directory };
        return print(&explain::explain_at(&log, at).ok_or_else(no_run)?);
    }
    match &args.task {
        None => print(&explain::explain(&log, args.all)),
        Some(name) => {
            let no_task = || LaunchError::NoTask { name: name.clone(), file: directory };
            print(&explain::explain_task(&log, name).ok_or_else(no_task)?)
        }
    }
}

pub(crate) fn print(text: &str) -> Result<u8, LaunchError> {
    let mut output = std::io::stdout();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        // The reader has closed the pipe, as in `armature explain DIR | head`.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(0),
        result => result.map(|()| 0).map_err(LaunchError::io("write to standard output")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn unknown_option_is_not_mistaken_for_the_program() {
        for verb in [&["run"][..], &["workflow", "run"]] {
            let args = [&["armature"], verb, &["--rank", "2", "app"]].concat();
            let error = Cli::try_parse_from(args).unwrap_err();
            assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument);
            let text = error.to_string();
            assert!(text.contains("'--rank'") && text.contains("'--ranks'"), "{text}");
        }
        assert!(Cli::try_parse_from(["armature", "run", "-n", "2147483648", "app"]).is_err());
    }

    #[test]
    fn options_after_the_program_belong_to_the_program() {
        let args = ["armature", "run", "-n", "6", "ferret", "query", "-k", "10", "--dry-run"];
        let Action::Run(run) = Cli::try_parse_from(args).unwrap().command else { panic!("another command") };
        assert_eq!(run.command, ["ferret", "query", "-k", "10", "--dry-run"]);
        assert!(!run.launch.dry_run);
    }
}
