//! The page: all that is told of a run, in one file that needs no network.

use armature::observe::Log;
use armature::observe::words::{percent, seconds, short};
use askama::Template;

use crate::bins::Bins;
use crate::charts;
use crate::diagnosis::diagnosis;
use crate::durations::{Durations, durations};
use crate::efficiency::{Efficiencies, tree};
use crate::run::{Run, Skeleton};
use crate::svg::MARKS;

/// Bytes of tables of events that a page has at most, of all runs together.
const TABLES: usize = 1_500_000;
/// Phases between changes whose efficiencies are shown.
const PHASES: usize = 12;
/// Ranks whose traffic is shown as a table of pairs.
const PAIRS: usize = 32;
/// Runs of a job that are shown, the longest ones: a program may run very many.
const RUNS: usize = 8;

/// What is known of a job beside its events.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// What the page is called: the directory, say.
    pub title: String,
    /// How the job ended, in a few words, if that is known.
    pub verdict: Option<String>,
    /// How often it was started again.
    pub restarts: Option<u32>,
}

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'p> {
    job: &'p Job,
    runs: Vec<Section>,
    notes: &'p [String],
    style: &'static str,
    script: &'static str,
    shown: String,
}

/// What the page says of one run.
struct Section {
    id: usize,
    heading: String,
    diagnosis: String,
    facts: Vec<(String, String)>,
    /// What the script needs, as JSON in which nothing ends an element.
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
    marks: String,
    decisions: String,
    lines: String,
}

struct EfficiencyRow {
    name: String,
    cells: Vec<String>,
}

struct RankRow {
    rank: usize,
    host: String,
    cells: Vec<String>,
    bar: u32,
}

struct Traffic {
    heads: Vec<usize>,
    rows: Vec<(usize, Vec<String>)>,
    list: Vec<(usize, usize, String, String)>,
    shown: String,
}

/// The page of a job's events.
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
    let all = Run::all(&log.records);
    let mut order: Vec<&Run> = all.iter().collect();
    order.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    order.truncate(RUNS);
    order.sort_by_key(|run| run.number);
    let shown = match all.len() {
        0 => "There are no events: the run has only just begun, or failed at once.".to_string(),
        count if count > order.len() => {
            format!("Showing the {} longest of the job's {count} runs.", order.len())
        }
        _ => String::new(),
    };
    let room = TABLES / order.len().max(1);
    let is_one = all.len() == 1;
    let runs = order.iter().enumerate().map(|(id, run)| section(id, run, is_one, room)).collect();
    let page = Page {
        job,
        runs,
        notes: &log.notes,
        style: include_str!("../assets/page.css"),
        script: include_str!("../assets/page.js"),
        shown,
    };
    // It writes to memory, and its filters do not fail.
    page.render().unwrap_or_else(|error| format!("<!doctype html><title>report</title><p>{error}"))
}

fn section(id: usize, run: &Run, is_one: bool, room: usize) -> Section {
    let bins = Bins::of(run);
    let strip = charts::arrangement(run);
    let mut all_charts = Vec::new();
    if run.has_activity() {
        let chart = charts::busy(run, &bins);
        all_charts.push((chart.title.clone(), chart.svg()));
        all_charts.extend(charts::progress(run).into_iter().map(|chart| (chart.title.clone(), chart.svg())));
    }
    let (efficiencies, phases) = tree(run, PHASES);
    let ranks = run.ranks.len();
    let what = match run.skeleton {
        Skeleton::Pipeline => "Pipeline",
        Skeleton::Farm => "Farm",
        Skeleton::Loop => "Loop",
        Skeleton::Workflow => "Workflow",
        Skeleton::Unknown => "Run",
    };
    let name = if run.name.is_empty() { String::new() } else { format!(" {}", run.name) };
    let number = if is_one { String::new() } else { format!(" (run {})", run.number + 1) };
    let (tables, told) = lines(run, room);
    Section {
        id,
        heading: format!("{what}{name}{number}"),
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
        phases: shown_of(phases, efficiencies.len().saturating_sub(1).max(1), "phases between changes"),
        efficiencies: efficiencies.iter().map(efficiency_row).collect(),
        durations: durations(run),
        ranks: (0..ranks.min(1000)).map(|rank| rank_row(run, rank)).collect(),
        traffic: traffic(run),
        marks: shown_of(run.changes.len(), MARKS, "changes"),
        decisions: decisions(run),
        lines: told,
    }
}

/// Says that not all are shown, if that is so.
fn shown_of(count: usize, most: usize, what: &str) -> String {
    if count > most { format!("Showing {most} of {count} {what}.") } else { String::new() }
}

fn decisions(run: &Run) -> String {
    let acted = run.decisions.iter().filter(|decision| decision.acted).count();
    match run.decisions.len() {
        0 => "Nothing was decided while it ran.".to_string(),
        count => format!("Of {count} decisions {acted} made a change."),
    }
}

