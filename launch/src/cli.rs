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
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::command_line::{Bind, Job, Launcher, command_line};
use crate::environment::{Environment, search_path};
use crate::error::LaunchError;
use crate::execute::Call;
use crate::hostfile::Hostfile;
use crate::plan::{self, PlanWorkflow};
use crate::report::{self, Events, Report, Trace};
use crate::say::say;
use crate::standing::StatusKeeper;
use crate::supervise::{self, Terms};
use crate::top::{self, Top};
use crate::{Mpi, detect, explain, stage, workflow};

/// Default time limit for all ranks to start and connect to each other. It is longer than a large job takes to start on a busy machine, or
/// a program to read its input first. A job that hangs at its start wastes this much of its allocation.
const START_LIMIT: Duration = Duration::from_secs(600);

/// Starts MPI programs the right way for Open MPI, MPICH and srun.
#[derive(Debug, Parser)]
#[command(name = "armature", version)]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Run(Run),
    Explain(Explain),
    Report(Report),
    Events(Events),
    Trace(Trace),
    Top(Top),
    #[command(subcommand)]
    Plan(Plan),
    #[command(subcommand)]
    Workflow(WorkflowAction),
}

/// Plan what is to be run, for a platform that need not be there.
#[derive(Debug, Subcommand)]
enum Plan {
    Workflow(PlanWorkflow),
}

/// Start a program on the ranks of this machine, of a hostfile or of the batch job around it.
///
/// Finds out which MPI the program is linked to and builds the line for its launcher: Open MPI's or MPICH's mpirun,
/// or srun inside a Slurm allocation. A PBS job's node file is used as the hostfile.
///
/// The program is the same on all ranks: an argument `:` is refused, because launchers take it for the beginning of another.
///
/// With --recover, --restarts, --job-status or --start-limit, what counts is the job status that the program leaves in a file, not how its
/// launcher ends: 0 only if the job says that it has finished. A launcher that does not end when the job has is ended, with
/// all processes that it has started. The program must use armature.
///
/// Exit code: the program's own, as the launcher reports it, or as the job status says; 124 after the time limit; 2 for a wrong
/// option or hostfile; 127 if the program or the launcher is missing; 1 if something else went wrong before the start.
#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    launch: LaunchArgs,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "APP")]
    command: Vec<OsString>,
}

/// How a job is started.
#[derive(Debug, Args)]
struct LaunchArgs {
    /// Number of ranks [default: the slots of the hostfile or batch job, or this machine's cores]
    #[arg(short = 'n', long = "ranks", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    ranks: Option<u32>,
    /// Hosts, one a line: NAME slots=N speed=S memory=M
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// End the job after this time, restarts included, as in 90s, 10m or 2h (a plain number is seconds)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// The MPI to start with [default: the one that the program is linked to]
    #[arg(long)]
    mpi: Option<Mpi>,
    /// Whose launcher to use
    #[arg(long, default_value = "auto")]
    launcher: Launcher,
    /// Tie ranks to cores; auto does not where there are more ranks than slots
    #[arg(long, default_value = "auto")]
    bind: Bind,
    /// Let ranks go on when one dies, if the program can (Open MPI's mpirun, and srun)
    #[arg(long)]
    recover: bool,
    /// Start the job again when it dies as a whole, so many times at most; it goes on from its journal if it has one.
    /// A job whose own code failed is not started again, nor is one that was asked to end by a signal or has run out of memory
    #[arg(long, value_name = "N", default_value_t = 0)]
    restarts: u32,
    /// End the job if not all ranks have started and found each other within this time, each time that it is started
    /// [default, with --recover, --restarts or --job-status: 10m]. A rank that dies on this machine meanwhile is noticed at once
    #[arg(long, value_name = "TIME", value_parser = duration)]
    start_limit: Option<Duration>,
    /// Hand standard input on to the launcher, and with it to rank 0. Otherwise nothing is read from it
    #[arg(long)]
    stdin: bool,
    /// Keep the job status in this file, which no other job uses; rank 0 must be able to write it [default: a temporary one, in the current directory
    /// where there are several hosts]
    #[arg(long, value_name = "FILE")]
    job_status: Option<PathBuf>,
    /// Print the command and the hostfile, and do not start anything
    #[arg(long)]
    dry_run: bool,
    /// Print the command before it is started
    #[arg(short, long)]
    verbose: bool,
}

