//! `armature report`, `armature trace` and `armature events`: the event log of a run as a page, as a trace, and as lines of JSON.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use armature::observe::{self, Log};
use armature_files::output;
use armature_report::{Attempt, Figure, Job, Run, chrome, compare, csv, figure, page, perfetto, tree};
use clap::{Args, ValueEnum};

use crate::cli::print;
use crate::error::LaunchError;
use crate::job_state::{JobState, alive_here, status_in};
use crate::run_directory::description::Description;
use crate::run_directory::reference::events as events_of;
use crate::run_directory::state::why;
use crate::run_directory::{ATTEMPTS, RunDirectory, attempt};
use crate::top::{PART, TICK, Watched, interruption};

/// Create a page that shows what a run did.
///
/// RUN is the directory of the event log, or a directory with the log in events/. A program that uses armature writes the log if it is started with
/// ARMATURE_EVENTS=RUN. For a run that failed, was killed or is still running, the page shows the part that the log contains.
///
/// The page opens without a network. It has the efficiency, a sentence on what the ranks waited for, a picture of ranks, tasks, rates, memory and
/// decisions on one time axis, and tables. Its size is below 5 MB for any number of events.
///
/// With two runs, the page compares the longest run of a skeleton in each: their pictures above each other on one time axis, and their numbers.
///
/// Exit code: 0; 2 if the log cannot be read or does not contain the requested data; 1 if the page cannot be written.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Directory of the event log or of the run, `last`, name of a run, or number of a batch job; RUN@K is attempt K
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Run to compare with RUN
    #[arg(value_name = "OTHER", conflicts_with_all = ["figure", "efficiencies", "follow", "title"])]
    other: Option<PathBuf>,
    /// File to write [default: report.html in the directory of the log, comparison.html in that of OTHER; standard output for a figure and for
    /// efficiencies]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Title of the page [default: the command of the run, or the path of RUN if the command is not known]
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["figure", "efficiencies"])]
    title: Option<String>,
    /// Write the page again every few seconds until the run ends; a browser that shows it loads it again
    #[arg(long, conflicts_with_all = ["figure", "efficiencies"])]
    follow: bool,
    /// Draw one figure as SVG instead of the page
    #[arg(long, value_name = "NAME")]
    figure: Option<FigureName>,
    /// Print the efficiencies of each run, and of the phases between its changes, with the keys of TALP, instead of the page
    #[arg(long, value_name = "FORM", conflicts_with = "figure")]
    efficiencies: Option<Form>,
}

impl Report {
    /// Page of a run with default options.
    pub(crate) fn of(run: PathBuf) -> Self {
        Report {
            run,
            other: None,
            output: None,
            title: None,
            follow: false,
            figure: None,
            efficiencies: None,
        }
    }
}

/// Write a trace of a run for the viewers of Perfetto or Chrome.
///
/// RUN is as with `armature report`. Each rank is a process with the longest calls of user code, counters of its activities, and points for
/// decisions. ui.perfetto.dev opens both formats.
///
/// Exit code: 0; 2 if the log cannot be read; 1 if the trace cannot be written.
#[derive(Debug, Args)]
pub(crate) struct Trace {
    /// Directory of the event log or of the run, `last`, name of a run, or number of a batch job; RUN@K is attempt K
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// File to write [default: trace.pftrace or trace.json in the directory of the log]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the trace: protocol buffers of Perfetto, or JSON of Chrome
    #[arg(long, value_name = "FORM", default_value = "perfetto")]
    format: TraceForm,
}

