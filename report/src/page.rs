//! The HTML page: the report of a job in one file that needs no network.

use std::time::{Duration, SystemTime};

use armature::observe::Log;
use armature::observe::number_format::seconds;
use askama::Template;

use crate::bins::Bins;
use crate::charts;
use crate::diagnosis::diagnosis;
use crate::durations::{Durations, durations};
use crate::efficiency::{Extent, tree};
use crate::run::Run;
use crate::svg::MARKS;
use crate::tables::{
    EfficiencyRow, RankRow, Traffic, efficiency_row, lines, rank_row, short_count, shown_of, traffic,
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

/// Facts about a job that are not in its events.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Title of the page, such as the directory.
    pub title: String,
    /// Short description of the job's end, if it is known.
    pub outcome: Option<String>,
    /// Number of restarts of the job, if it is known.
    pub restarts: Option<u32>,
    /// Number of the newest attempt of the run, counted from 1. The page names it only if there are `earlier` attempts.
    pub attempt: u32,
    /// Attempts of the run before the newest one.
    pub earlier: Vec<Attempt>,
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
    job: &'p Job,
    runs: Vec<Section>,
    notes: Vec<&'p String>,
    style: &'static str,
    script: &'static str,
    shown: String,
}

/// Content of the page about one run of a pipeline, farm, loop or workflow.
struct Section {
    id: usize,
    heading: String,
    diagnosis: String,
    facts: Vec<(String, String)>,
    /// Data for the script of the page, as JSON in which no text can end an HTML element.
    data: String,
    has_activity: bool,
    named: String,
    strip: Option<String>,
    strip_title: String,
    charts: Vec<(String, String)>,
    rates: Option<String>,
    rates_of: String,
    outcomes: Option<String>,
    efficiencies: Vec<EfficiencyRow>,
    phases: String,
    durations: Vec<Durations>,
    ranks: Vec<RankRow>,
    traffic: Traffic,
    workflow: Option<workflow::Section>,
    marks: String,
    drawn: String,
    rows: String,
    decisions: String,
    lines: String,
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
    let mut order: Vec<&(u32, Run)> = all.iter().collect();
    order.sort_by(|(_, a), (_, b)| b.seconds.total_cmp(&a.seconds));
    order.truncate(RUNS);
    order.sort_by_key(|(attempt, run)| (*attempt, run.number));
    let shown = match all.len() {
        0 => "There are no events: the run has just begun, or failed at once.".to_string(),
        count if count > order.len() => {
            format!("Showing the {} longest of the job's {count} runs.", order.len())
        }
        _ => String::new(),
    };
    let room = TABLES / order.len().max(1);
    let count = order.len();
    let heading_of = |attempt: u32, run: &Run| {
        let of_attempt = if job.earlier.is_empty() { String::new() } else { format!("Attempt {attempt}: ") };
        let is_one = all.iter().filter(|(other, _)| *other == attempt).count() == 1;
        of_attempt + &heading(run, is_one)
    };
    let sections = order.iter().enumerate();
    let runs = sections
        .map(|(id, (attempt, run))| section((id, count), run, heading_of(*attempt, run), room))
        .collect();
    let page = Page {
        job,
        runs,
        notes: logs.iter().flat_map(|(_, log)| &log.notes).collect(),
        style: include_str!("../assets/page.css"),
        script: include_str!("../assets/page.js"),
        shown,
    };
    // Rendering cannot fail, because it writes to memory and the filters of the template do not fail.
    page.render().unwrap_or_else(|error| format!("<!doctype html><title>report</title><p>{error}"))
}

/// Returns the content of the page for one of its `runs` runs.
fn section((id, runs): (usize, usize), run: &Run, heading: String, room: usize) -> Section {
    let bins = Bins::of(run, runs);
    let strip = charts::arrangement(run);
    let mut all_charts = Vec::new();
    if run.has_activity() {
        let chart = charts::busy(run, &bins);
        all_charts.push((chart.title.clone(), chart.svg()));
        all_charts.extend(charts::progress(run).into_iter().map(|chart| (chart.title.clone(), chart.svg())));
    }
    let (efficiencies, phases) = tree(run, PHASES);
    let shown = efficiencies.iter().filter(|of| of.extent == Extent::Phase).count();
    let ranks = run.ranks.len();
    let (tables, shown_lines) = lines(run, room);
    Section {
        id,
        heading,
        diagnosis: diagnosis(run),
        facts: facts(run),
        data: data(run, &bins, &tables),
        has_activity: run.has_activity(),
        named: match bins.named_of {
            (0, _) => String::new(),
            (all, kept) if kept < all => format!("Names of the {kept} longest of {all} calls are kept."),
            _ => String::new(),
        },
        strip_title: strip.as_ref().map_or(String::new(), |strip| strip.title.clone()),
        strip: strip.map(|strip| strip.svg()),
        charts: all_charts,
        rates: charts::rates(run).map(|chart| chart.svg()),
        rates_of: shown_of(ranks, 12, "ranks"),
        outcomes: charts::outcomes(run).map(|chart| chart.svg()),
        phases: shown_of(phases, shown.max(1), "phases between changes"),
        efficiencies: efficiencies.iter().map(efficiency_row).collect(),
        durations: durations(run),
        ranks: (0..ranks.min(ROWS / runs)).map(|rank| rank_row(run, rank)).collect(),
        traffic: traffic(run),
        workflow: workflow::section(run, runs),
        marks: shown_of(run.changes.len(), MARKS, "changes"),
        drawn: shown_of(ranks, bins.cells.len(), "ranks"),
        rows: shown_of(ranks, ROWS / runs, "ranks"),
        decisions: decisions(run),
        lines: shown_lines,
    }
}