/// Run workflows, and see what their tasks wrote.
#[derive(Debug, Subcommand)]
enum WorkflowAction {
    Run(RunWorkflow),
    Output(workflow::Output),
}

/// Run a workflow's commands, or replay what was measured, on the ranks of this machine, of a hostfile or of the batch job around it.
///
/// The workflow is read first, so that a fault in it is told before anything starts. Then the program armature-workflow is started as by
/// `armature run`: on each rank it runs one task at a time. Its options follow FILE: armature-workflow --help shows them. Where hosts share no
/// directory, --send-files brings files to the tasks that read them.
///
/// Exit code: 0 when all tasks are done; 1 if one has failed, or the job has; otherwise as with armature run.
#[derive(Debug, Args)]
struct RunWorkflow {
    #[command(flatten)]
    launch: LaunchArgs,
    /// The program that runs the tasks [default: armature-workflow beside this program, or in the PATH]
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// The workflow, and options of armature-workflow
    #[arg(required = true, trailing_var_arg = true, value_name = "FILE")]
    arguments: Vec<OsString>,
}

/// Say what was decided in a run, and why, from the events that it logged.
///
/// A program that uses armature logs its events to DIR if it is started with ARMATURE_EVENTS=DIR, in one file a rank.
/// Shown are the mapping at the start, the number of workers, the distribution of units or the plan, each change of it with its reason and
/// its numbers, the stages that were handed over, and what came of it; at the end, what the ranks waited for, and of a workflow the critical path.
#[derive(Debug, Args)]
struct Explain {
    /// The directory of the event log
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Show every event: also decisions to leave the mapping as it is, and the measurements that they stand on
    #[arg(long)]
    all: bool,
    /// Show what has become of this task of a workflow, and what it waited for: inputs, memory, a limit, other tasks
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    task: Option<String>,
    /// Show how it stood at this time, in seconds after the run began: what was in force, which tasks ran and what others waited for, what ranks
    /// did around that time, and what was decided before and after
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["all", "task"])]
    at: Option<f64>,
}

