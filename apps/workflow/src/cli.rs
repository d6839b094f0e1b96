//! Command line of the `armature-workflow` program.

mod send;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use armature::farm::Farm;
use armature::job_status::JobStatus;
use armature::workflow::{Cluster, Summary, TaskMemory, Workflow};
use armature::{BoxError, Commands, Config, Session};
use armature_apps::spin;
use armature_apps::terminal::{eprint_line, print};
use armature_files::regular::{self, Links};
use armature_workflow_files::{Description, Format, platform, to_wfformat};
use clap::{ArgGroup, Parser};

use crate::array::{self, Array, Numbers};
use crate::command::{self, CompletionHandler, Settings};
use crate::prepare::{self, Generated, NOTHING, REPLAY, Scale};
use crate::record;
use crate::replay::{Replay, WorkMethod};
use crate::rescue::Rescue;

/// Number of operations that a replayed task declares to the simulator for each second of its recorded time.
const SIMULATED_SPEED: f64 = 1e9;

/// Run the tasks of a workflow on the ranks of this job: its commands, or a replay of their
/// measurements.
///
///   armature workflow run align.dag
///   mpirun -n 4 armature-workflow align.dag --outputs logs --trace run.json
///   mpirun -n 4 --hostfile hosts armature-workflow align.toml --send-files
///   mpirun -n 4 armature-workflow solve.toml --array 1-8 -- ./solve input.{}
///   mpirun -n 4 armature-workflow rnaseq.json --synthetic-work --time-scale 0.001 --memory-scale 0.01
///   mpirun -n 4 armature-workflow --generate montage:200 --synthetic-work --time-scale 0.0001 --platform four.toml
///
/// The workflow is a file in WfFormat (such as the traces of nf-core), a .dag of pegasus-mpi-cluster, a
/// dot file or TOML. Each rank runs concurrently as many commands as its cores permit (--cores).
/// Commands run in one directory, which all ranks share unless files are sent (--send-files). Completed
/// tasks are recorded in the rescue file, and a restarted run skips them.
///
/// A failed task is retried up to its number of tries (--tries). If it fails at every try, all tasks that
/// do not depend on it are run, and the exit code is 1.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment, group = ArgGroup::new("entries").args(["array", "each_line"]))]
struct Cli {
    /// File of the workflow
    #[arg(value_name = "FILE", required_unless_present = "generate")]
    file: Option<PathBuf>,
    /// Run COMMAND for each of these numbers, as in 1-8, 1-9:2 or 1,3,5, and write this workflow to FILE (.toml)
    #[arg(long, value_name = "NUMBERS", requires = "command", conflicts_with_all = ["synthetic_work", "send_files"])]
    array: Option<Numbers>,
    /// Run COMMAND for each line of this file, and write this workflow to FILE (.toml)
    #[arg(long, value_name = "LINES", requires = "command", conflicts_with_all = ["synthetic_work", "send_files"])]
    each_line: Option<PathBuf>,
    /// Command of --array or --each-line, and its arguments, in which {} is replaced by the number or the line
    #[arg(last = true, value_name = "COMMAND", requires = "entries")]
    command: Vec<String>,
    /// With --synthetic-work, generate a workflow instead of reading a file: a family (genome, blast, bwa, epigenomics, montage, seismology, soykb)
    /// and an approximate number of tasks. Tasks take 1 to 1000 s and 1 to 192 MB, and files have 1 to 10 MB
    #[arg(long, value_name = "FAMILY:TASKS[:SEED]", requires = "synthetic_work", conflicts_with = "file")]
    generate: Option<Generated>,
    /// Directory in which commands run
    #[arg(long, value_name = "DIR", default_value = ".")]
    directory: PathBuf,
    /// Send files between ranks that share no directory: the input files of a task to the rank that runs it, and output files to the directory of
    /// rank 0. The other ranks run commands in temporary directories within theirs
    #[arg(long, conflicts_with_all = ["synthetic_work", "generate"])]
    send_files: bool,
    /// Directory for the output and the measurements of commands [default: FILE.outputs]
    #[arg(long, value_name = "DIR")]
    outputs: Option<PathBuf>,
    /// Rescue file, which names the completed tasks; remove it to run all tasks again [default: FILE.rescue]
    #[arg(long, value_name = "FILE")]
    rescue: Option<PathBuf>,
    /// Run all tasks again: rename the rescue file of an earlier run to FILE.rescue.old. A restart of this job ignores the option
    #[arg(long, conflicts_with = "synthetic_work")]
    skip_rescue: bool,
    /// Write a trace of the run in WfFormat 1.6 to this file: run time, peak memory and machine of each command
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Number of tries of a task whose description does not give one
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    tries: u32,
    /// End the job when this number of tasks have failed at every try; 0 for no limit
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    max_failures: usize,
    /// End the job after this time, as in 90s, 10m or 2h (without a unit: seconds). Choose a time below the limit of the batch job; completed tasks
    /// stay in the rescue file [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = time)]
    wall_time: Option<Duration>,
    /// Number of cores of a rank for its commands; commands run concurrently as far as their cores and memory fit
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    cores: u32,
    /// Memory of a rank for its tasks, as in 4GiB [default: no limit]
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<u64>,
    /// End a command that exceeds the memory of its task, and retry it with twice the memory, up to the number of tries
    #[arg(long)]
    enforce_memory: bool,
    /// Description of the ranks: a TOML file as for `armature plan workflow`, with one processor for each rank. Speeds and bandwidths are used for
    /// the plan; the tasks of a rank use at most the memory of its processor
    #[arg(long, value_name = "FILE")]
    platform: Option<PathBuf>,
    /// Run tasks on any free rank, without a plan, for example if the file has no measurements
    #[arg(long)]
    unplanned: bool,
    /// Replay measurements instead of running commands: compute for the same time, hold the same memory and send the same number of bytes; on
    /// simulated hosts, the work is declared
    #[arg(long)]
    synthetic_work: bool,
    /// With --synthetic-work, sleep instead of computing
    #[arg(long, requires = "synthetic_work")]
    sleep: bool,
    /// With --synthetic-work, factor of the run times
    #[arg(long, requires = "synthetic_work", value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    time_scale: f64,
    /// With --synthetic-work, factor of the memory
    #[arg(long, requires = "synthetic_work", value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    memory_scale: f64,
    /// With --synthetic-work, factor of the file sizes
    #[arg(long, requires = "synthetic_work", value_name = "FACTOR", default_value_t = 1.0, value_parser = factor)]
    size_scale: f64,
    /// Print a table of the work of each rank at the end
    #[arg(long)]
    summary: bool,
    /// Number of ranks, as threads of one process [default: 1]. A launcher such as mpirun sets the number itself
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    ranks: Option<u16>,
    /// Directory for the event log, from which `armature report DIR` creates a page
    #[arg(long, value_name = "DIR")]
    events: Option<PathBuf>,
}

