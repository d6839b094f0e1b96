//! The HTML page: the report of a job in one file that needs no network.

use armature::observe::Log;
use askama::Template;

use crate::diagnosis::{advice, diagnosis};
use crate::durations::{Durations, durations};
use crate::efficiency::{Extent, tree};
use crate::head::{self, Head};
use crate::picture::Picture;
use crate::run::Run;
use crate::runs::{RunGroup, groups};
use crate::tables::{
    ChangeRow, EfficiencyRow, RankRow, Traffic, changes, efficiency_row, lines, rank_row, shown_of, traffic,
};
use crate::workflow;

/// Maximum size in bytes of the tables with the text of events, for all runs of a page.
const TABLES: usize = 1_100_000;
/// Maximum number of phases between changes of the distribution of work whose efficiencies are shown.
const PHASES: usize = 12;
/// Maximum number of ranks that the tables list, for all runs of a page.
pub(crate) const ROWS: usize = 1000;
/// Maximum number of runs on a page. The longest ones are shown, because a program may run
/// thousands of farms or loops.
const RUNS: usize = 8;
/// Number of runs up to which a page shows every run. Of more runs it shows the longest of each name.
const ALL_RUNS: usize = 3;

/// Facts about a job that are not in its events.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Title of the page, such as the command of the run.
    pub title: String,
    /// Short description of the job's end, if it is known.
    pub outcome: Option<String>,
    /// Number of restarts of the job, if it is known.
    pub restarts: Option<u32>,
    /// Number of the newest attempt of the run, counted from 1. The page names it only if there are `earlier` attempts.
    pub attempt: u32,
    /// Attempts of the run before the newest one.
    pub earlier: Vec<Attempt>,
    /// Interval in seconds at which the page loads itself again, for a run in progress.
    pub reload_s: Option<u32>,
}

/// Earlier attempt of a run, which ended before the run was finished.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    /// Number of the attempt, counted from 1.
    pub number: u32,
    /// Short description of the attempt's end.
    pub outcome: String,
    /// Events of the attempt.
    pub log: Log,
}

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'p> {
    title: &'p str,
    reload_s: Option<u32>,
    /// Sentences on the end of the job, and on what the page omits.
    notes: Vec<String>,
    groups: Vec<RunGroup>,
    comparison: Option<Comparison>,
    runs: Vec<Section>,
    style: &'static str,
    script: &'static str,
}

struct Comparison {
    sentence: String,
    names: [String; 2],
    rows: Vec<head::ComparedRow>,
    picture: Drawn,
}

/// Picture of a run for the template.
struct Drawn {
    /// Data for the script of the page, as JSON in which no text can end an HTML element.
    data: String,
    /// Sentences on what the picture omits.
    about: String,
    is_empty: bool,
}

/// Content of the page about one run of a pipeline, farm, loop or workflow.
struct Section {
    heading: String,
    head: Head,
    diagnosis: String,
    gain: String,
    advice: Option<String>,
    picture: Option<Drawn>,
    has_activity: bool,
    changes: Vec<ChangeRow>,
    efficiencies: Vec<EfficiencyRow>,
    phases: String,
    durations: Vec<Durations>,
    ranks: Vec<RankRow>,
    rows: String,
    traffic: Traffic,
    workflow: Option<workflow::Section>,
    decisions: String,
    lines: String,
    events: String,
}

/// Renders the page of a job's events.
///
/// ```
/// use armature::observe::Log;
/// use armature_report::{Job, page};
///
/// let job = Job { title: "last <night>".to_string(), ..Job::default() };
/// let page = page(&Log::default(), &job);
/// assert!(page.contains("last &#60;night&#62;") && page.contains("no events"));
/// ```
pub fn page(log: &Log, job: &Job) -> String {
    let earlier = job.earlier.iter().map(|attempt| (attempt.number, &attempt.log));
    let logs: Vec<(u32, &Log)> = earlier.chain([(job.attempt, log)]).collect();
    let runs_of =
        |&(attempt, log): &(u32, &Log)| Run::all(&log.records).into_iter().map(move |run| (attempt, run));
    let all: Vec<(u32, Run)> = logs.iter().flat_map(runs_of).collect();
    let groups = groups(&all);
    let mut order: Vec<usize> = match all.len() {
        0..=ALL_RUNS => (0..all.len()).collect(),
        _ => groups.iter().map(|group| group.longest).take(RUNS).collect(),
    };
    order.sort_unstable();
    let mut notes = outcomes(job);
    if all.is_empty() {
        notes.push("There are no events: the run has just begun, or failed at once.".to_string());
    }
    if groups.len() > RUNS && all.len() > ALL_RUNS {
        notes.push(format!("Showing the {RUNS} longest of {} kinds of runs.", groups.len()));
    }
    notes.extend(logs.iter().flat_map(|(_, log)| log.notes.iter().cloned()));
    let count = order.len();
    let section = |&number: &usize| {
        let (attempt, run) = &all[number];
        let of_attempt = if job.earlier.is_empty() { String::new() } else { format!("Attempt {attempt}: ") };
        let like =
            groups.iter().find(|group| group.longest == number && group.count > 1 && all.len() > ALL_RUNS);
        let like = like.map_or(String::new(), |group| format!(", the longest of {} runs", group.count));
        let picture = drawn(&Picture::of(&[("", run)], count));
        section(run, count, format!("{of_attempt}{}{like}", head::heading(run)), Some(picture))
    };
    let runs = order.iter().map(section).collect();
    let mut groups = if all.len() > 1 { groups } else { Vec::new() };
    if !job.earlier.is_empty() {
        groups
            .iter_mut()
            .for_each(|group| group.heading.insert_str(0, &format!("Attempt {}: ", all[group.longest].0)));
    }
    rendered(&Page {
        title: &job.title,
        reload_s: job.reload_s,
        notes,
        groups,
        comparison: None,
        runs,
        style: STYLE,
        script: SCRIPT,
    })
}

