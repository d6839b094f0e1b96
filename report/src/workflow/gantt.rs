//! Gantt chart of a workflow: tasks by rank as planned and, below on the same axis, as they ran, with the critical path.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::fmt::Write;

use armature::observe::number_format::seconds;
use armature::observe::{PlanInForce, PlannedTask};

use super::panel::{Bar, Panel, RANKS, Scale, panel};
use crate::run::{Run, TaskRun};
use crate::svg::{WIDTH, escaped, open};
use crate::tables::shown_of;

/// Maximum number of tasks that are drawn in all panels (planned and actual run) of the chart. A task takes about 300 bytes, and more tasks could not
/// be distinguished.
const MAX_DRAWN: usize = 3000;
/// Maximum number of tasks that are drawn in the panel of a plan. They are included in [`MAX_DRAWN`].
const MAX_DRAWN_PER_PLAN: usize = 750;
/// Height of the heading of a panel (planned or actual run).
const HEADING_HEIGHT: f64 = 18.0;

/// Gantt chart of a workflow with its captions.
pub(crate) struct Gantt {
    pub(crate) svg: String,
    /// Description of the workflow's plans in one or two sentences; empty if the log has no plan.
    pub(crate) planned: String,
    /// Sentences on the number of tasks that are not drawn.
    pub(crate) shown: String,
}