/// Returns the heading of a run. `is_one` is true if its attempt has no other run.
fn heading(run: &Run, is_one: bool) -> String {
    let what = run.skeleton.word();
    let name = if run.name.is_empty() { String::new() } else { format!(" {}", run.name) };
    let number = if is_one { String::new() } else { format!(" (run {})", run.number + 1) };
    format!("{what}{name}{number}")
}

/// Returns a sentence on the number of decisions about the distribution of work, and on how many of them changed it.
fn decisions(run: &Run) -> String {
    let acted = run.decisions.iter().filter(|decision| decision.acted).count();
    match run.decisions.len() {
        0 if run.changes.is_empty() => "No decision was made during the run.".to_string(),
        0 => format!("{} made.", changes_text(run)),
        count => format!("Of {count} decisions {acted} made a change."),
    }
}

fn changes_text(run: &Run) -> String {
    match run.changes.len() {
        1 => "1 change was".to_string(),
        count => format!("{count} changes were"),
    }
}

fn facts(run: &Run) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: String| facts.push((name.to_string(), value));
    if !run.program.is_empty() {
        add("program", run.program.clone());
    }
    if let Some(began) = run.began {
        add("began", date(began));
    }
    add("took", seconds(run.seconds));
    let mut hosts: Vec<&str> =
        run.ranks.iter().map(|rank| rank.host.as_str()).filter(|h| !h.is_empty()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let on = match hosts.as_slice() {
        [] => String::new(),
        [host] => format!(" on {host}"),
        hosts => format!(" on {} hosts", hosts.len()),
    };
    add("ranks", format!("{}{on}", run.ranks.len()));
    if let Some(done) = run.done {
        add(run.done_things(), short_count(done));
    }
    let balance = match run.balance.as_str() {
        "off" => "kept unchanged",
        "once" => "changes once at most",
        "live" => "changes when a change pays off",
        _ => "",
    };
    if !balance.is_empty() {
        add("balance", balance.to_string());
    }
    add("changes", run.changes.len().to_string());
    if !run.lost.is_empty() {
        let lost: Vec<String> = run.lost.iter().map(usize::to_string).collect();
        add("ranks lost", lost.join(", "));
    }
    add(
        "end",
        if run.has_ended { "normal" } else { "not in the log: it failed, was killed, or still runs" }.into(),
    );
    facts
}

/// Formats seconds since 1970 as a date and time in UTC.
fn date(at: f64) -> String {
    // Last second of the year 9999: a later date would have more than four digits for the year.
    const LAST: u64 = 253_402_300_799;
    let since = Duration::from_secs((at.max(0.0) as u64).min(LAST));
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + since).to_string()
}

/// Returns the data for the script of the page as JSON.
fn data(run: &Run, bins: &Bins, lines: &str) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut places = std::collections::HashMap::new();
    let mut calls = String::from("[");
    for (rank, named) in bins.named.iter().enumerate() {
        if rank > 0 {
            calls.push(',');
        }
        let flat = named.iter().flat_map(|(bin, name, took)| {
            let place = *places.entry(name.clone()).or_insert_with(|| {
                names.push(name.clone());
                names.len() - 1
            });
            [*bin as f64, place as f64, *took]
        });
        calls += &micro(&flat.collect::<Vec<f64>>());
    }
    calls.push(']');
    let marks: Vec<(f64, &str)> =
        run.changes.iter().take(MARKS).map(|(at, name)| (*at, name.as_str())).collect();
    let text = format!(
        r#"{{"seconds":{},"width":{},"bins":{},"ranks":{},"cells":"{}","calls":{calls},"names":{},"marks":{},"hosts":{},"lines":{lines}}}"#,
        run.seconds,
        bins.width,
        bins.count,
        bins.cells.len(),
        bins.encoded(),
        serde_json::json!(names),
        serde_json::json!(marks),
        serde_json::json!(run.ranks.iter().map(|rank| rank.host.as_str()).collect::<Vec<_>>()),
    );
    // The characters of markup are escaped, because the data must not contain the end tag of the element in which it is placed.
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Returns a JSON list of the numbers, rounded to six decimal places.
fn micro(values: &[f64]) -> String {
    let rounded: Vec<f64> = values.iter().map(|value| (value * 1e6).round() / 1e6).collect();
    let list: Vec<String> = rounded.iter().map(ToString::to_string).collect();
    format!("[{}]", list.join(","))
}
