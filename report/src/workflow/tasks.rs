//! Tasks of a workflow by rank: as planned and, directly below, as they ran.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

use armature::observe::PlannedTask;

use crate::run::{Run, TaskRun};
use crate::svg::{BoxStyle, Strip, StripBox, StripRow};
use crate::tables::shown_of;
use crate::units::time;

/// Maximum number of ranks whose tasks are drawn. More rows would not fit on a screen.
const RANKS: usize = 32;
/// Maximum number of rows for concurrent tasks of a rank. Further concurrent tasks are drawn over others in the last row.
const SLOTS: usize = 8;
/// Maximum number of drawn tasks for which the tooltip describes waiting times. The texts take about 80 bytes each.
const DESCRIBED: usize = 3000;
/// Number of colours of the style sheet for kinds of tasks.
const COLOURS: usize = 8;

/// Tasks of a workflow as a strip chart, with its captions.
pub(crate) struct Tasks {
    pub(crate) strip: Strip,
    /// Kinds of tasks with the number of their colour, the one with the longest total time first.
    pub(crate) kinds: Vec<(String, u8)>,
    /// Sentences on the plans of the run and on the number of tasks that are not drawn.
    pub(crate) about: String,
}

/// Returns the tasks of a workflow, at most `most` planned ones and `most` attempts; `None` if there are none.
pub(crate) fn tasks(run: &Run, path: &[usize], most: usize) -> Option<Tasks> {
    if run.tasks.is_empty() {
        return None;
    }
    let (kinds, colours) = kinds(run);
    let (planned, left_out) = planned_boxes(run, most, &colours);
    let (actual, drawn) = actual_boxes(run, path, most, &colours);
    let mut rows = Vec::new();
    for (rank, (plan, boxes)) in planned.into_iter().zip(actual).enumerate() {
        let name = format!("rank {rank}");
        let plan_rows =
            slots(plan).into_iter().map(|boxes| StripRow { name: name.clone(), boxes, is_plan: true });
        rows.extend(plan_rows);
        for (slot, boxes) in slots(boxes).into_iter().enumerate() {
            let name = if slot == 0 { name.clone() } else { String::new() };
            rows.push(StripRow { name, boxes, is_plan: false });
        }
    }
    let ends = rows.iter().flat_map(|row| &row.boxes).map(|one| one.end).filter(|end| end.is_finite());
    let to = ends.fold(run.seconds, f64::max);
    let about = [
        plans_text(run),
        left_out,
        shown_of(run.ranks.len(), RANKS, "ranks"),
        shown_of(run.tasks.len(), drawn, "attempts of tasks, those of the critical path and the longest"),
    ];
    let about = about.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ");
    let title = if run.schedules.is_empty() { "Tasks" } else { "Tasks, each rank's plan above its run" };
    Some(Tasks { strip: Strip { title: title.into(), to, rows }, kinds, about })
}

/// Returns the kind of a task: its name without the number at the end.
fn kind_of(task: &str) -> &str {
    let kind = task.trim_end_matches(|c: char| c.is_ascii_digit() || "-_.#,[]() ".contains(c));
    if kind.is_empty() { task } else { kind }
}

/// Returns the kinds of tasks with their colours, for a legend and by name. If there are too many kinds, those with the shortest total time share
/// the last colour.
fn kinds(run: &Run) -> (Vec<(String, u8)>, HashMap<&str, u8>) {
    let mut total: HashMap<&str, f64> = HashMap::new();
    for task in &run.tasks {
        *total.entry(kind_of(&task.task)).or_default() += end_of(run, task) - task.begin;
    }
    let mut order: Vec<(&str, f64)> = total.into_iter().collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    let colour = |n: usize| n.min(COLOURS - 1) as u8;
    let mut legend: Vec<(String, u8)> = order
        .iter()
        .take(COLOURS)
        .enumerate()
        .map(|(n, (kind, _))| ((*kind).to_string(), colour(n)))
        .collect();
    if order.len() > COLOURS {
        legend[COLOURS - 1].0 = format!("{} other kinds", order.len() + 1 - COLOURS);
    }
    (legend, order.iter().enumerate().map(|(n, (kind, _))| (*kind, colour(n))).collect())
}

fn end_of(run: &Run, task: &TaskRun) -> f64 {
    task.end.unwrap_or(run.seconds).max(task.begin)
}

/// Distributes boxes among rows, so that the boxes of a row do not overlap. At most [`SLOTS`] rows are returned; further boxes are in the last row
/// and overlap others.
fn slots(mut boxes: Vec<StripBox>) -> Vec<Vec<StripBox>> {
    boxes.sort_by(|a, b| a.begin.total_cmp(&b.begin));
    let mut rows: Vec<Vec<StripBox>> = Vec::new();
    for one in boxes {
        let is_free = |row: &Vec<StripBox>| row.last().is_none_or(|last| last.end <= one.begin);
        match rows.iter().position(is_free) {
            Some(slot) => rows[slot].push(one),
            None if rows.len() < SLOTS => rows.push(vec![one]),
            None => rows[SLOTS - 1].push(one),
        }
    }
    rows
}