impl Cli {
    /// Returns the configuration of the framework from environment variables, overridden by these command-line options. There is no option
    /// `--balance`, because a workflow has no load balancing that it could turn off.
    fn config(&self) -> armature::Result<Config> {
        let mut config = Config::from_env()?;
        if let Some(ranks) = self.ranks {
            config = config.ranks(ranks.into());
        }
        if let Some(events) = &self.events {
            config = config.events(Some(events.clone()));
        }
        Ok(config)
    }
}

fn factor(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1e6).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 1000000".into())
}

fn bytes(text: &str) -> Result<u64, String> {
    let bytes = armature_workflow_files::bytes(text).filter(|&bytes| bytes > 0);
    bytes.ok_or_else(|| "expected bytes, more than 0, such as 500MB or 4GiB".into())
}

fn time(text: &str) -> Result<Duration, String> {
    let time = armature_workflow_files::time(text).filter(|time| !time.is_zero());
    time.ok_or_else(|| "expected a time above 0, such as 90s, 10m or 2h".into())
}

/// Runs the `armature-workflow` program with the arguments of the process.
pub fn main() -> ExitCode {
    armature::exit_code(run(&armature_apps::version::parse()))
}

fn run(args: &Cli) -> Result<(), armature::BoxError> {
    let summary = match (&args.file, &args.generate) {
        (_, Some(generated)) => run_replay(args, generated.describe()?, TaskMemory::Additive),
        (Some(file), None) if args.send_files => send::commands(args, file),
        (Some(file), None) => {
            let array = read_array(args, file)?;
            let (described, format) = match &array {
                Some(array) => (array.description().clone(), Format::Toml),
                None => prepare::read(file)?,
            };
            match args.synthetic_work {
                true => run_replay(args, described, format.task_memory()),
                false => commands(args, file, array, described, format),
            }
        }
        (None, None) => Err("expected a FILE, or --generate".into()),
    }?;
    let Some(summary) = summary else { return Ok(()) };
    if args.summary {
        eprint_line(&summary);
    }
    print(format_args!("{}, after {:.3} s\n", completed_text(summary.tasks), summary.elapsed.as_secs_f64()))?;
    if summary.failed.is_empty() {
        return Ok(());
    }
    summary.failed.iter().take(MAX_PRINTED_FAILURES).for_each(eprint_line);
    if summary.failed.len() > MAX_PRINTED_FAILURES {
        eprint_line(format_args!("{} more failed", summary.failed.len() - MAX_PRINTED_FAILURES));
    }
    if let (Some(file), false) = (&args.file, args.synthetic_work) {
        let outputs = args.outputs.iter().map(|outputs| format!(" --outputs {}", outputs.display()));
        let outputs: String = outputs.collect();
        eprint_line(format_args!(
            "`armature workflow output{outputs} {} TASK` shows what a task wrote",
            file.display()
        ));
    }
    Err(failed_text(&summary).into())
}