/// Renders a page that compares the longest runs of two jobs: their lanes above each other on one time axis, and their numbers.
///
/// ```
/// use armature::observe::{Event, Log, Record};
/// use armature_report::{Job, compare};
///
/// let log = |seconds| {
///     let event = Event::Finish { items: 3, seconds };
///     Log::new(vec![Record { at: seconds, rank: 0, run: 0, event }])
/// };
/// let job = |title: &str| Job { title: title.to_string(), ..Job::default() };
/// let page = compare((&log(3.0), &job("before")), (&log(1.5), &job("after")));
/// assert!(page.contains("after took 0.5 times as long as before"));
/// ```
pub fn compare((log_a, job_a): (&Log, &Job), (log_b, job_b): (&Log, &Job)) -> String {
    let longest =
        |log: &Log| Run::all(&log.records).into_iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let title = format!("{} compared with {}", job_b.title, job_a.title);
    let mut notes: Vec<String> = log_a.notes.iter().chain(&log_b.notes).cloned().collect();
    let (mut comparison, mut sections) = (None, Vec::new());
    match (longest(log_a), longest(log_b)) {
        (Some(a), Some(b)) => {
            let names = [job_a.title.clone(), job_b.title.clone()];
            comparison = Some(Comparison {
                sentence: head::compared_text((&names[0], &a), (&names[1], &b)),
                rows: head::compared(&a, &b),
                picture: drawn(&Picture::of(
                    &[(&format!("{}: ", names[0]), &a), (&format!("{}: ", names[1]), &b)],
                    2,
                )),
                names,
            });
            for (job, run) in [(job_a, &a), (job_b, &b)] {
                sections.push(section(run, 2, format!("{}: {}", job.title, head::heading(run)), None));
            }
        }
        _ => notes.push("One of the runs has no events, so that there is nothing to compare.".to_string()),
    }
    rendered(&Page {
        title: &title,
        reload_s: None,
        notes,
        groups: Vec::new(),
        comparison,
        runs: sections,
        style: STYLE,
        script: SCRIPT,
    })
}

const STYLE: &str = include_str!("../assets/page.css");
const SCRIPT: &str = include_str!("../assets/page.js");

fn rendered(page: &Page<'_>) -> String {
    // Rendering cannot fail, because it writes to memory and the filters of the template do not fail.
    page.render().unwrap_or_else(|error| format!("<!doctype html><title>report</title><p>{error}"))
}

/// Describes the ends of a job's attempts.
fn outcomes(job: &Job) -> Vec<String> {
    let mut notes: Vec<String> = job
        .earlier
        .iter()
        .map(|attempt| format!("Attempt {}: {}.", attempt.number, attempt.outcome))
        .collect();
    if let Some(outcome) = &job.outcome {
        let what =
            if job.earlier.is_empty() { "Job".to_string() } else { format!("Attempt {}", job.attempt) };
        let restarts = match job.restarts {
            None => String::new(),
            Some(1) => ", restarted once".to_string(),
            Some(restarts) => format!(", restarted {restarts} times"),
        };
        notes.push(format!("{what}: {outcome}{restarts}."));
    }
    notes
}

/// Returns the content of the page for one of its `runs` runs.
fn section(run: &Run, runs: usize, heading: String, picture: Option<Drawn>) -> Section {
    let (efficiencies, phases) = tree(run, PHASES);
    let shown = efficiencies.iter().filter(|of| of.extent == Extent::Phase).count();
    let ranks = run.ranks.len();
    let (events, shown_lines) = lines(run, TABLES / runs);
    Section {
        heading,
        diagnosis: diagnosis(run),
        gain: head::gain(run),
        advice: advice(run),
        head: Head::of(run),
        picture,
        has_activity: run.has_activity(),
        changes: changes(run),
        phases: shown_of(phases, shown.max(1), "phases between changes"),
        efficiencies: efficiencies.iter().map(efficiency_row).collect(),
        durations: durations(run),
        ranks: (0..ranks.min(ROWS / runs)).map(|rank| rank_row(run, rank)).collect(),
        traffic: traffic(run),
        workflow: workflow::section(run, runs),
        rows: shown_of(ranks, ROWS / runs, "ranks"),
        decisions: head::decisions(run),
        lines: shown_lines,
        events: escaped_json(&events),
    }
}

fn drawn(picture: &Picture) -> Drawn {
    // Serialization cannot fail, because the data has no maps and no values of other types than numbers and text.
    let data = serde_json::to_string(picture).unwrap_or_default();
    Drawn { data: escaped_json(&data), about: picture.about.join(" "), is_empty: picture.lanes.is_empty() }
}

/// Escapes the characters of markup, because the data must not contain the end tag of the element in which it is placed.
fn escaped_json(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