/// Print the events of a run as lines of JSON in order of time, and check them.
///
/// RUN is as with `armature report`. Each line is an event of a rank; the documentation of `armature::observe` describes the fields. If a rank was
/// killed while it wrote, a message on standard error describes the omitted part.
///
/// Exit code: 0; 2 if the log cannot be read, or a line is not an event.
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Directory of the event log or of the run, `last`, name of a run, or number of a batch job; RUN@K is attempt K
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Print the number of events of each kind instead of the events
    #[arg(long)]
    count: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FigureName {
    Rates,
    Mapping,
    Gantt,
    Memory,
    Graph,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    Json,
    Csv,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TraceForm {
    Perfetto,
    Chrome,
}

/// The efficiencies of a run are printed for all of its phases (parts between changes of the distribution of work).
const PHASES: usize = usize::MAX;

pub(crate) fn report(args: &Report) -> Result<String, LaunchError> {
    let directory = events_of(&args.run)?;
    if let Some(other) = &args.other {
        return compared(args, &directory, &events_of(other)?);
    }
    let place = args.output.clone().unwrap_or_else(|| directory.join("report.html"));
    if args.follow {
        return follow(args, &directory, &place);
    }
    let log = read(&directory)?;
    let text = match (args.figure, args.efficiencies) {
        (Some(name), _) => drawn(&log, name, &directory)?,
        (None, Some(form)) => efficiencies(&log, form),
        (None, None) => return written(place, page(&log, &job(args, &directory, None)).as_bytes()),
    };
    match &args.output {
        Some(place) => written(place.clone(), text.as_bytes()),
        None => Ok(text),
    }
}

/// Returns the facts about the job whose events are in `directory`, for its page.
fn job(args: &Report, directory: &Path, reload_s: Option<u32>) -> Job {
    let status = status_in(directory).unwrap_or_else(|error| {
        crate::message::print_message(error.to_string());
        None
    });
    let state = JobState::of(status.as_ref(), alive_here);
    let outcome = (state != JobState::Unknown).then(|| state.to_string());
    let restarts = status.map(|status| status.restarts).filter(|restarts| *restarts > 0);
    let (earlier, attempt) = attempts(directory);
    let title = args.title.clone().unwrap_or_else(|| title(&args.run, directory));
    Job { title, outcome, restarts, attempt, earlier, reload_s }
}

/// Returns the command of the run without the directory of its program, or the path of the run if the command is not known.
fn title(run: &Path, directory: &Path) -> String {
    let attempt = directory.parent().filter(|parent| parent.ends_with(ATTEMPTS)).and_then(Path::parent);
    let command = Description::read(&RunDirectory::at(attempt.unwrap_or(directory))).map(|run| run.command);
    match command.as_deref() {
        Some([program, arguments @ ..]) => {
            let name =
                Path::new(program).file_name().map_or(program.clone().into(), |name| name.to_string_lossy());
            std::iter::once(&*name).chain(arguments.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
        }
        _ => std::path::absolute(run).unwrap_or_else(|_| run.into()).display().to_string(),
    }
}

/// Writes the page that compares the runs in two directories. Returns the text to print.
fn compared(args: &Report, directory: &Path, other: &Path) -> Result<String, LaunchError> {
    let (log, other_log) = (read(directory)?, read(other)?);
    let (mut before, mut after) = (job(args, directory, None), job(args, other, None));
    // The names of the runs are shown instead of their commands, because both may have the same command.
    let names = [&args.run, args.other.as_ref().unwrap_or(&args.run)];
    let is_same = name(names[0]) == name(names[1]);
    let [a, b] = names.map(|run| if is_same { run.display().to_string() } else { name(run) });
    (before.title, after.title) = (a, b);
    let place = args.output.clone().unwrap_or_else(|| other.join("comparison.html"));
    written(place, compare((&log, &before), (&other_log, &after)).as_bytes())
}

/// Returns the last part of the path that names a run.
fn name(run: &Path) -> String {
    run.file_name().map_or(run.display().to_string(), |name| name.to_string_lossy().into())
}

/// Minimum time between two pages of a run in progress.
const FOLLOW: Duration = Duration::from_secs(5);

/// Writes the page again and again until the run has ended or a signal arrives; the last page does not load itself again.
fn follow(args: &Report, directory: &Path, place: &Path) -> Result<String, LaunchError> {
    let is_interrupted = interruption()?;
    let mut watched = Watched::new(directory.into());
    let mut wait = FOLLOW;
    for n in 0.. {
        let began = Instant::now();
        let is_new = watched.poll()?;
        let is_last = watched.ended().is_some() || is_interrupted.load(Ordering::Relaxed);
        if is_new || is_last || n == 0 {
            let reload_s = (!is_last).then_some(wait.as_secs().max(1) as u32);
            written(
                place.into(),
                page(
                    &observe::read(directory).map_err(LaunchError::Events)?,
                    &job(args, directory, reload_s),
                )
                .as_bytes(),
            )?;
        }
        if n == 0 {
            print(&format!("{}\n", place.display()))?;
        }
        if is_last {
            break;
        }
        wait = FOLLOW.max(PART * began.elapsed());
        let next = Instant::now() + wait;
        while Instant::now() < next && !is_interrupted.load(Ordering::Relaxed) {
            std::thread::sleep(TICK);
        }
    }
    Ok(String::new())
}

/// Returns all attempts of the run in `directory` except the newest one, and the number of the newest one. For the directory of an attempt, returns
/// no attempts and the number 1. If the log of an attempt cannot be read, prints a message and returns the attempt without events.
fn attempts(directory: &Path) -> (Vec<Attempt>, u32) {
    let run = RunDirectory::at(directory);
    let mut numbers = run.attempts();
    let newest = numbers.pop().unwrap_or(1);
    let attempt = |number| {
        let attempt = attempt::Attempt::of(&run, number);
        let outcome = match (attempt.end(), attempt.status()) {
            (Some(end), _) => format!("{}, {} done", why(&end), end.done),
            (None, status) => JobState::of(status.as_ref(), alive_here).to_string(),
        };
        let log = read(attempt.directory()).unwrap_or_else(|error| {
            crate::message::print_message(error.to_string());
            Log::default()
        });
        Attempt { number, outcome, log }
    };
    (numbers.into_iter().map(attempt).collect(), newest)
}

pub(crate) fn trace(args: &Trace) -> Result<String, LaunchError> {
    let directory = events_of(&args.run)?;
    let log = read(&directory)?;
    let (bytes, name) = match args.format {
        TraceForm::Perfetto => (perfetto(&log), "trace.pftrace"),
        TraceForm::Chrome => (chrome(&log).into_bytes(), "trace.json"),
    };
    written(args.output.clone().unwrap_or_else(|| directory.join(name)), &bytes)
}

fn read(directory: &Path) -> Result<Log, LaunchError> {
    let log = observe::read(directory).map_err(LaunchError::Events)?;
    log.notes.iter().for_each(crate::message::print_message);
    Ok(log)
}

fn written(place: PathBuf, bytes: &[u8]) -> Result<String, LaunchError> {
    let doing = format!("write {}", place.display());
    output::write(&place, bytes).map_err(LaunchError::io(doing))?;
    Ok(format!("{}\n", place.display()))
}

pub(crate) fn events(args: &Events) -> Result<String, LaunchError> {
    let log = read(&events_of(&args.run)?)?;
    let lines = log.records.iter().map(|record| serde_json::json!(record));
    if !args.count {
        return Ok(lines.map(|line| line.to_string() + "\n").collect());
    }
    let mut counts = std::collections::BTreeMap::new();
    for line in lines {
        let kind = line["event"]["kind"].as_str().unwrap_or_default().to_string();
        *counts.entry(kind).or_insert(0u64) += 1;
    }
    Ok(counts.iter().map(|(kind, count)| format!("{count:>9}  {kind}\n")).collect())
}

/// Draws a figure of the longest run in the event log as SVG.
fn drawn(log: &Log, name: FigureName, directory: &Path) -> Result<String, LaunchError> {
    let which = match name {
        FigureName::Rates => Figure::Rates,
        FigureName::Mapping => Figure::Mapping,
        FigureName::Gantt => Figure::Gantt,
        FigureName::Memory => Figure::Memory,
        FigureName::Graph => Figure::Graph,
    };
    let runs = Run::all(&log.records);
    let longest = runs.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    longest.and_then(|run| figure(run, which)).ok_or_else(|| LaunchError::NoFigure {
        figure: name.to_possible_value().map_or(String::new(), |name| name.get_name().to_string()),
        directory: directory.into(),
    })
}

fn efficiencies(log: &Log, form: Form) -> String {
    let runs = Run::all(&log.records);
    let all = runs.iter().map(|run| tree(run, PHASES).0);
    match form {
        Form::Csv => all.map(|rows| csv(&rows)).collect::<Vec<_>>().join("\n"),
        Form::Json => serde_json::json!(all.collect::<Vec<_>>()).to_string() + "\n",
    }
}
