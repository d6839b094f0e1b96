//! Explains the decisions of a run and their reasons: prints the events of its log as sentences.

use std::fmt::Write;

use armature::observe::number_format::seconds;
use armature::observe::{Event, Log, Record};
use armature_report::{Run, critical_path_text, diagnosis, moment};
use armature_text::line;

const WIDTH: usize = 110;
const INDENT: usize = 23;
/// Duration in seconds from which on the set-up of a pipeline stage is shown by default. Most stages are set up in microseconds, on each of their ranks.
const NOTABLE: f64 = 0.001;

/// Returns the event log as text: the start of each run, its decisions, the changes of its mapping (of pipeline stages to ranks), and their results.
/// With `all` also the decisions against a change, the measurements behind them, and every step.
pub fn explain(log: &Log, all: bool) -> String {
    let mut text = String::new();
    let several = log.records.iter().any(|r| r.run > 0);
    for records in log.records.chunk_by(|a, b| a.run == b.run) {
        if several {
            let _ = writeln!(text, "run {}", records[0].run + 1);
        }
        run(&mut text, records, all);
    }
    if log.records.is_empty() {
        text.push_str("The log is empty: the run has just begun, or failed at once.\n");
    }
    for run in Run::all(&log.records).iter().filter(|run| run.has_activity() || !run.tasks.is_empty()) {
        let name = if several { format!("run {}: ", run.number + 1) } else { String::new() };
        if run.has_activity() {
            let _ = writeln!(text, "{name}{}", line(diagnosis(run)));
        }
        if let Some(path) = critical_path_text(run) {
            let _ = writeln!(text, "{name}{}", line(path));
        }
    }
    for note in &log.notes {
        let _ = writeln!(text, "note: {}", line(note));
    }
    text
}

/// Returns the history of a workflow's task: what it waited for, where it ran, how it ended and where its results went. `None` if the log
/// has no event of the task.
pub fn explain_task(log: &Log, task: &str) -> Option<String> {
    let mut text = String::new();
    let of_task = log.records.iter().filter(|record| record.event.task() == Some(task));
    of_task.for_each(|record| sentence(&mut text, record));
    (!text.is_empty()).then_some(text)
}

/// Returns the state of each run at the time `at`, in seconds since its beginning: the mapping or plan, running and waiting tasks, and the decisions
/// before and after. `None` if no run covers that time.
pub fn explain_at(log: &Log, at: f64) -> Option<String> {
    let mut text = String::new();
    for run in &Run::all(&log.records) {
        let Some(lines) = moment(run, at) else { continue };
        let _ = writeln!(text, "Run {} at {}, of {}:", run.number + 1, seconds(at), seconds(run.seconds));
        lines.iter().for_each(|line| broken(&mut text, "", line));
    }
    (!text.is_empty()).then_some(text)
}

fn run(text: &mut String, records: &[Record], all: bool) {
    let (mut kept, mut left_out) = (0, 0);
    for record in records {
        match &record.event {
            Event::Decision { acted, .. } => *if *acted || all { &mut kept } else { &mut left_out } += 1,
            event if is_change(event) => kept += 1,
            _ => {}
        }
        // Events about the activity of ranks (computing, waiting) are shown in the figures of reports only.
        if !record.event.is_of_activity() && (all || is_essential(&record.event)) {
            sentence(text, record);
        }
    }
    if left_out > 0 {
        let _ = writeln!(
            text,
            "{left_out} {} against a change {} not shown; --all shows {}.",
            if left_out == 1 { "decision" } else { "decisions" },
            if left_out == 1 { "is" } else { "are" },
            if left_out == 1 { "it" } else { "them" },
        );
    } else if kept == 0 {
        text.push_str("No decision was made during the run.\n");
    }
    if !records.iter().any(|r| r.event.is_end()) {
        text.push_str("The log does not contain the end of the run: it has failed or is still running.\n");
    }
}

/// Returns true for an event that changes how work is distributed over the ranks. It is shown even if the log lacks the decision for it.
fn is_change(event: &Event) -> bool {
    match event {
        // Epoch 1 is the mapping of stages to ranks with which the pipeline starts.
        Event::Switch { epoch, .. } => *epoch > 1,
        Event::Chunks { .. } | Event::Lost { .. } | Event::Planned(_) | Event::Moved { .. } => true,
        Event::Parked { .. } | Event::Woken { .. } | Event::Split { .. } | Event::Grain { .. } => true,
        _ => false,
    }
}

fn is_essential(event: &Event) -> bool {
    match event {
        Event::Decision { acted, .. } => *acted,
        // A `HandOver` event of the rank that sent the pipeline stage has the same content and is shown.
        Event::TakeOver { .. } => false,
        Event::Measured { .. } | Event::Link { .. } => false,
        Event::Prepare { .. } | Event::Ready { .. } => false,
        Event::WarmUp { seconds, .. } => *seconds >= NOTABLE,
        Event::TaskEnded(ended) => ended.failure.is_some(),
        // A `Planned` event of the planner has the same content and is shown.
        Event::Plan(_) => false,
        Event::TaskHeld(_) | Event::TaskBegan(_) | Event::Held(_) | Event::Totals { .. } => false,
        Event::ValueCame(_) | Event::ValueSpilled(_) | Event::ValueLoaded(_) => false,
        _ => true,
    }
}

fn sentence(text: &mut String, record: &Record) {
    let head = format!("{:>9.3} s  rank {}", record.at, record.rank);
    broken(text, &format!("{head:<width$}", width = INDENT - 1), &record.event.to_string());
}

/// Breaks a long sentence into lines. Following lines are indented to its first word.
fn broken(text: &mut String, head: &str, sentence: &str) {
    let indent = head.chars().count().max(4);
    let mut line = head.to_string();
    for chunk in
        armature_text::line(sentence).split(' ').collect::<Vec<_>>().chunk_by(|a, _| a.parse::<f64>().is_ok())
    {
        // A number and its unit stay on one line of the text.
        let chunk = chunk.join(" ");
        if line.chars().count() + 1 + chunk.chars().count() > WIDTH && !line.trim_start().is_empty() {
            let _ = writeln!(text, "{line}");
            line = " ".repeat(indent);
        }
        line.push(' ');
        line.push_str(&chunk);
    }
    let _ = writeln!(text, "{line}");
}