/// Returns the boxes of the first plan by rank, and a sentence on the number of omitted ones.
fn planned_boxes(run: &Run, most: usize, colours: &HashMap<&str, u8>) -> (Vec<Vec<StripBox>>, String) {
    let mut ranks = vec![Vec::new(); run.ranks.len().min(RANKS)];
    let Some((at, plan)) = run.schedules.first() else { return (ranks, String::new()) };
    let mut tasks: Vec<(usize, &PlannedTask)> = plan.longest.iter().enumerate().collect();
    tasks.sort_by_key(|(n, task)| (Reverse(step(task.end_s - task.begin_s)), n.reverse_bits()));
    tasks.truncate(most);
    let left_out = shown_of(plan.tasks as usize, tasks.len(), "planned tasks, the longest");
    for (_, task) in tasks {
        let Some(its) = ranks.get_mut(task.rank) else { continue };
        its.push(StripBox {
            begin: at + task.begin_s,
            end: at + task.end_s,
            text: task.task.clone(),
            about: String::new(),
            style: BoxStyle::Colour(colours.get(kind_of(&task.task)).copied().unwrap_or(COLOURS as u8 - 1)),
        });
    }
    (ranks, left_out)
}

/// Returns the boxes of the attempts by rank, and the number of attempts that are drawn.
fn actual_boxes(
    run: &Run,
    path: &[usize],
    most: usize,
    colours: &HashMap<&str, u8>,
) -> (Vec<Vec<StripBox>>, usize) {
    let on_path: HashSet<usize> = path.iter().copied().collect();
    let mut ranks = vec![Vec::new(); run.ranks.len().min(RANKS)];
    let mut drawn: Vec<usize> = (0..run.tasks.len()).filter(|&n| run.tasks[n].rank < ranks.len()).collect();
    // If there are too many attempts to draw, those on the critical path are preferred, then the longest ones.
    let length = |n: usize| end_of(run, &run.tasks[n]) - run.tasks[n].begin;
    drawn.sort_by_key(|&n| (!on_path.contains(&n), Reverse(step(length(n))), n.reverse_bits()));
    drawn.truncate(most);
    for (place, &n) in drawn.iter().enumerate() {
        let task = &run.tasks[n];
        let colour = colours.get(kind_of(&task.task)).copied().unwrap_or(0);
        let style = match (task.failure.is_some(), on_path.contains(&n)) {
            (true, _) => BoxStyle::Failed,
            (false, true) => BoxStyle::Critical(colour),
            (false, false) => BoxStyle::Colour(colour),
        };
        let about =
            if place < DESCRIBED || task.failure.is_some() { attempt_text(task) } else { String::new() };
        let (begin, end) = (task.begin, end_of(run, task));
        ranks[task.rank].push(StripBox { begin, end, text: task.task.clone(), about, style });
    }
    (ranks, drawn.len())
}

/// Returns the class of a duration on a logarithmic scale with eight classes per factor of two. Durations of one class count as equal, so that the
/// drawn tasks of equal length are spread over the run.
fn step(seconds: f64) -> i64 {
    (8.0 * seconds.log2()).floor() as i64
}

/// Describes an attempt of a task: its number, its waiting times and its failure.
pub(super) fn attempt_text(task: &TaskRun) -> String {
    let mut parts = Vec::new();
    if task.attempt > 0 {
        parts.push(format!("attempt {}", task.attempt + 1));
    }
    let waits: Vec<String> = task.waits.iter().map(ToString::to_string).collect();
    if !waits.is_empty() {
        parts.push(format!("waited {}", waits.join(", ")));
    }
    parts.extend(task.failure.as_ref().map(|why| format!("failed: {why}")));
    parts.join("; ")
}

/// Returns sentences that compare the planned and the measured time of the run.
fn plans_text(run: &Run) -> String {
    let Some((at, plan)) = run.schedules.first() else { return String::new() };
    // The planner's prediction for the whole plan is preferred, because the event with the plan
    // lists only a part of a long plan's tasks.
    let ends = run.plans.iter().find(|(planned_at, _)| planned_at == at).map_or_else(
        || plan.longest.iter().map(|task| at + task.end_s).fold(*at, f64::max),
        |(_, ends)| *ends,
    );
    let what = if run.has_ended { "took" } else { "has lasted, as far as the log shows," };
    let mut text = format!("The initial plan predicts {}; the run {what} {}.", time(ends), time(run.seconds));
    match run.schedules.len() {
        1 => {}
        2 => text += " One more plan was made during the run; the first one is drawn.",
        plans => {
            let _ =
                write!(text, " {} more plans were made during the run; the first one is drawn.", plans - 1);
        }
    }
    text
}
