//! Prediction of a simulation: times and efficiencies of its runs, and what rank 0 did.

use std::fmt::Write;

use armature::observe::Log;
use armature::observe::number_format::{percent, seconds};
use armature_report::{Run, diagnosis, efficiencies};

use crate::cli::print;
use crate::error::LaunchError;
use crate::report::{Report, report};
use crate::run_directory::RunDirectory;
use crate::run_directory::attempt::Attempt;

/// Maximum number of runs of pipelines, farms, loops and workflows that are printed. The page has all.
const MOST: usize = 5;

/// Prints the prediction of the newest attempt of a run, and writes its page.
pub(super) fn print_summary(run: &RunDirectory, ranks: usize) -> Result<u8, LaunchError> {
    let Some(attempt) = Attempt::newest(run) else { return Ok(0) };
    let directory = attempt.directory();
    let log = match armature::observe::read(directory) {
        Ok(log) if !log.records.is_empty() => log,
        _ => return print("The program has logged no run of a pipeline, farm, loop or workflow.\n"),
    };
    let page = report(&Report::of(directory.to_path_buf()))?;
    print(&format!("{}page: {page}", text(&log, ranks)))
}

fn text(log: &Log, ranks: usize) -> String {
    let mut runs = Run::all(&log.records);
    let count = runs.len();
    runs.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    runs.truncate(MOST);
    let mut text = String::new();
    if count > MOST {
        let _ = writeln!(text, "the {MOST} longest of {count} runs:");
    }
    for run in &runs {
        let name = if run.name.is_empty() { String::new() } else { format!(" \"{}\"", run.name) };
        let efficiency = efficiencies(run, "run", (0.0, run.seconds))
            .map_or(String::new(), |e| format!(", efficiency {}", percent(e.parallel_efficiency, 1)));
        let _ = writeln!(
            text,
            "run {}{name}: {} on {ranks} simulated ranks{efficiency}",
            run.number + 1,
            seconds(run.seconds)
        );
        let _ = writeln!(text, "  {}", diagnosis(run));
        if let Some(shares) = rank_0(run) {
            let _ = writeln!(text, "  rank 0: {shares}");
        }
    }
    text
}

/// Returns what rank 0 spent its time on, as fractions of the time of the run.
fn rank_0(run: &Run) -> Option<String> {
    let rank = run.ranks.first()?;
    let sum = |of: fn(&armature::observe::activity::Activity) -> f64| {
        rank.parts.iter().map(|part| of(&part.activity)).sum::<f64>() / run.seconds
    };
    let messages: u64 = rank.sent.values().map(|(count, _)| count).sum();
    let per_thing = run.done.filter(|&done| done > 0).map_or(String::new(), |done| {
        format!(", {:.2} for each of {done} {}", messages as f64 / done as f64, run.done_things())
    });
    Some(format!(
        "computing {}, planning and set-up {}, messages {}, waiting {}; {messages} messages sent{per_thing}",
        percent(sum(|a| a.work_s), 1),
        percent(sum(|a| a.set_up_s), 1),
        percent(sum(|a| a.messages_s), 1),
        percent(sum(|a| a.idle_s), 1)
    ))
}
