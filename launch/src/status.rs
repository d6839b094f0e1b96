//! `armature status`: shows the state of runs, the reason for each state, and the recommended next step.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

use clap::Args;

use crate::batch::slurm;
use crate::cli::print;
use crate::error::LaunchError;
use crate::run_directory::attempt::Attempt;
use crate::run_directory::reference::Reference;
use crate::run_directory::state::{Facts, Queue, Stage, advice, stage, why};
use crate::run_directory::{RUNS, RunDirectory, all};

const EVERY: Duration = Duration::from_secs(5);

/// Show the state of runs: whether they wait, run or have ended, one reason, and the next step.
///
/// RUN is a directory, `last`, the name of a run in armature-runs, or the number of a batch job. A job array is shown as its elements. The queue of
/// Slurm is read once, with squeue --me.
///
/// Exit code for one run: 0 if it has finished, 1 if it has failed, 3 if it waits or runs, 85 if it has stopped at a checkpoint. For an array: 3 if an
/// element waits or runs, otherwise 1 if one has failed, otherwise 85 if one has stopped. For several runs: 0.
/// If there is no such run: 2.
#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Runs [default: last]
    #[arg(value_name = "RUN")]
    runs: Vec<OsString>,
    /// Show all runs in armature-runs, one line for each
    #[arg(long, conflicts_with = "runs")]
    all: bool,
    /// Show the runs that wait, run, or have ended within this time, as in 12h or 1d
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, conflicts_with = "runs")]
    since: Option<Duration>,
    /// Show the state every five seconds until all of the runs have ended
    #[arg(long)]
    watch: bool,
    /// Print one object of JSON for each run
    #[arg(long)]
    json: bool,
}

pub(crate) fn status(args: &Status) -> Result<u8, LaunchError> {
    loop {
        let shows_all = args.all || args.since.is_some();
        let runs = match (shows_all, args.runs.as_slice()) {
            // The list of all runs contains the elements of a job array instead of the array.
            (true, _) => all(Path::new(RUNS)).into_iter().filter(|run| run.array().is_none()).collect(),
            (false, []) => vec![Reference::recorded(None)?.run],
            (false, names) => names
                .iter()
                .map(|name| Ok(Reference::recorded(Some(name))?.run))
                .collect::<Result<_, LaunchError>>()?,
        };
        // A run that the user has named may be a job array, whose elements are shown.
        let is_one = !shows_all && runs.len() == 1;
        let runs: Vec<RunDirectory> = runs.into_iter().flat_map(RunDirectory::elements).collect();
        let queue = slurm::queue();
        let (runs, facts): (Vec<RunDirectory>, Vec<Facts>) = runs
            .into_iter()
            .map(|run| (Facts::read(&run, &queue), run))
            .filter(|(facts, run)| args.since.is_none_or(|time| is_since(run, facts, time)))
            .map(|(facts, run)| (run, facts))
            .unzip();
        let is_single = !shows_all && runs.len() == 1;
        let mut text = String::new();
        for (run, facts) in runs.iter().zip(&facts) {
            match (args.json, is_single) {
                (true, _) => json(&mut text, run, facts),
                (false, true) => details(&mut text, run, facts),
                (false, false) => line(&mut text, run, facts),
            }
        }
        if runs.is_empty() {
            let since = if args.since.is_some() { " that wait, run or have ended since then" } else { "" };
            let _ = writeln!(text, "There are no runs in armature-runs{since}.");
        }
        append_missing_queue(&mut text, &queue, &facts);
        print(&text)?;
        let has_ended = facts.iter().all(|facts| stage(facts).0.has_ended());
        if !args.watch || has_ended {
            return Ok(if is_one { worst(&facts) } else { 0 });
        }
        std::thread::sleep(EVERY);
    }
}

/// Returns true if a run waits, runs or has ended less than `time` ago. Without a record of its end, the last change of the run directory counts.
fn is_since(run: &RunDirectory, facts: &Facts, time: Duration) -> bool {
    let ended = facts.end.as_ref().and_then(|end| humantime::parse_rfc3339(&end.ended).ok());
    let changed = || std::fs::metadata(run.path()).and_then(|entry| entry.modified()).ok();
    let age = ended.or_else(changed).and_then(|time| time.elapsed().ok());
    !stage(facts).0.has_ended() || age.is_none_or(|age| age <= time)
}

/// Returns the exit code for a job array: that of an element that waits or runs, otherwise of one that has failed, otherwise of one that has stopped.
fn worst(facts: &[Facts]) -> u8 {
    let stages: Vec<Stage> = facts.iter().map(|facts| stage(facts).0).collect();
    let order = [Stage::Waiting, Stage::Running, Stage::Failed, Stage::Stopped];
    order.into_iter().find(|stage| stages.contains(stage)).unwrap_or(Stage::Finished).code()
}