fn facts(run: &Run) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: String| facts.push((name.to_string(), value));
    if !run.program.is_empty() {
        add("program", run.program.clone());
    }
    if let Some(began) = run.began {
        add("began", utc(began));
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
        let what = if run.skeleton == Skeleton::Loop { "passes" } else { run.things() };
        add(what, short_count(done));
    }
    let balance = match run.balance.as_str() {
        "off" => "kept as it began",
        "once" => "changed once at most",
        "live" => "changed when that pays",
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
        if run.has_ended { "as it should" } else { "not in the log: it failed, was killed, or still runs" }
            .into(),
    );
    facts
}

/// `512 B`, `12.0 kB`.
fn bytes_told(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        _ => format!("{}B", short(bytes as f64)),
    }
}

fn short_count(n: u64) -> String {
    if n < 100_000 { n.to_string() } else { short(n as f64) }
}

/// Seconds since 1970 as a date and a time.
fn utc(at: f64) -> String {
    let at = at.max(0.0) as u64;
    let (days, second) = (at / 86_400, at % 86_400);
    // Howard Hinnant's days_from_civil, turned round: years begin in March.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60)
}

fn efficiency_row(e: &Efficiencies) -> EfficiencyRow {
    let cells = vec![
        e.ranks.to_string(),
        seconds(e.elapsed_time),
        percent(e.parallel_efficiency, 1),
        percent(e.load_balance, 1),
        percent(e.communication_efficiency, 1),
        e.capacity_balance.map_or("–".to_string(), |balance| percent(balance, 1)),
        format!("{:.1} %", e.imbalance_percent),
        format!("{:.3}", e.coefficient_of_variation),
    ];
    EfficiencyRow { name: e.name.clone(), cells }
}

fn rank_row(run: &Run, rank: usize) -> RankRow {
    let shares = crate::efficiency::shares(run, rank, (0.0, run.seconds));
    let its = &run.ranks[rank];
    let of = |part: f64| if run.seconds > 0.0 { percent(part / run.seconds, 1) } else { "–".to_string() };
    let mib = |bytes: u64| format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20));
    let memory = match (its.memory_peak, its.memory_limit) {
        (Some(peak), Some(limit)) => format!("{} of {}", mib(peak), mib(limit)),
        (Some(peak), None) => mib(peak),
        _ => "–".to_string(),
    };
    let (messages, bytes) = its.sent.values().fold((0, 0), |sum, sent| (sum.0 + sent.0, sum.1 + sent.1));
    let cells = vec![
        of(shares.useful()),
        of(shares.lost),
        of(shares.other),
        of(shares.idle),
        of(shares.parked),
        short_count(messages),
        bytes_told(bytes),
        memory,
    ];
    let bar = if run.seconds > 0.0 { (100.0 * shares.work / run.seconds).round() as u32 } else { 0 };
    RankRow { rank, host: its.host.clone(), cells, bar: bar.min(100) }
}

fn traffic(run: &Run) -> Traffic {
    let bytes = |from: usize, to: usize| run.ranks[from].sent.get(&to).copied();
    if run.ranks.len() <= PAIRS {
        let heads: Vec<usize> = (0..run.ranks.len()).collect();
        let cell = |from, to| bytes(from, to).map_or(String::new(), |sent| bytes_told(sent.1));
        let rows =
            heads.iter().map(|&from| (from, heads.iter().map(|&to| cell(from, to)).collect())).collect();
        return Traffic { heads, rows, list: Vec::new(), shown: String::new() };
    }
    let pairs = run.ranks.iter().enumerate();
    let mut list: Vec<(usize, usize, u64, u64)> = pairs
        .flat_map(|(from, rank)| rank.sent.iter().map(move |(to, sent)| (from, *to, sent.0, sent.1)))
        .collect();
    list.sort_by_key(|pair| std::cmp::Reverse(pair.3));
    let count = list.len();
    list.truncate(200);
    let list = list
        .into_iter()
        .map(|(from, to, messages, bytes)| (from, to, short_count(messages), bytes_told(bytes)));
    let shown = shown_of(count, 200, "pairs of ranks, those with the most bytes");
    Traffic { heads: Vec::new(), rows: Vec::new(), list: list.collect(), shown }
}

/// The table of events as JSON, as far as there is room, and words on what is missing.
fn lines(run: &Run, room: usize) -> (String, String) {
    let (mut json, mut kept) = (String::from("["), 0);
    for line in &run.lines {
        let row = serde_json::json!([(line.at * 1e3).round() / 1e3, line.rank, line.text]).to_string();
        if json.len() + row.len() > room {
            break;
        }
        if kept > 0 {
            json.push(',');
        }
        json += &row;
        kept += 1;
    }
    json.push(']');
    let told = if kept < run.lines.len() {
        format!("Showing the first {kept} of {} events; armature events prints all.", run.lines.len())
    } else {
        String::new()
    };
    (json, told)
}

/// What the script needs.
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
    // Inside of an element, nothing may look like its end.
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Numbers with microseconds.
fn micro(values: &[f64]) -> String {
    let rounded: Vec<f64> = values.iter().map(|value| (value * 1e6).round() / 1e6).collect();
    let list: Vec<String> = rounded.iter().map(ToString::to_string).collect();
    format!("[{}]", list.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0.0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_399.5), "2000-02-28 23:59:59 UTC");
        assert_eq!(utc(951_782_400.0), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_795_690_000.0), "2026-11-26 10:46:40 UTC");
    }
}