const MAX_PRINTED_FAILURES: usize = 20;

fn completed_text(tasks: u64) -> String {
    if tasks == 1 { "1 task is done".into() } else { format!("{tasks} tasks are done") }
}

fn failed_text(summary: &Summary) -> String {
    let (failed, names) = (summary.failed.len(), summary.failed_names());
    let (failed, them) = match failed {
        1 => (format!("1 task has failed ({names})"), "it"),
        _ => (format!("{failed} tasks have failed ({names})"), "them"),
    };
    match summary.skipped {
        0 => failed,
        1 => format!("{failed}, and 1 that depends on {them} was skipped"),
        skipped => format!("{failed}, and {skipped} that depend on {them} were skipped"),
    }
}

fn cluster(args: &Cli) -> Result<Option<Cluster>, armature::BoxError> {
    let Some(file) = &args.platform else { return Ok(None) };
    let name = file.display().to_string();
    let bytes = regular::read(file).map_err(|error| format!("cannot read the platform {name}: {error}"))?;
    Ok(Some(platform::read(&name, &bytes)?))
}

fn set_up<'w>(
    args: &Cli,
    cluster: Option<&Cluster>,
    description: impl Into<Arc<Description>>,
    task_memory: TaskMemory,
) -> Workflow<'w> {
    let mut workflow =
        Workflow::from_description(description).retries(args.tries - 1).task_memory(task_memory);
    if args.unplanned {
        workflow = workflow.unplanned();
    }
    if let Some(memory) = args.memory {
        workflow = workflow.memory(memory);
    }
    if let Some(cluster) = cluster {
        workflow = workflow.cluster(cluster.clone());
    }
    if let Some(limit) = args.wall_time {
        workflow = workflow.wall_time(limit);
    }
    // With `--max-failures N`, the job ends at the N-th failed task: N - 1 failures are tolerated. For N = 0 (no limit), the difference wraps around
    // to the largest number.
    workflow.max_failures(args.max_failures.wrapping_sub(1))
}

fn run_replay(
    args: &Cli,
    described: Description,
    task_memory: TaskMemory,
) -> Result<Option<Summary>, armature::BoxError> {
    let scale = Scale { time: args.time_scale, memory: args.memory_scale, size: args.size_scale };
    let description = Arc::new(prepare::scaled_for_replay(&described, scale)?);
    // The recorded description is large, and is not needed during the run.
    drop(described);
    let cluster = cluster(args)?;
    Ok(armature::run(&args.config()?, |session| {
        let replay = Replay::new(&description, task_memory, work_method(args, session)?);
        let workflow = set_up(args, cluster.as_ref(), description.clone(), task_memory);
        Ok(run_and_report_failures(session, workflow.closure(REPLAY, |inputs, cx| replay.run(inputs, cx)))?)
    })?)
}