/// Parses the arguments of this process and runs the requested command.
pub fn main() -> ExitCode {
    if let Some(code) = stage::enter(std::env::args_os()) {
        return code;
    }
    let result = match Cli::parse().command {
        Action::Run(run) => start(run.launch, run.command),
        Action::Explain(asked) => tell(&asked),
        Action::Report(asked) => report::report(&asked).and_then(|text| print(&text)),
        Action::Trace(asked) => report::trace(&asked).and_then(|text| print(&text)),
        Action::Events(asked) => report::events(&asked).and_then(|text| print(&text)),
        Action::Top(asked) => top::top(&asked),
        Action::Workflow(WorkflowAction::Run(run)) => {
            workflow::command(run.program, run.arguments).and_then(|command| start(run.launch, command))
        }
        Action::Workflow(WorkflowAction::Output(asked)) => workflow::output(&asked),
        Action::Plan(Plan::Workflow(asked)) => plan::run(&asked).and_then(|text| print(&text)),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

fn tell(asked: &Explain) -> Result<u8, LaunchError> {
    let directory = report::directory(&asked.directory);
    let log = armature::observe::read(&directory).map_err(LaunchError::Events)?;
    if let Some(at) = asked.at {
        let no_run = || LaunchError::NoMoment { at, directory };
        return print(&explain::explain_at(&log, at).ok_or_else(no_run)?);
    }
    match &asked.task {
        None => print(&explain::explain(&log, asked.all)),
        Some(name) => {
            let no_task = || LaunchError::NoTask { name: name.clone(), file: directory };
            print(&explain::explain_task(&log, name).ok_or_else(no_task)?)
        }
    }
}

/// Writes `text` to standard output.
fn print(text: &str) -> Result<u8, LaunchError> {
    let mut output = std::io::stdout();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        // The reader has closed the pipe, as in `armature explain DIR | head`.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(0),
        result => result.map(|()| 0).map_err(LaunchError::io("write to standard output")),
    }
}

fn start(run: LaunchArgs, command: Vec<OsString>) -> Result<u8, LaunchError> {
    let hosts = run.hostfile.as_deref().map(Hostfile::read).transpose()?;
    let environment = Environment::survey(hosts.is_some());
    let name = command[0].to_string_lossy().into_owned();
    let program = detect::program(&name, &search_path())?;
    let mpi = match run.mpi {
        Some(mpi) => mpi,
        None => detect::mpi_of(&program, &environment)?,
    };
    let ranks = run.ranks.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
    let LaunchArgs { bind, launcher, recover, restarts, start_limit, .. } = run;
    let job_status = recover || restarts > 0 || run.job_status.is_some() || start_limit.is_some();
    let job = Job::new(program, command.into_iter().skip(1));
    let job = Job { ranks, hosts, bind, launcher, recover, job_status, ..job };
    let line = command_line(&job, mpi, &environment)?;
    if let Some(warning) = &line.warning {
        say(warning);
    }
    if run.dry_run {
        let mut text = String::new();
        if let Some(hostfile) = &line.hostfile {
            text += "# hosts:\n";
            hostfile.lines().for_each(|line| text += &format!("#   {line}\n"));
        }
        return print(&format!("{text}{}\n", line.display("hosts")));
    }
    if run.verbose {
        say(line.display("hosts"));
    }
    let program = std::env::current_exe().map_err(LaunchError::io("find this program's own file"))?;
    let (ranks, all_here) = (line.ranks, line.all_here);
    let mut call = Call::new(line)?.reads_stdin(run.stdin).bound_to_this_process(program);
    let keeper = StatusKeeper::of_environment();
    let keep = |code: u8| {
        if let Some(keeper) = keeper {
            keeper.leave(code);
        }
        code
    };
    if !job_status {
        return call.run(run.timeout).map(keep);
    }
    // Other hosts may share the current directory, but they do not share the directory for temporary files.
    let alone = job.hosts.is_none() && environment.batch.is_none();
    let place = if alone { std::env::temp_dir() } else { PathBuf::from(".") };
    let doing = format!(
        "make a directory for the job status in {}; --job-status FILE names another place",
        place.display()
    );
    let (_directory, file) = match run.job_status {
        Some(file) => (None, file),
        None => {
            let made = tempfile::Builder::new().prefix(".armature-job-status-").tempdir_in(place);
            let directory = made.map_err(LaunchError::io(doing))?;
            let file = directory.path().join("job-status");
            (Some(directory), file)
        }
    };
    // Ranks may have another current directory.
    let file = std::path::absolute(&file).map_err(LaunchError::io("find out the current directory"))?;
    let terms = Terms {
        job_status: &file,
        restarts,
        limit: run.timeout,
        start_limit: start_limit.unwrap_or(START_LIMIT),
        all_here: all_here.then_some(ranks),
    };
    // A hostfile does not change with Slurm's allocation.
    let renew = || match environment.after_lost_nodes().filter(|_| job.hosts.is_none()) {
        Some((environment, overrides)) => Ok(Some((command_line(&job, mpi, &environment)?, overrides))),
        None => Ok(None),
    };
    supervise::supervise(&mut call, &terms, renew).map(keep)
}

/// Parses a time such as `90`, `90s`, `1.5m` or `2h`.
fn duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("`{text}` is not a time above 0 such as 90s, 10m or 2h");
    let (number, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(number) => (number, text.chars().last()),
        None => (text, None),
    };
    let unit = match unit {
        Some('h') => 3600.0,
        Some('m') => 60.0,
        _ => 1.0,
    };
    let seconds = number.parse::<f64>().map_err(|_| expected())? * unit;
    Duration::try_from_secs_f64(seconds).ok().filter(|time| !time.is_zero()).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn times() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        for text in ["", "m", "0", "-1s", "inf", "nan", "1d", "1e300h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_unknown_option_is_not_taken_for_the_program() {
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
    fn the_programs_options_are_its_own() {
        let args = ["armature", "run", "-n", "6", "ferret", "query", "-k", "10", "--dry-run"];
        let Action::Run(run) = Cli::try_parse_from(args).unwrap().command else { panic!("another command") };
        assert_eq!(run.command, ["ferret", "query", "-k", "10", "--dry-run"]);
        assert!(!run.launch.dry_run);
    }
}