/// Notes that the queue of the batch system cannot be read, if the state of a run depends on the queue.
fn append_missing_queue(text: &mut String, queue: &Queue, facts: &[Facts]) {
    let depends = |facts: &Facts| facts.end.is_none() && facts.is_alive.is_none() && facts.batch.is_some();
    if queue.is_err() && facts.iter().any(depends) {
        text.push_str(
            "note: the queue of the batch system cannot be read here; the state is that of the record\n",
        );
    }
}

fn line(text: &mut String, run: &RunDirectory, facts: &Facts) {
    let (stage, why) = stage(facts);
    let mut line = stage.word().to_string();
    if !why.is_empty() && why != line {
        line = format!("{line:<9} {why}");
    }
    let _ = writeln!(text, "{:<20} {}", run.name(), armature_text::line(line));
}

fn details(text: &mut String, run: &RunDirectory, facts: &Facts) {
    let name = run.name();
    let (stage, reason) = stage(facts);
    let mut first = format!("{name:<12} {}", stage.word());
    if let (Stage::Running, Some(start)) = (stage, &facts.start) {
        first += &format!(" since {}", start.started);
    }
    if let Some(end) = facts.end.as_ref().filter(|_| stage.has_ended()) {
        first += &format!(" at {}, exit code {}", end.ended, end.code);
    }
    if facts.attempt > 0 {
        first += &format!(", attempt {}", facts.attempt);
    }
    if let Some(batch) = &facts.batch {
        first += &format!(", job {}", batch.job);
    }
    if let (Stage::Running, Some(start)) = (stage, &facts.start) {
        if !start.nodes.is_empty() {
            first += &format!(" on {}", start.nodes);
        }
        if let Some(end) = start.ends_at {
            let end = SystemTime::UNIX_EPOCH + Duration::from_secs(end);
            first += &format!(", ends at {} at the latest", humantime::format_rfc3339_seconds(end));
        }
    }
    let _ = writeln!(text, "{}", armature_text::line(first));
    let mut row = |head: &str, line: String| {
        if !line.is_empty() {
            let _ = writeln!(text, "  {head:<10} {}", armature_text::line(line));
        }
    };
    if stage != Stage::Finished {
        row("why", reason);
    }
    if let Some(status) = &facts.status {
        let age = age(run).map(|age| format!("   [written {age} ago]")).filter(|_| stage == Stage::Running);
        row("progress", format!("{} done{}", status.done, age.unwrap_or_default()));
        let lost: Vec<String> = status.lost.iter().map(ToString::to_string).collect();
        let lost = if lost.is_empty() { "none lost".into() } else { format!("lost: {}", lost.join(", ")) };
        row("ranks", format!("{}, {lost}", status.ranks));
    }
    for (n, number) in run.attempts().into_iter().enumerate() {
        let end = match Attempt::of(run, number).end() {
            Some(end) => {
                format!("{number:>3} {:>10}  {}, {} done", duration(end.seconds), why(&end), end.done)
            }
            None if stage == Stage::Running && number == facts.attempt => {
                format!("{number:>3}             running")
            }
            None => format!("{number:>3}             without a record of its end"),
        };
        row(if n == 0 { "attempts" } else { "" }, end);
    }
    let ended = facts.end.as_ref().filter(|_| stage.has_ended());
    row("try", ended.and_then(|end| advice(end, &name)).unwrap_or_default());
    match (stage, facts.attempt) {
        (Stage::Failed, 0) => row("see", format!("armature logs {name}")),
        (Stage::Failed, number) => {
            row("see", format!("armature logs {name}@{number}, armature explain {name}@{number}"));
        }
        _ => {}
    }
}

/// Returns the time since the ranks last wrote their status file, as text.
fn age(run: &RunDirectory) -> Option<String> {
    let file = Attempt::newest(run)?.directory().join(armature::job_status::EVENTS_COPY);
    let age = std::fs::metadata(file).ok()?.modified().ok()?.elapsed().ok()?;
    Some(duration(age.as_secs_f64()))
}

/// Formats seconds in the form `2:05:09` or `12:40`.
fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

fn json(text: &mut String, run: &RunDirectory, facts: &Facts) {
    let (stage, why) = stage(facts);
    let attempts: Vec<_> = run
        .attempts()
        .into_iter()
        .map(|number| serde_json::json!({ "number": number, "end": Attempt::of(run, number).end() }))
        .collect();
    let object = serde_json::json!({
        "schema": 1,
        "name": run.name(),
        "directory": run.path().display().to_string(),
        "state": stage.word(),
        "why": why,
        "code": facts.end.as_ref().filter(|_| stage.has_ended()).map(|end| end.code),
        "job": facts.batch.as_ref().map(|batch| &batch.job),
        "done": facts.status.as_ref().map(|status| status.done),
        "attempts": attempts,
    });
    let _ = writeln!(text, "{object}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_formatted_briefly() {
        assert_eq!([0.4, 61.0, 7509.0].map(duration), ["0:00", "1:01", "2:05:09"]);
    }
}