/// Returns the method by which tasks spend their replayed time. All ranks use the measured speed of one rank, so that tasks take longer on slower
/// ranks.
fn work_method(args: &Cli, session: &mut Session) -> Result<WorkMethod, BoxError> {
    if session.is_simulated() {
        return Ok(WorkMethod::Declare(SIMULATED_SPEED));
    }
    if args.sleep {
        return Ok(WorkMethod::Sleep);
    }
    let speeds = Farm::new("speed", |(): ()| spin::speed()).retries(1).collect_on_all(session, [()])?;
    Ok(WorkMethod::Spin(speeds.first().copied().unwrap_or(SIMULATED_SPEED)))
}

fn commands(
    args: &Cli,
    file: &Path,
    array: Option<Array>,
    described: Description,
    format: Format,
) -> Result<Option<Summary>, armature::BoxError> {
    let rescue = rescue(args, file);
    let outputs = args.outputs.clone().unwrap_or_else(|| path_with_suffix(file, ".outputs"));
    let outputs = std::path::absolute(outputs)?;
    prepare::check_commands(&described)?;
    // The input files of a trace (WfFormat) are not checked, because they only existed when the trace was recorded.
    let check_files = format != Format::WfFormat;
    let directory = std::path::absolute(&args.directory)?;
    if !directory.is_dir() {
        return Err(format!(
            "there is no directory {}, expected the directory in which commands run",
            directory.display()
        )
        .into());
    }
    std::fs::create_dir_all(&outputs)
        .map_err(|error| format!("cannot create the directory of outputs {}: {error}", outputs.display()))?;
    let cluster = cluster(args)?;
    let settings = Settings { directory, outputs, check_outputs: check_files };
    let starters = Commands::new().cores(args.cores).output(&settings.outputs);
    let config = args.config()?.commands(starters);
    let start = SystemTime::now();
    let found = armature::run(&config, |session| {
        let mut described = described.clone();
        let targets = command::targets(&described, &settings.directory);
        let begin = || {
            let earlier = array.as_ref().map_or(Ok(None), |_| array::earlier(file))?;
            let lock = rescue.begin(&mut described, &targets).map_err(|error| error.to_string())?;
            if let Some(array) = &array {
                array.write(file, earlier.as_ref(), &described)?;
            }
            if check_files {
                prepare::check_inputs(&described, &settings.directory).map_err(|error| error.to_string())?;
            }
            print_completed(&described, &rescue);
            Ok::<_, BoxError>(lock)
        };
        let lock = session.is_root().then(begin).transpose()?;
        let completed_flags: Vec<bool> =
            session.broadcast(session.is_root().then(|| completed_flags(&described)))?;
        completed_flags.into_iter().enumerate().for_each(|(task, is_done)| described.set_done(task, is_done));
        let description =
            prepare::with_commands(&described, &settings.outputs).map_err(|error| error.to_string())?;
        let mut handler = CompletionHandler::new(&described, &settings, &rescue, session.rank())?;
        let mut workflow = set_up(args, cluster.as_ref(), description, TaskMemory::Additive)
            .directory(&settings.directory)
            .recorded_in(rescue.path())
            .closure(NOTHING, |_, _| Ok(()))
            .after_command(|ended, cx| handler.handle(ended, cx));
        if args.enforce_memory {
            workflow = workflow.enforce_memory();
        }
        let summary = run_and_report_failures(session, workflow)?;
        Ok(summary.map(|summary| (summary, described, lock)))
    })?;
    let Some((summary, mut described, _lock)) = found else { return Ok(None) };
    write_trace(args, &mut described, &settings.outputs, (start, &summary))?;
    Ok(Some(summary))
}

fn read_array(args: &Cli, file: &Path) -> Result<Option<Array>, armature::BoxError> {
    let entries = match (&args.array, &args.each_line) {
        (Some(numbers), _) => numbers.entries(),
        (None, Some(lines)) => array::lines(lines)?,
        (None, None) => return Ok(None),
    };
    Array::new(file, &entries, &args.command).map(Some)
}

fn rescue(args: &Cli, file: &Path) -> Rescue {
    let rescue = match &args.rescue {
        Some(named) => Rescue::new(named, Links::Followed),
        // Another user could guess the default name of the rescue file, and create a symbolic link with this name.
        None => Rescue::new(path_with_suffix(file, ".rescue"), Links::Refused),
    };
    // A restarted job has the options of its first start, but must not discard the rescue file, which names the tasks that the job has completed.
    rescue.skip(args.skip_rescue && !is_restart())
}

