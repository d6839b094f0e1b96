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
use crate::doctor::{self, Doctor};
use crate::environment::{Environment, search_path};
use crate::error::LaunchError;
use crate::execute::Call;
use crate::hostfile::Hostfile;
use crate::job_state::ExitCodeRecord;
use crate::message::print_message;
use crate::plan::{self, PlanWorkflow};
use crate::report::{self, Events, Report, Trace};
use crate::supervise::{self, Terms};
use crate::top::{self, Top};
use crate::{Mpi, detect, explain, intermediate, workflow};

/// Default time limit for all ranks to start and connect to each other. The limit allows for a large job that starts on a busy machine, and
/// for a program that reads its input before it starts its session. A job that hangs at its start wastes this much of its allocation.
const START_LIMIT: Duration = Duration::from_secs(600);

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
/// Exit code: that of the program as reported by the launcher or by the job status; 124 after the time limit; 2 for an invalid option or hostfile;
/// 127 if the program or the launcher is missing; 1 if another error occurs before the start.
#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    launch: LaunchArgs,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "APP")]
    command: Vec<OsString>,
}

/// Options for the start of a job.
#[derive(Debug, Args)]
struct LaunchArgs {
    /// Number of ranks [default: number of slots in the hostfile or batch job, or of cores of this machine]
    #[arg(short = 'n', long = "ranks", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    ranks: Option<u32>,
    /// File with the hosts, one per line: NAME slots=N speed=S memory=M
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// End the job after this time, including restarts, as in 90s, 10m or 2h (without a unit: seconds) [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    timeout: Option<Duration>,
    /// MPI of the launcher [default: the MPI that the program is linked to]
    #[arg(long)]
    mpi: Option<Mpi>,
    /// Launcher that starts the ranks
    #[arg(long, default_value = "auto")]
    launcher: Launcher,
    /// Binding of ranks to cores; auto binds unless ranks outnumber slots
    #[arg(long, default_value = "auto")]
    bind: Bind,
    /// Let the other ranks continue when a rank dies, if the program can (Open MPI's mpirun, or srun)
    #[arg(long)]
    recover: bool,
    /// Restart the job up to N times after a crash; it resumes from its journal or checkpoint if it has one. A job is not restarted if its own code
    /// has failed, if a signal asked it to end, or if it has run out of memory
    #[arg(long, value_name = "N", default_value_t = 0)]
    restarts: u32,
    /// End the job if not all ranks have started and connected to each other within this time, for each start [default: 10m with --recover,
    /// --restarts or --job-status, otherwise no limit]. The death of a rank on this machine is detected earlier
    #[arg(long, value_name = "TIME", value_parser = duration)]
    start_limit: Option<Duration>,
    /// Forward standard input to the launcher, and thus to rank 0 [default: standard input is not read]
    #[arg(long)]
    stdin: bool,
    /// File for the job status, which no other job uses and rank 0 can write [default: a temporary file, in the current directory if there are
    /// several hosts]
    #[arg(long, value_name = "FILE")]
    job_status: Option<PathBuf>,
    /// Print the command and the hostfile without starting anything
    #[arg(long)]
    dry_run: bool,
    /// Print the command before starting it
    #[arg(short, long)]
    verbose: bool,
}

/// Measure the speeds, memory and connections of the hosts of a job, and write them to a platform file for the planners.
///
/// Ranks of the program armature-probe are started as with `armature run`. Start as many on each host as the job will have: speeds and memory are those
/// of a rank beside the others. Connections are measured between one rank of each host.
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
    /// File of the workflow, and options of armature-workflow
    #[arg(required = true, trailing_var_arg = true, value_name = "FILE")]
    arguments: Vec<OsString>,
}

/// Explain the decisions of a run from its event log.
///
/// A program that uses armature logs its events to DIR, one file per rank, if it is started with ARMATURE_EVENTS=DIR. The output has the initial
/// mapping, number of workers, distribution of units or plan, and each change with its reason, its predicted gain and its result; at the end, what
/// the ranks waited for, and the critical path of a workflow.
#[derive(Debug, Args)]
struct Explain {
    /// Directory of the event log
    #[arg(value_name = "DIR")]
    directory: PathBuf,
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
    let result = match Cli::parse().command {
        Action::Run(run) => start(run.launch, run.command),
        Action::Explain(asked) => tell(&asked),
        Action::Report(asked) => report::report(&asked).and_then(|text| print(&text)),
        Action::Trace(asked) => report::trace(&asked).and_then(|text| print(&text)),
        Action::Events(asked) => report::events(&asked).and_then(|text| print(&text)),
        Action::Top(asked) => top::top(&asked),
        Action::Doctor(asked) => doctor::doctor(&asked).and_then(|(text, code)| print(&text).map(|_| code)),
        Action::Workflow(WorkflowAction::Run(run)) => {
            workflow::command(run.program, run.arguments).and_then(|command| start(run.launch, command))
        }
        Action::Workflow(WorkflowAction::Output(asked)) => workflow::output(&asked),
        Action::Probe(asked) => detect::companion(doctor::PROBE).and_then(|program| {
            let command = [program.into(), "--platform".into(), "--output".into(), asked.output.into()];
            start(asked.launch, command.into())
        }),
        Action::Plan(Plan::Workflow(asked)) => plan::run(&asked).and_then(|text| print(&text)),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            print_message(&error);
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
        print_message(warning);
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
        print_message(line.display("hosts"));
    }
    let program = std::env::current_exe().map_err(LaunchError::io("find this program's own file"))?;
    let (ranks, all_here) = (line.ranks, line.all_here);
    let mut call = Call::new(line)?.reads_stdin(run.stdin).bound_to_this_process(program);
    let record = ExitCodeRecord::of_environment();
    let keep = |code: u8| {
        if let Some(record) = record {
            record.write(code);
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
    // The hosts of a hostfile stay the same if Slurm's allocation loses nodes.
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
    fn command_definition_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_are_parsed_with_their_units() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        for text in ["", "m", "0", "-1s", "inf", "nan", "1d", "1e300h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn unknown_option_is_refused_and_not_taken_for_the_program() {
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
