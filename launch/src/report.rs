//! `armature report`, `armature trace` and `armature events`: the event log of a run as a page, as a trace, and as lines of JSON.

use std::path::{Path, PathBuf};

use armature::observe::{self, Log};
use armature_files::output;
use armature_report::{Attempt, Figure, Job, Run, chrome, csv, figure, page, perfetto, tree};
use clap::{Args, ValueEnum};

use crate::error::LaunchError;
use crate::job_state::{JobState, alive_here, status_in};
use crate::run_directory::reference::events as events_of;
use crate::run_directory::state::why;
use crate::run_directory::{RunDirectory, attempt};

/// Create a page that shows what a run did.
///
/// RUN is the directory of the event log, or a directory with the log in events/. A program that uses armature writes the log if it is started with
/// ARMATURE_EVENTS=RUN. For a run that failed, was killed or is still running, the page shows the part that the log contains.
///
/// The page opens without a network. It has a sentence on what the ranks waited for, their time line, efficiencies, rates, mappings, decisions,
/// durations, memory and messages. Its size is below 5 MB for any number of events.
///
/// Exit code: 0; 2 if the log cannot be read or does not contain the requested data; 1 if the page cannot be written.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// Directory of the event log or of the run, `last`, name of a run, or number of a batch job; RUN@K is attempt K
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// File to write [default: report.html in the directory of the log; standard output for a figure and for efficiencies]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Title of the page [default: the path of RUN]
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["figure", "efficiencies"])]
    title: Option<String>,
    /// Draw one figure as SVG instead of the page
    #[arg(long, value_name = "NAME")]
    figure: Option<FigureName>,
    /// Print the efficiencies of each run, and of the phases between its changes, with the keys of TALP, instead of the page
    #[arg(long, value_name = "FORM", conflicts_with = "figure")]
    efficiencies: Option<Form>,
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
    let log = read(&directory)?;
    let (text, place) = if let Some(name) = args.figure {
        (drawn(&log, name, &directory)?, args.output.clone())
    } else if let Some(form) = args.efficiencies {
        (efficiencies(&log, form), args.output.clone())
    } else {
        let path = std::path::absolute(&args.run).unwrap_or_else(|_| args.run.clone());
        let title = args.title.clone().unwrap_or_else(|| path.display().to_string());
        let status = status_in(&directory).unwrap_or_else(|error| {
            crate::message::print_message(error.to_string());
            None
        });
        let state = JobState::of(status.as_ref(), alive_here);
        let outcome = (state != JobState::Unknown).then(|| state.to_string());
        let restarts = status.map(|status| status.restarts).filter(|restarts| *restarts > 0);
        let (earlier, attempt) = attempts(&directory);
        let job = Job { title, outcome, restarts, attempt, earlier };
        (page(&log, &job), Some(args.output.clone().unwrap_or_else(|| directory.join("report.html"))))
    };
    match place {
        Some(place) => written(place, text.as_bytes()),
        None => Ok(text),
    }
}

/// Returns the attempts (starts of the program) before the newest one, and the number of the newest; none and 1 if `directory` is that of one
/// attempt. An attempt without a readable log has no events, and a message says so.
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