/// Returns true if the job was restarted by `armature run --restarts` or because Slurm requeued its batch job.
fn is_restart() -> bool {
    let path = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let status = path("ARMATURE_JOB_STATUS").and_then(|file| JobStatus::read(&file).ok()?);
    let has_second_attempt = || path("ARMATURE_RUN").is_some_and(|run| run.join("attempts/2").exists());
    let requeues = || std::env::var("SLURM_RESTART_COUNT").ok()?.trim().parse::<u32>().ok();
    status.is_some_and(|status| status.restarts > 0)
        || has_second_attempt()
        || requeues().is_some_and(|requeues| requeues > 0)
}

fn completed_flags(described: &Description) -> Vec<bool> {
    described.tasks().iter().map(|task| task.done).collect()
}

/// Runs a workflow, and records failed tasks in the job status (file for the job's launcher), because launchers that tolerate dead ranks do not
/// report this program's exit code 1.
fn run_and_report_failures(
    session: &mut Session,
    mut workflow: Workflow<'_>,
) -> armature::Result<Option<Summary>> {
    let summary = workflow.run(session)?.into_summary();
    if let Some(found) = summary.as_ref().filter(|found| !found.failed.is_empty()) {
        let failed = found.failed.len() as u64;
        let (all, has) = (found.tasks + failed + found.skipped, if failed == 1 { "has" } else { "have" });
        session.conclude_failed(format_args!("{failed} of {all} tasks {has} failed"));
    }
    Ok(summary)
}

fn path_with_suffix(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_os_string();
    name.push(ending);
    PathBuf::from(name)
}

fn print_completed(described: &Description, rescue: &Rescue) {
    let completed = described.tasks().iter().filter(|task| task.done).count();
    if completed > 0 {
        eprint_line(format_args!(
            "{} according to {}",
            completed_text(completed as u64),
            rescue.path().display()
        ));
    }
    if completed > 0 && completed == described.tasks().len() {
        eprint_line("the workflow is finished: remove that file to run it again");
    }
}

fn write_trace(
    args: &Cli,
    described: &mut Description,
    outputs: &Path,
    (start, summary): (SystemTime, &Summary),
) -> Result<(), armature::BoxError> {
    if let Some(file) = &args.trace {
        record::merge_into(described, &record::read(outputs)?)?;
        let text = to_wfformat(described, &timestamp(start), summary.elapsed);
        armature_files::output::write(file, text.as_bytes())
            .map_err(|error| format!("cannot write the trace {}: {error}", file.display()))?;
    }
    Ok(())
}

fn timestamp(at: SystemTime) -> String {
    const DAY: u64 = 86_400;
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (days, second) = (seconds / DAY, seconds % DAY);
    // Algorithm `civil_from_days` by Howard Hinnant: years begin in March, so that the leap day is the last day of a year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}+00:00",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_is_well_formed() {
        Cli::command().debug_assert();
        assert!(
            Cli::try_parse_from(["w", "a.dag", "--time-scale", "2"]).is_err(),
            "without --synthetic-work it means nothing"
        );
        let args = Cli::try_parse_from(["w", "a.dag", "--memory", "2GiB", "-t", "3", "-m", "1"]).unwrap();
        assert_eq!((args.memory, args.tries, args.max_failures), (Some(2 << 30), 3, 1));
        assert!(Cli::try_parse_from(["w", "a.dag", "--memory", "0"]).is_err());
        let refused = |arguments: &[&str]| Cli::try_parse_from(arguments).unwrap_err().to_string();
        assert!(refused(&["w"]).contains("FILE"));
        assert!(
            refused(&["w", "a.dag", "--generate", "blast:9", "--synthetic-work"])
                .contains("cannot be used with")
        );
        assert!(refused(&["w", "--generate", "blast:9"]).contains("--synthetic-work"));
        assert!(
            refused(&["w", "a.toml", "--synthetic-work", "--send-files"]).contains("cannot be used with")
        );
        assert!(refused(&["w", "--generate", "blast", "--synthetic-work"]).contains("expected FAMILY:TASKS"));
    }

    #[test]
    fn timestamps_are_formatted_as_rfc_3339() {
        let at = |seconds| timestamp(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00+00:00");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59+00:00");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00+00:00");
        assert_eq!(at(4_102_444_799), "2099-12-31T23:59:59+00:00");
    }
}