/// Returns the Gantt chart of a workflow, or `None` if there are no tasks. If a page has several charts, the maximum number of tasks is divided
/// evenly among them.
pub(crate) fn gantt(run: &Run, path: &[usize], charts: usize) -> Option<Gantt> {
    if run.tasks.is_empty() {
        return None;
    }
    let charts = charts.max(1);
    // Only the first and the last plan of the run are drawn.
    let mut schedules: Vec<&(f64, PlanInForce)> = run.schedules.iter().collect();
    if schedules.len() > 2 {
        schedules.drain(1..schedules.len() - 1);
    }
    let ends = schedules.iter().flat_map(|(at, plan)| plan.longest.iter().map(move |task| at + task.end_s));
    let to = ends.filter(|end| end.is_finite()).fold(run.seconds, f64::max);
    let scale = Scale { to: if to > 0.0 { to } else { 1.0 }, ranks: run.ranks.len().min(RANKS) };
    let (mut panels, mut left_out) = (Vec::new(), Vec::new());
    for (n, (at, plan)) in schedules.iter().enumerate() {
        let what = match n {
            0 if schedules.len() == 1 => "planned".to_string(),
            0 => "initial plan".to_string(),
            _ => format!("final plan, after {}", seconds(*at)),
        };
        let most = MAX_DRAWN_PER_PLAN / charts;
        let bars = planned_bars(*at, plan, most);
        left_out.push(shown_of(plan.tasks as usize, bars.len(), &format!("tasks {what}, the longest")));
        panels.push((what, panel(&bars, &scale)));
    }
    let bars = actual_bars(run, path, (MAX_DRAWN - MAX_DRAWN_PER_PLAN * panels.len()) / charts);
    let of = "tries of tasks, those of the critical path and the longest";
    left_out.push(shown_of(run.tasks.len(), bars.len(), of));
    panels.push(("actual run".to_string(), panel(&bars, &scale)));

    let height = panels.iter().map(|(_, panel)| HEADING_HEIGHT + panel.height).sum();
    let mut svg = open(WIDTH, height, "Tasks of each rank, planned and as they ran");
    let mut top = 0.0;
    let has_several = panels.len() > 1;
    for (what, Panel { elements, height }) in panels {
        if has_several {
            let _ =
                write!(svg, r#"<text class="head" x="4" y="{:.1}">{}</text>"#, top + 13.0, escaped(&what));
        }
        top += HEADING_HEIGHT;
        let _ = write!(svg, r#"<g transform="translate(0 {top:.1})">{elements}</g>"#);
        top += height;
    }
    let planned = plans_text(run);
    left_out.retain(|text| !text.is_empty());
    Some(Gantt { svg: svg + "</svg>", planned, shown: left_out.join(" ") })
}

/// Returns a sentence that compares the planned and the measured time of the run.
fn plans_text(run: &Run) -> String {
    let Some((at, plan)) = run.schedules.first() else { return String::new() };
    // The planner's prediction for the whole plan is preferred, because the event with the plan
    // lists only a part of a long plan's tasks.
    let ends = run.plans.iter().find(|(planned_at, _)| planned_at == at).map_or_else(
        || plan.longest.iter().map(|task| at + task.end_s).fold(*at, f64::max),
        |(_, ends)| *ends,
    );
    let what = if run.has_ended { "took" } else { "has lasted, as far as the log shows," };
    let mut text =
        format!("The initial plan predicts {}; the run {what} {}.", seconds(ends), seconds(run.seconds));
    match run.schedules.len() {
        1 => {}
        2 => text += " One more plan was made during the run; it is below the first.",
        plans => {
            let _ = write!(
                text,
                " {} more plans were made during the run; the last one is below the first.",
                plans - 1
            );
        }
    }
    text
}

fn planned_bars(at: f64, plan: &PlanInForce, most: usize) -> Vec<Bar<'_>> {
    let tasks = plan.longest.iter().enumerate().filter(|(_, task)| task.rank < RANKS);
    let mut tasks: Vec<(usize, &PlannedTask)> = tasks.collect();
    tasks.sort_by_key(|(n, task)| (Reverse(step(task.end_s - task.begin_s)), n.reverse_bits()));
    tasks.truncate(most);
    tasks.sort_by(|a, b| a.1.begin_s.total_cmp(&b.1.begin_s));
    let mut bars = Vec::with_capacity(tasks.len());
    for (_, task) in tasks {
        let (begin, end) = (at + task.begin_s, at + task.end_s);
        let title = format!("{}, planned from {} to {}", task.task, seconds(begin), seconds(end));
        bars.push(Bar {
            name: &task.task,
            rank: task.rank,
            begin,
            end,
            class: "plan",
            title,
            is_on_path: false,
        });
    }
    bars
}

fn actual_bars<'r>(run: &'r Run, path: &[usize], most: usize) -> Vec<Bar<'r>> {
    let on_path: HashSet<usize> = path.iter().copied().collect();
    let end = |task: &TaskRun| task.end.unwrap_or(run.seconds).max(task.begin);
    let mut drawn: Vec<usize> = (0..run.tasks.len()).filter(|&n| run.tasks[n].rank < RANKS).collect();
    // If there are too many attempts to draw, those on the critical path are preferred, then the longest ones.
    let length = |n: usize| end(&run.tasks[n]) - run.tasks[n].begin;
    drawn.sort_by_key(|&n| (!on_path.contains(&n), Reverse(step(length(n))), n.reverse_bits()));
    drawn.truncate(most);
    drawn.sort_by(|&a, &b| run.tasks[a].begin.total_cmp(&run.tasks[b].begin));
    let bar = |n: usize| {
        let task = &run.tasks[n];
        let is_on_path = on_path.contains(&n);
        let class = match (is_on_path, task.failure.is_some()) {
            (_, true) => "fail",
            (true, false) => "crit",
            (false, false) => "b0",
        };
        let title = attempt_text(task, end(task));
        Bar { name: &task.task, rank: task.rank, begin: task.begin, end: end(task), class, title, is_on_path }
    };
    drawn.into_iter().map(bar).collect()
}

/// Returns the class of a duration on a logarithmic scale with eight classes per factor of two. Durations of one class count as equal, so that the
/// drawn tasks of equal length are spread over the run.
fn step(seconds: f64) -> i64 {
    (8.0 * seconds.log2()).floor() as i64
}

/// Returns the text of the tooltip for an attempt of a task.
pub(super) fn attempt_text(task: &TaskRun, end: f64) -> String {
    let mut text = format!("{} from {} to {}", task.task, seconds(task.begin), seconds(end));
    if task.attempt > 0 {
        let _ = write!(text, ", try {}", task.attempt + 1);
    }
    for (n, wait) in task.waits.iter().enumerate() {
        let _ = write!(text, "{} {wait}", if n == 0 { "; it waited" } else { "," });
    }
    if let Some(why) = &task.failure {
        let _ = write!(text, "; it failed: {why}");
    }
    text
}
